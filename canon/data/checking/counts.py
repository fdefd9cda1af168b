"""The counting of `check`, one function per kind of data, each filling its part of the report.

A mistake in the data becomes a warning and the counting goes on. Text is streamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from canon.data import column_plan, columns
from canon.data.checking import measure
from canon.data.checking.report import CheckReport
from canon.data.column_encoders import CentredLabels, DateColumn
from canon.data.corpus.text_blocks import TextStream
from canon.data.formats import images
from canon.data.formats.files import encoding_of, lines, open_bytes, read_raw
from canon.data.formats.tables import Table, canonical
from canon.data.progress import bar
from canon.data.source import SPLITS, ImageSource, Source, TableSource
from canon.data.splits import choose, held_count, held_out_shares
from canon.errors import CanonError

Stream = Callable[[], Iterator[str]]  # texts, from the start each time it is called
Digests = dict[str, np.ndarray]  # of the examples of each split


# Tables


def count_table(report: CheckReport, config: Any, source: TableSource) -> None:
    report.kind = "table"
    tables: dict[str, Table] = source.parts
    train = tables["train"]
    label, note = columns.choose_label(train, config.label or source.label)
    if columns.is_number(train, label):
        note = f"{note} It is a number to predict.".lstrip()
    report.decided += [note] if note else []
    classes = _class_names(train, label)
    chosen, _ = choose(source, config, columns.class_codes(train, label, classes) if classes else None)
    report.splits = {name: len(rows) for name, (_, rows) in chosen.items()}
    kinds = _decided(report, config, source, label, chosen["train"][1])
    with bar("checking columns", len(train.names)) as progress:
        report.columns = [_column(report, train, name, kinds.get(name, "")) for name in progress.over(train.names)]
    for split, (part, rows) in chosen.items() if classes else ():
        if label in tables[part]:
            counts: Counter[str] = Counter()
            texts, codes = tables[part].factor(label)
            for text, count in zip(texts, np.bincount(codes[rows], minlength=len(texts)).tolist(), strict=True):
                counts[canonical(text)] += count
            report.classes[split] = {name: counts[name] for name in classes} | {
                name: count for name, count in sorted(counts.items()) if count and name not in classes
            }
    _check_rows(report, tables, chosen, label)
    if any(column["kind"] == "text" and column["name"] != label for column in report.columns):
        name = columns.choose_text(train, source.features[:1] if source.features else (), label)
        streams = {split: partial(tables[part].stream, name, np.sort(rows)) for split, (part, rows) in chosen.items()}
        _measure_texts(report, streams)


def _class_names(table: Table, label: str) -> tuple[str, ...]:
    """The classes of the label, or () if it is a number to predict or has a mistake, which no encoding accepts."""
    try:
        if len(table.names) == 1 or columns.has_fractions(table, label):
            return ()
        classes = columns.class_names(table, label)
        columns.class_codes(table, label, classes)
        return classes
    except CanonError:
        return ()


def _decided(report: CheckReport, config: Any, source: TableSource, label: str, rows: np.ndarray) -> dict[str, str]:
    """What each column becomes, and notes on it; nothing where the columns have a mistake, which `suits` reports."""
    train: Table = source.parts["train"]
    features = config.features or source.features
    try:
        names = columns.choose_features(train, features, label)
        labels = CentredLabels.of(np.zeros(len(rows)), 0)
        number = label if columns.is_number(train, label) else ""
        decided = column_plan.plan(train, names, rows, config.missing, labels, bool(features), label=number)
    except CanonError:
        return {}
    report.decided += decided.notes
    return decided.kinds


def _column(report: CheckReport, table: Table, name: str, decided: str) -> dict[str, Any]:
    """decided: what the column becomes as a feature, where that is known."""
    values, _ = table.numbers(name)
    facts = table.facts(name)
    if not facts.bad:
        kind, missing, distinct = decided or "number", facts.missing, measure.distinct(measure.number_digests(values))
        if facts.infinite:
            report.warn(str(table.mistake(facts.first_infinite, f'column "{name}" is infinite.')))
    else:
        missing, distinct = table.count_blank(name), measure.distinct(table.digests(name))
        is_text = columns.is_text(table, name) and decided != DateColumn.kind
        kind = "text" if is_text else decided or "category"
    if missing:
        report.warn(f'column "{name}" has {missing:,} missing values.')
    if distinct == 1:
        report.warn(f'column "{name}" has the same value in every row.')
    return {"name": name, "kind": kind, "missing": missing, "distinct": distinct}


def _check_rows(report: CheckReport, tables: dict[str, Table], chosen: dict, label: str) -> None:
    whole: dict[str, np.ndarray] = {}
    inputs: dict[str, np.ndarray] = {}
    shared = [name for name in tables["train"].names if all(name in table for table in tables.values())]
    if not shared:
        report.warn("the parts have no column in common.")
        return
    numeric = {name for name in shared if not any(table.facts(name).bad for table in tables.values())}
    with bar("comparing rows", len(tables) * len(shared)) as progress:
        for part, table in tables.items():
            whole[part], inputs[part] = (np.zeros(len(table), dtype=np.uint64) for _ in range(2))
            for name in progress.over(shared):
                cells = measure.number_digests(table.numbers(name)[0]) if name in numeric else table.digests(name)
                whole[part] = measure.mixed(whole[part], cells)
                if name != label or len(shared) == 1:
                    inputs[part] = measure.mixed(inputs[part], cells)
    taken = ({split: digests[part][rows] for split, (part, rows) in chosen.items()} for digests in (whole, inputs))
    _count_equal(report, *taken)
    report.conflicts = measure.distinct(whole["train"]) - measure.distinct(inputs["train"])
    if report.conflicts:
        report.warn(f"{report.conflicts:,} rows have the same inputs as another row but not its label.")


def _count_equal(report: CheckReport, whole: Digests, inputs: Digests | None = None) -> None:
    """Duplicates by whole examples, overlap by inputs (the same, unless given)."""
    inputs = inputs or whole
    for split in whole:
        report.duplicates[split] = measure.duplicates(whole[split])
        if split != "train":
            report.overlap[split] = measure.overlap(inputs["train"], inputs[split])


# Images


def count_image_files(report: CheckReport, config: Any, folder: Path) -> None:
    """Every file is opened and decoded, so that all the bad ones are named, not the first."""
    listed, classes = images.list_folder(folder)
    report.kind = "images"
    sizes: Counter[str] = Counter()
    digests: Digests = {}
    bad: list[str] = []
    with bar("checking images", sum(len(paths) for paths, _ in listed.values())) as progress:
        for split, (paths, labels) in listed.items():
            report.splits[split] = len(paths)
            if classes:
                counts = np.bincount(labels, minlength=len(classes)).tolist()
                report.classes[split] = dict(zip(classes, counts, strict=True))
            for shape in images.probe(paths):
                progress.advance()
                if isinstance(shape, CanonError):
                    bad.append(str(shape))
                else:
                    sizes[shape] += 1
            digests[split] = measure.digests(map(read_raw, paths))
    _count_equal(report, digests)
    report.image_sizes = dict(sizes.most_common())
    report.warnings += bad[:10] + ([f"{len(bad) - 10:,} more files cannot be read."] if len(bad) > 10 else [])


def count_arrays(report: CheckReport, config: Any, source: ImageSource) -> None:
    report.kind = "images"
    labels = source.parts["train"].labels
    chosen, _ = choose(source, config, labels)
    digests: Digests = {}
    for split, (part, rows) in chosen.items():
        report.splits[split] = len(rows)
        pixels, codes = source.parts[part].pixels[rows], source.parts[part].labels
        if codes is not None:
            counts = np.bincount(codes[rows], minlength=len(source.classes))
            report.classes[split] = dict(zip(source.classes, counts.tolist(), strict=True))
        digests[split] = measure.array_digests(pixels)
        shape = f"{pixels.shape[2]} x {pixels.shape[3]} x {pixels.shape[1]}"
        report.image_sizes[shape] = report.image_sizes.get(shape, 0) + len(rows)
    _count_equal(report, digests)


# TextStream with labels


def count_labelled(report: CheckReport, config: Any, source: Source) -> None:
    """Of fastText's lines; a table's texts are counted with the table."""
    report.kind = "documents"
    labels_of = [labels[0] if len(labels) == 1 else "" for labels in source.parts["train"].labels]
    chosen, _ = choose(source, config, np.unique(labels_of, return_inverse=True)[1] if all(labels_of) else None)
    texts: dict[str, np.ndarray] = {}
    whole: Digests = {}
    inputs: Digests = {}
    for split, (part, rows) in chosen.items():
        examples = source.parts[part]
        report.splits[split] = len(rows)
        report.classes[split] = dict(Counter(examples.counts(rows)).most_common())
        texts[split] = np.array([*examples.first, None], dtype=object)[rows]
        inputs[split] = measure.digests(texts[split])
        labels = measure.digests("\0".join(examples.labels[row]) for row in rows.tolist())
        whole[split] = measure.mixed(measure.mixed(np.zeros_like(labels), inputs[split]), labels)
    empty = sum(not text for text in texts["train"])
    if empty:
        report.warn(f"{empty:,} training texts are empty.")
    _count_equal(report, whole, inputs)
    _measure_texts(report, {split: partial(iter, rows) for split, rows in texts.items()})


# Text


def count_text(report: CheckReport, config: Any, source: Source) -> None:
    report.kind = "text"
    in_memory = any(part.documents for part in source.parts.values())
    files = [] if in_memory else [file for part in source.parts.values() for file in part.files]
    try:
        if files:
            _measure_lines(report, (line for file in files for line in lines(file, config.encoding)))
        _measure_documents(report, config, source)
    except CanonError as mistake:
        report.warn(str(mistake))
        for file in files:
            _count_bad_lines(report, file, config.encoding)


def _documents(text: TextStream, start: int = 0, stop: int | None = None) -> Iterator[str]:
    from canon.data.corpus.token_blocks import documents

    return (document for _, document in islice(documents(text), start, stop))


def _measure_lines(report: CheckReport, source: Iterator[str]) -> None:
    digests = measure.digests(line if line.strip() else "" for line in source)
    filled = digests[digests != hash("")]
    report.lines = {"all": len(digests), "empty": len(digests) - len(filled), "repeated": measure.duplicates(filled)}


def _measure_documents(report: CheckReport, config: Any, source: Source) -> None:
    """Parts that the source lacks are cut off the end of train, as in training: test, then valid before it."""
    streams: dict[str, Stream] = {split: partial(_documents, part) for split, part in source.parts.items()}
    stop = sum(1 for _ in streams["train"]())
    if not stop:
        report.warn("there is no text.")
        return
    for split, share in held_out_shares(config, source)[0].items():
        if held := held_count(stop, share):
            streams[split] = partial(_documents, source.parts["train"], stop - held, stop)
            stop -= held
    streams["train"] = partial(_documents, source.parts["train"], 0, stop)
    _measure_texts(report, {split: streams[split] for split in SPLITS if split in streams})


def _measure_texts(report: CheckReport, streams: Mapping[str, Stream]) -> None:
    statistics: dict[str, measure.TextStatistics] = {}
    with bar("reading text", 0) as progress:
        for split, stream in streams.items():
            statistics[split] = counted = measure.TextStatistics()
            for text in progress.over(stream()):
                counted.add(text)
        train = statistics["train"]
        if "test" in statistics:
            unseen = (measure.words(text) for text in streams["test"]())
            report.unknown_words = measure.unknown_rate(unseen, train.vocabulary)
    report.vocabulary = len(train.vocabulary)
    if report.vocabulary >= measure.LARGEST_VOCABULARY:
        report.unknown_words = None
        report.notes.append(f"Over {measure.LARGEST_VOCABULARY:,} different words; unknown words were not counted.")
    characters, counts = Counter[int](), Counter[int]()
    for counted in statistics.values():
        characters.update(counted.characters)
        counts.update(counted.word_lengths)
    if characters:
        report.lengths = {"characters": measure.quantiles(characters), "words": measure.quantiles(counts)}
    if not report.splits:
        report.splits = {split: counted.count for split, counted in statistics.items() if counted.count}
        _count_equal(report, {split: counted.digests for split, counted in statistics.items()})


def _count_bad_lines(report: CheckReport, path: Path, encoding: str) -> None:
    total = bad = 0
    encoding = encoding or encoding_of(path)
    with open_bytes(path) as stream:
        for line in stream:
            total += 1
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                bad += 1
    if bad:
        report.warn(f"{path}: {bad:,} of {total:,} lines are not {encoding}.")
