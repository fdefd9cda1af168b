"""Sources of running text for word vectors: named sets, files, folders and table columns to numbered parts.

Nothing is held in memory: a source is a list of files (text_blocks.py), what is made of it lies in a file (corpus.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from canon.data import catalogue
from canon.data.catalogue import CATALOGUE, Dataset
from canon.data.catalogue.builtin import read_builtin
from canon.data.config import DataConfig
from canon.data.corpus.corpus import Built, Corpus, build_parts, encode_text
from canon.data.corpus.text_blocks import Texts
from canon.data.corpus.word_counts import Reader, Told, count, num_threads, tokenizer_of
from canon.data.formats import text
from canon.data.formats.files import ending
from canon.data.formats.files import lines as file_lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.open import file_of, find_path, format_of
from canon.data.schema import Columns, Data, FileRecord, Schema
from canon.data.source import Part, Source, split_of
from canon.data.text.words import Words
from canon.errors import CanonError

USUAL_COUNT = 5  # data.min_count of the recipes
WHAT = {"image": "a set of images", "features": "a table", "pairs": "a set of pairs of texts"}


def read_corpus(config: DataConfig, system: str = "this system", keep: Words | None = None) -> Data:
    """The text of `config.source` in the numbers of its words, and the tests of data.tests.

    keep: words of an earlier run, which stay; `Words` are then those of both texts.
    """
    source = open_corpus(config, system)
    config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
    texts: dict[str, Texts] = {name: part.inputs for name, part in source.parts.items()}
    shares, rule = held_out_shares(config, source)
    built = build_parts(texts, config, shares, keep)
    splits: dict[str, Columns] = {name: {"input": part} for name, part in built.parts.items() if len(part)}
    if 0 < config.limit < len(built.parts["train"]):
        splits["train"] = {"input": built.parts["train"].part(0, config.limit)}
        rule["limit"] = str(config.limit)
    ordered: dict[str, Columns] = {name: splits[name] for name in ("train", "valid", "test") if name in splits}
    files = source.files
    if config.tests:
        from canon.data.formats.word_tests import find_tests, read_tests

        judged = next(name for name in ("test", "valid", "train") if name in ordered)
        ordered[judged] = {**ordered[judged], "tests": read_tests(config.tests)}
        files = (*files, *(FileRecord.of(path) for path in find_tests(config.tests).values()))
    protocol = {
        "source": source.name,
        **source.origin,
        "split": rule,
        "sizes": {name: len(columns["input"]) for name, columns in ordered.items()},
        **({"tests": list(config.tests)} if config.tests else {}),
    }
    notes = (*source.notes, *_notes(built, config, keep), *_told_splits(ordered, rule))
    return Data(source.name, Schema("corpus", (), words=built.words), ordered, files, notes, protocol)


def held_out_shares(config: DataConfig, source: Source) -> tuple[dict[str, float], dict[str, str]]:
    """What is cut off the training text, in this order, and the rule that says so for each part."""
    shares: dict[str, float] = {}
    rule: dict[str, str] = {}
    wanted = {"test": config.test if isinstance(config.test, float) else source.test, "valid": config.valid}
    for name, share in wanted.items():
        if name in source.parts:
            rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            shares[name] = share
            rule[name] = f"the last {share:g}"
    return shares, rule


def _notes(built: Built, config: DataConfig, keep: Words | None) -> list[str]:
    told, words = built.told, built.words
    kept = int(words.counts.sum())
    seen = "seen once or more" if config.min_count == 1 else f"seen {config.min_count:,} times or more"
    different = f"{'over ' if told.forgotten else ''}{told.different:,} different"
    lines = f"{told.sentences:,} line{'' if told.sentences == 1 else 's'}"
    notes = [
        f"The text has {told.words:,} words, {different}, in {lines}.",
        f"{words.size:,} words are kept ({seen}): {kept / max(words.total, 1):.1%} of the training text.",
    ]
    if keep:
        notes[1] = f"{words.size:,} words are kept: the {keep.size:,} of before, and new ones {seen}."
    if told.left:
        notes.append(f"{told.left:,} words are too long for one (over 1,000 bytes) and are left out.")
    if told.forgotten:
        notes.append(
            f"There are too many different words to count all: some seen under {told.forgotten} times are forgotten."
        )
    return notes


def _told_splits(splits: dict[str, Columns], rule: dict[str, str]) -> list[str]:
    places = []
    for name, columns in splits.items():
        corpus = columns["input"]
        assert isinstance(corpus, Corpus)
        places.append(f"{len(corpus):,} {name}")
    how = "; ".join(f"{name}: {told}" for name, told in rule.items())
    return [f"Places (words and line ends): {', '.join(places)}{f' ({how})' if how else ''}."]


def count_corpus(config: DataConfig) -> tuple[Told, int, int]:
    """What the training text has (shares that would be held out among it), and how many words come how often.

    How often: data.min_count, or as often as the recipes of word vectors ask for where it is 1.
    """
    source = open_corpus(config)
    config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
    reader = Reader(config, num_threads())
    least = config.min_count if config.min_count > 1 else USUAL_COUNT
    with TemporaryDirectory() as folder:
        counts, told = count(reader.segment(source.parts["train"].inputs, Path(folder)), reader)
    return told, int((counts.counts >= least).sum()), least


# For a run that was trained


def encode_words(sources: Sequence[str], config: DataConfig, text: bool = False) -> tuple[Columns, list[str]]:
    """Words whose vectors are asked for: given, or in files, however many a line."""
    found: list[str] = []
    for source in sources:
        path = file_of(source, text)
        rows = [source] if path is None else file_lines(path, config.encoding)
        found += [word for row in rows for word in row.split()]
    if config.lowercase:
        found = [word.lower() for word in found]
    column = np.empty(len(found), dtype=object)
    column[:] = found
    return {"input": column}, found


def read_corpus_or_tests(schema: Schema, path: str, config: DataConfig) -> Columns:
    """What a run is evaluated on: a test of word vectors, or a text (its test part, where it has one)."""
    from canon.data.formats import word_tests

    assert schema.words is not None
    place = Path(path).expanduser()
    if path in word_tests.NAMES or (place.is_file() and word_tests.kind_of(place)):
        return {"tests": word_tests.read_tests([path])}
    if path == word_tests.SET:
        return {"tests": word_tests.read_tests(word_tests.NAMES)}
    source = open_corpus(replace(config, source=path, valid=0.0, test=0.0, format="auto"))
    config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
    part = source.parts.get("test") or source.parts["train"]
    return {"input": encode_text(part.inputs, schema.words, config)}


# Sources


def open_corpus(config: DataConfig, system: str = "this system") -> Source:
    """Which files the text is in; the parts are `Texts`."""
    if config.source in CATALOGUE:
        source = _open_named(CATALOGUE[config.source], config, system)
    else:
        path = find_path(config.source)
        source = _source(path.name, _parts(path, config, system), config)
    for name, given in (("valid", config.valid), ("test", config.test)):
        if isinstance(given, str) and given:
            source = _with_part(source, name, find_path(given, named=False), config, system)
    return source


def _with_part(source: Source, name: str, path: Path, config: DataConfig, system: str) -> Source:
    files = _parts(path, config, system)
    other = _source(path.name, {"train": files.get(name) or list(chain(*files.values()))}, config)
    known = {record.name: record for record in (*source.files, *other.files)}
    return replace(
        source,
        parts={**source.parts, name: other.parts["train"]},
        files=tuple(known.values()),
        origin={**source.origin, name: path.name},
    )


def _refuse(name: str, kind: str, system: str) -> CanonError:
    system = system[0].upper() + system[1:] if system == "this system" else system
    return CanonError(f"{system} reads running text, but {name} is {WHAT.get(kind, 'something else')}.")


def _open_named(record: Dataset, config: DataConfig, system: str) -> Source:
    if record.kind == "tests":
        raise CanonError(f"{record.name} tests word vectors and is no text to learn them from; name it in data.tests.")
    if record.kind not in ("text", "table"):
        raise _refuse(record.name, {"images": "image", "pairs": "pairs"}.get(record.kind, "document"), system)
    if record.builtin:
        source = read_builtin(record.name)
        if source.kind == "features" and record.features:
            column = record.features[0]
            parts = {name: Part(part.inputs.texts(column).tolist()) for name, part in source.parts.items()}
            source = replace(source, kind="text", parts=parts)
        if source.kind != "text":
            raise _refuse(record.name, source.kind, system)
        return documents(source)
    folder = catalogue.require(record.name)
    files: dict[str, list[Path]] = {}
    for file in record.files:
        path = catalogue.find_file(folder, file)
        if path is not None:
            catalogue.verify(path, file)
            files.setdefault(file.split, []).append(path)
    wanted = replace(config, features=config.features or record.features[:1], label=config.label or record.label)
    wanted = replace(wanted, format="table" if record.kind == "table" else "text")
    source = _source(record.name, files, wanted, record.columns)
    return replace(source, tokenizers=record.tokenizers)


def documents(source: Source) -> Source:
    """A source whose documents are in memory."""
    parts = {
        name: Part(Texts(documents=part.inputs, name=source.name, records=_of_part(source, name)))
        for name, part in source.parts.items()
    }
    return replace(source, kind="corpus", parts=parts)


def _of_part(source: Source, name: str) -> tuple[FileRecord, ...]:
    return (*source.files, FileRecord(name, 0, name))  # parts of one source are told apart by their names


def _parts(path: Path, config: DataConfig, system: str) -> dict[str, list[Path]]:
    """The files of each split: by their names in a folder, else all as one."""
    if path.is_file():
        kind = format_of(path, config.format)
        if kind not in ("text", "table"):
            raise _refuse(str(path), {"pairs": "pairs"}.get(kind, "image"), system)
        return {"train": [path]}
    tables = [file for file in sorted(path.rglob("*")) if file.is_file() and ending(file) in TABLES]
    tables = [file for file in tables if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    files = tables if tables and config.format != "text" else text.text_files(path)
    if not files:
        raise CanonError(
            f"{path} has no text files ({', '.join((*text.ENDINGS[:-1], *TABLES))}, also with .gz, .xz or .bz2)."
        )
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(split_of(file.relative_to(path)), []).append(file)
    return found if "train" in found and "" not in found else {"train": files}


def _source(name: str, files: dict[str, list[Path]], config: DataConfig, names: Sequence[str] = ()) -> Source:
    tables = config.format != "text" and all(ending(path) in TABLES for path in chain(*files.values()))
    parts: dict[str, Part] = {}
    records: dict[str, FileRecord] = {}
    notes: tuple[str, ...] = ()
    column = ""
    for split, paths in files.items():
        records |= {str(path): FileRecord.of(path) for path in paths}
        texts = Texts(
            tuple(paths),
            tables=tables,
            names=tuple(names),
            encoding=config.encoding,
            delimiter=config.delimiter,
            name=str(paths[0]) if len(paths) == 1 else name,
            records=tuple(records[str(path)] for path in paths),
        )
        if tables and not column:
            column = texts.choose_column(config.features, config.label)
            notes = (f'The text is the column "{column}".',)
        parts[split] = Part(replace(texts, column=column))
    return Source(name, "corpus", parts, files=tuple(records.values()), notes=notes)
