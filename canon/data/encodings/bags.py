"""Bags of words: texts with labels cut into words and numbered by the training split, for the fastText classifier.

Labels are numbered by falling frequency in the training split, ties by the alphabet: fastText's order, which its
hierarchical softmax needs. The vocabulary is of the training split alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from canon.data.batching.documents import LINE_END, Distinct, Documents, Numbers, hashes, numbered, unseen_sentence
from canon.data.batching.documents import Labels as LabelColumn
from canon.data.batching.sequences import offsets_of, places_of
from canon.data.checking.measure import ANY_HAN
from canon.data.encodings.base import Ask, Encoding, finish
from canon.data.formats.cells import parse_number
from canon.data.formats.fasttext_lines import SPACE, without_labels
from canon.data.formats.files import ending, lines
from canon.data.formats.rows import TextRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import canonical
from canon.data.kinds.examples import ExampleSource
from canon.data.kinds.labelled import LABELLED, TextColumns, choose_columns, open_table, text_rows
from canon.data.paths import file_of
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Labels
from canon.data.text.words import Words
from canon.errors import CanonError

_cut_last: dict[tuple, tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]] = {}


def _cut_parts(
    source: ExampleSource, config: Any, parts: dict[str, TextRows]
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]:
    """The words of every part, by number, and the different words. The last one is kept: runs that follow each other on
    the same data (other seeds, other settings) need not cut it again."""
    files = tuple((record.name, record.sha256) for record in source.files)
    how = config.tokenizer, config.lowercase, config.encoding, config.delimiter
    key = (files, tuple(parts), source.columns, *how)
    if key not in _cut_last:
        numbers = Numbers()
        words = config.tokenizer or "split", config.lowercase
        cut = {name: numbered(part.joined(), *words, numbers) for name, part in parts.items()}
        _cut_last.clear()
        _cut_last[key] = cut, list(numbers)
    return _cut_last[key]


@dataclass(frozen=True)
class BagSchema(Schema):
    encoding = "bags"
    columns: tuple[str, ...] = ()  # of a table: those of the text

    def sizes(self) -> dict[str, Any]:
        assert self.words is not None
        return {**super().sizes(), "vocab_size": self.words.size}

    def unit(self, columns: Columns) -> tuple[float, str]:
        documents = columns["input"]
        assert isinstance(documents, Documents)
        return documents.num_words / max(len(documents), 1), "words"


class Bags(Encoding):
    name = "bags"
    reads = (LABELLED,)
    settings = Vocabulary
    schema = BagSchema
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Texts and labels split, cut into words and numbered by the training split."""
        assert isinstance(source, ExampleSource)
        parts = {name: _with_plain_labels(rows) for name, rows in source.parts.items()}
        train, labels = parts["train"], _labels(parts["train"], source.label)
        _refuse_too_many(train, source.label)
        names = {name: code for code, name in enumerate(train.names())}
        single = all(len(row) == 1 for row in labels)
        codes = np.array([names[row[0]] for row in labels]) if single else None
        chosen, rule = choose(source, config, codes)
        counted = train.counts(chosen["train"][1])
        classes = tuple(sorted(counted, key=lambda name: (-counted[name], name)))
        if len(classes) < 2:
            raise CanonError(f'{train.path}: every example has the label "{classes[0]}"; two labels are the least.')
        cut, distinct = _cut_parts(source, config, parts)
        words, ids = _vocabulary(cut["train"], chosen["train"][1], distinct, config, train)
        table = Distinct(distinct, ids, hashes(distinct))
        splits: dict[str, Columns] = {}
        notes: list[str] = []
        for name, (part, rows) in chosen.items():
            target, unseen = _targets(parts[part], rows, classes)
            splits[name] = {"input": Documents(*cut[part], table).take(rows), "target": target}
            notes += [f"{name}: {unseen}"] if unseen else []
        notes.append(f"The vocabulary ({config.tokenizer or 'split'}) has {words.size:,} words, </s> among them.")
        if not single:
            mean = sum(len(row) for row in labels) / len(train)
            notes.append(f"An example has {mean:.2f} labels on average, of {len(classes):,}.")
        counts = tuple(counted[name] for name in classes)
        schema = BagSchema(Labels(classes, source.label, counts), words=words, columns=source.columns)
        return finish(source, schema, splits, rule, config, [*notes, *_remarks(train, config)])

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        assert isinstance(source, ExampleSource)
        if Labels not in ask.targets:
            return f"{source.name} has texts with labels."
        try:
            train = _with_plain_labels(source.parts["train"])
            _labels(train, source.label)
            _refuse_too_many(train, source.label)
        except CanonError as mistake:
            return str(mistake)
        names = train.names()
        return "" if len(names) > 1 else f'{source.name}: every example has the label "{names[0]}".'

    # For a run that was trained

    def layout(self, schema: BagSchema, config: Any) -> Any:
        label = schema.target.label or config.label
        return replace(super().layout(schema, config), label=label, features=schema.columns)

    def columns(self, schema: BagSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source, ExampleSource)
        part = _with_plain_labels(source.scored())
        _labels(part, source.label)
        target, _ = _targets(part, np.arange(len(part)), schema.classes)
        assert schema.words is not None
        return {"input": _encoded(part.joined(), schema.words, config), "target": target}

    def inputs(self, schema: BagSchema, sources: Sequence[str], config: Any, text: bool) -> tuple[Columns, list[str]]:
        """A table's column, the lines of a file (labels in them are passed over), or what is given."""
        texts: list[str] = []
        names: list[str] = []
        for source in sources:
            path = file_of(source, text)
            if path is None:
                texts.append(source)
                names.append(source[:60])
                continue
            if ending(path) in TABLES:
                table = open_table(path, config)
                columns = schema.columns or choose_columns(table, "", config.features).texts
                more, what = text_rows(table, TextColumns(columns)).joined(), "row"
            else:
                more, what = [without_labels(line) for line in lines(path, config.encoding)], "line"
            texts += more
            names += [f"{path}, {what} {index + 1}" for index in range(len(more))]
        if not texts:
            raise CanonError(f"{', '.join(sources)}: there is no text.")
        assert schema.words is not None
        return {"input": _encoded(texts, schema.words, config)}, names


BAGS = Bags()


def _labels(rows: TextRows, column: str) -> Sequence[tuple[str, ...]]:
    """The labels of every row, of which each has one at least."""
    for row, labels in enumerate(rows.labels or ()):
        if not labels:
            raise CanonError(f'{rows.path}, {rows.where(row)}: the label (column "{column}") is empty.')
    return rows.labels or ()


def _refuse_too_many(rows: TextRows, label: str) -> None:
    """A column of texts or of numbers, taken for labels by mistake, has a label of its own in most rows."""
    names = rows.names()
    if label and len(names) > 20 and len(names) * 2 > len(rows):
        raise CanonError(
            f'{rows.path}: the label "{label}" has {len(names):,} different values in {len(rows):,} rows, too many for '
            "labels; choose another column with data.label, or separate several with data.label_separator."
        )


def _with_plain_labels(rows: TextRows) -> TextRows:
    """Labels that are all numbers have one name each: 1, 1.0 and 01 are all "1"."""
    names = rows.names()
    numbers = [parse_number(name) for name in names]
    if not all(number is not None and np.isfinite(number) for number in numbers):
        return rows
    plain = {name: canonical(name) for name in names}
    if all(name == other for name, other in plain.items()):
        return rows
    return replace(rows, labels=[tuple(dict.fromkeys(plain[name] for name in row)) for row in rows.labels or ()])


def _vocabulary(
    cut: tuple[np.ndarray, np.ndarray], rows: np.ndarray, distinct: Sequence[bytes], config: Any, train: TextRows
) -> tuple[Words, np.ndarray]:
    """The words of the training split that are frequent enough, the most frequent ones of them; and the row of each
    different word among them, −1 for none."""
    codes_N, lengths_n = cut
    places, _ = places_of(offsets_of(lengths_n), rows)
    counts = np.bincount(codes_N[places], minlength=len(distinct))
    if (lengths_n[rows] == 1).all():  # nothing but </s>
        raise CanonError(f"{train.path}: every text is empty.")
    kept = np.flatnonzero(counts >= config.min_count)
    # By falling count, ties by the alphabet; UTF-8 sorts as its code points do.
    kept = kept[np.argsort(np.array([distinct[code] for code in kept.tolist()], dtype=object), kind="stable")]
    kept = kept[np.argsort(-counts[kept], kind="stable")][: config.vocab_size or None]
    if not any(distinct[code] != LINE_END for code in kept.tolist()):
        raise CanonError(f"{train.path}: no word comes {config.min_count:,} times; give a smaller data.min_count.")
    ids = np.full(len(distinct), -1, dtype=np.int32)
    ids[kept] = np.arange(len(kept), dtype=np.int32)
    return Words([distinct[code].decode() for code in kept.tolist()], counts[kept], int(counts.sum())), ids


def _targets(part: TextRows, rows: np.ndarray, classes: Sequence[str]) -> tuple[np.ndarray | LabelColumn, str]:
    """The label numbers of some rows, as classes where each has one; and a sentence about labels that are none."""
    place = {name: code for code, name in enumerate(classes)}
    counted = part.counts(rows)
    codes = {name: place.get(name, place.get(canonical(name), -1)) for name in counted}
    own = [(part.labels or ())[row] for row in rows.tolist()]
    lengths = np.fromiter(map(len, own), dtype=np.int64, count=len(own))
    flat = np.fromiter(map(codes.__getitem__, chain.from_iterable(own)), dtype=np.int64, count=int(lengths.sum()))
    known = flat >= 0
    unseen = sorted((item for item in counted.items() if codes[item[0]] < 0), key=lambda item: (-item[1], item[0]))
    lengths = np.bincount(np.repeat(np.arange(len(own)), lengths)[known], minlength=len(own))
    found = LabelColumn(flat[known], lengths, tuple(unseen))
    if not unseen and (lengths == 1).all():
        return found.flat, ""
    return found, unseen_sentence(found)


def _remarks(train: TextRows, config: Any) -> list[str]:
    """What a user should know of the texts: empty ones, and Chinese that nobody cut into words."""
    found = []
    texts = train.joined()
    empty = sum(not text.strip(SPACE) for text in texts)
    if empty:
        found.append(f"{empty:,} of {len(train):,} texts are empty; their only word is </s>.")
    some = texts[:: max(len(train) // 200, 1)]
    uncut = sum(bool(ANY_HAN.search(text)) and text.count(" ") * 10 < len(text) for text in some)
    if (config.tokenizer or "split") == "split" and uncut * 2 > len(some):
        found.append('The texts are Chinese without spaces between words; data.tokenizer = "jieba" cuts them.')
    return found


# More data for a trained run


def _encoded(texts: Sequence[str], words: Words, config: Any) -> Documents:
    numbers = Numbers()
    cut = numbered(texts, config.tokenizer or "split", config.lowercase, numbers)
    return Documents(*cut, Distinct.of(list(numbers), words))
