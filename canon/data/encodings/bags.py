"""Bags of words: texts with labels cut into words and numbered by the training split, for the fastText classifier.

Labels are numbered by falling frequency in the training split, ties by the alphabet: fastText's order, which its
hierarchical softmax needs. The vocabulary is of the training split alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.batching.documents import (
    LINE_END,
    Distinct,
    Documents,
    LabelLists,
    WordNumbers,
    hashes,
    numbered,
    unseen_sentence,
)
from canon.data.batching.sequences import offsets_of, places_of
from canon.data.columns import TextColumns, choose_columns
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of
from canon.data.formats.cells import parse_number
from canon.data.formats.fasttext_lines import SPACE, without_labels
from canon.data.formats.files import lines
from canon.data.formats.rows import TextRows
from canon.data.formats.tables import Table, canonical
from canon.data.kinds.examples import ExampleSource
from canon.data.kinds.labelled import LABELLED, open_table, text_rows
from canon.data.records import Given
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Labels, Target
from canon.data.text.cutting import choose_cutting
from canon.data.text.words import Words
from canon.errors import CanonError

SAMPLE = 500  # texts by which it is seen what they are written in

_cut_last: dict[tuple, tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]] = {}


def _cut_parts(
    source: ExampleSource, config: Any, parts: dict[str, TextRows]
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]:
    """The words of every part, by number, and the different words. The last result is kept: runs that follow each other
    on the same data (other seeds, other settings) need not cut it again."""
    files = tuple((record.name, record.sha256) for record in source.files)
    how = config.tokenizer, config.lowercase, config.encoding, config.delimiter
    key = (files, tuple(parts), source.columns, *how)
    if key not in _cut_last:
        numbers = WordNumbers()
        cut = {
            name: numbered(part.joined(), config.tokenizer, config.lowercase, numbers) for name, part in parts.items()
        }
        _cut_last.clear()
        _cut_last[key] = cut, list(numbers)
    return _cut_last[key]


@dataclass(frozen=True)
class BagSchema(Schema):
    encoding = "bags"
    columns: tuple[str, ...] = ()  # of a table: those of the text
    chinese: bool = False  # whether the texts have no spaces between words

    def shown(self, inputs: Any, row: int) -> str:
        words = [inputs.distinct.words[code] for code in inputs.take(np.array([row])).codes_N]
        return b" ".join(word for word in words if word != LINE_END).decode()

    def unit(self, columns: Columns) -> tuple[float, str]:
        documents = columns["input"]
        assert isinstance(documents, Documents)
        return documents.num_words / max(len(documents), 1), "words"


class Bags(Encoding):
    reads = (LABELLED,)
    settings = Vocabulary
    schema = BagSchema
    causes = (
        "too few epochs or another rate is needed (train.epochs, system.lr)",
        "texts may be cut into the wrong words: data.tokenizer, and for Chinese jieba",
        "the label may be another column (data.label), or too few texts have each label",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Texts and labels split, cut into words and numbered by the training split."""
        assert isinstance(source, ExampleSource)
        parts = {name: _with_plain_labels(rows) for name, rows in source.parts.items()}
        train, labels = parts["train"], _labels(parts["train"], source.label)
        names = {name: code for code, name in enumerate(train.names())}
        single = all(len(row) == 1 for row in labels)
        codes = np.array([names[row[0]] for row in labels]) if single else None
        chosen, rule = choose(source, config, codes)
        counted = train.counts(chosen["train"][1])
        classes = tuple(sorted(counted, key=lambda name: (-counted[name], name)))
        _require_classes(train, source.label, classes)
        config, chinese, note = _cut_as(config, train.joined())
        cut, distinct = _cut_parts(source, config, parts)
        words, ids = _vocabulary(cut["train"], chosen["train"][1], distinct, config, train)
        table = Distinct(distinct, ids, hashes(distinct))
        splits: dict[str, Columns] = {}
        notes = [note]
        for name, (part, rows) in chosen.items():
            target, unseen = _targets(parts[part], rows, classes)
            splits[name] = {"input": Documents(*cut[part], table).take(rows), "target": target}
            notes += [f"{name}: {unseen}"] if unseen else []
        notes.append(f"The vocabulary ({config.tokenizer}) has {words.size:,} words, </s> among them.")
        if not single:
            mean = sum(len(row) for row in labels) / len(train)
            notes.append(f"An example has {mean:.2f} labels on average, of {len(classes):,}.")
        counts = tuple(counted[name] for name in classes)
        wanted = Labels(classes, source.label, counts)
        schema = BagSchema(wanted, words=words, columns=source.columns, chinese=chinese)
        decided = {"tokenizer": config.tokenizer, "lowercase": config.lowercase, "min_count": config.min_count}
        return finish(source, schema, splits, rule, config, [*notes, *_remarks(train)], decided=decided)

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        assert isinstance(source, ExampleSource)
        train = _with_plain_labels(source.parts["train"])
        _labels(train, source.label)
        names = train.names()
        _require_classes(train, source.label, names)
        return Labels(tuple(names), source.label)

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

    def inputs(self, schema: BagSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """The column of a table or of rows, the lines of a file (labels in them are ignored), or texts as arguments."""

        def read(path: Path) -> tuple[Iterable[str], str]:
            table = open_table(path, config, schema.columns)
            if table is None:
                return map(without_labels, lines(path, config.encoding)), "line"
            return of_table(table), "row"

        def of_table(table: Table) -> Sequence[str]:
            columns = schema.columns or choose_columns(table, "", config.features).texts
            return text_rows(table, TextColumns(columns)).joined()

        texts, names = texts_of(sources, text, read, lambda rows: of_table(rows.table()))
        assert schema.words is not None
        return {"input": _encoded(texts, schema.words, config)}, names

    def piped_ending(self, head: bytes) -> str:
        return ".jsonl" if head.lstrip().startswith(b"{") else ".txt"


BAGS = Bags()


def _labels(rows: TextRows, column: str) -> Sequence[tuple[str, ...]]:
    """The labels of every row, one or more each."""
    for row, labels in enumerate(rows.labels or ()):
        if not labels:
            raise CanonError(f'{rows.path}, {rows.where(row)}: the label (column "{column}") is empty.')
    return rows.labels or ()


def _require_classes(rows: TextRows, column: str, classes: Sequence[str]) -> None:
    """Two or more, shared by most rows: a column of texts or numbers that was chosen by mistake does not repeat."""
    count = len(rows.names())
    if column and count > 20 and count * 2 > len(rows):
        raise CanonError(
            f'{rows.path}: the label "{column}" has {count:,} different values in {len(rows):,} rows, too many for '
            "labels; choose another column with data.label, or separate several with data.label_separator."
        )
    numbers = [parse_number(name) for name in classes] if column else [None]
    if None not in numbers and any(not number.is_integer() for number in numbers if number is not None):
        raise CanonError(f'{rows.path}: the label "{column}" has fractions: numbers to predict, not labels.')
    if len(classes) < 2:
        raise CanonError(f'{rows.path}: every example has the label "{classes[0]}"; at least two labels are needed.')


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


def _targets(part: TextRows, rows: np.ndarray, classes: Sequence[str]) -> tuple[np.ndarray | LabelLists, str]:
    """The label numbers of some rows, as classes if each has exactly one; and a sentence about unknown labels."""
    place = {name: code for code, name in enumerate(classes)}
    counted = part.counts(rows)
    codes = {name: place.get(name, place.get(canonical(name), -1)) for name in counted}
    labels = [(part.labels or ())[row] for row in rows.tolist()]
    lengths = np.fromiter(map(len, labels), dtype=np.int64, count=len(labels))
    flat = np.fromiter(map(codes.__getitem__, chain.from_iterable(labels)), dtype=np.int64, count=int(lengths.sum()))
    known = flat >= 0
    unseen = sorted((item for item in counted.items() if codes[item[0]] < 0), key=lambda item: (-item[1], item[0]))
    lengths = np.bincount(np.repeat(np.arange(len(labels)), lengths)[known], minlength=len(labels))
    column = LabelLists(flat[known], lengths, tuple(unseen))
    if not unseen and (lengths == 1).all():
        return column.flat, ""
    return column, unseen_sentence(column)


def _cut_as(config: Any, texts: Sequence[str]) -> tuple[Any, bool, str]:
    """Settings with the tokenizer that is asked for, else one that suits the texts, which are then in lower case;
    whether they are Chinese without spaces; and a note on that, and on what was chosen."""
    kind, chinese, note = choose_cutting("\n".join(texts[:: max(len(texts) // SAMPLE, 1)]))
    if config.tokenizer:
        uncut = chinese and config.tokenizer == "split"
        note = 'The texts are Chinese without spaces between words; data.tokenizer = "jieba" cuts them.' * uncut
    lowercase = not config.tokenizer if config.lowercase is None else config.lowercase
    kind, least = config.tokenizer or kind, config.min_count or 1
    return replace(config, tokenizer=kind, lowercase=lowercase, min_count=least), chinese, note


def _remarks(train: TextRows) -> list[str]:
    """What a user should know about the texts: empty ones."""
    empty = sum(not text.strip(SPACE) for text in train.joined())
    return [f"{empty:,} of {len(train):,} texts are empty; their only word is </s>."] if empty else []


# More data for a trained run


def _encoded(texts: Sequence[str], words: Words, config: Any) -> Documents:
    numbers = WordNumbers()
    cut = numbered(texts, config.tokenizer or "split", bool(config.lowercase), numbers)
    return Documents(*cut, Distinct.of(list(numbers), words))
