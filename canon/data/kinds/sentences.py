"""Sentences to embed: single sentences, matching pairs, triples with texts that do not match, pairs with a score or a
class.

A table has them in columns, by their names (anchor, positive, negative_1; query, positive; sentence1, sentence2, score)
or by what they hold; a text has one on each line, or several, which are cut apart; questions on texts are pairs of a
question and its paragraph. Several files of one part, as the years of SemEval have, are read together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.measure import quantiles, words
from canon.data.checking.report import CheckReport
from canon.data.columns import short
from canon.data.corpus.text_blocks import TextStream
from canon.data.formats.files import ending
from canon.data.formats.files import lines as lines_of
from canon.data.formats.rows import SentenceRows, SpanRows
from canon.data.formats.squad import is_squad, read_squad
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, is_table, read_table
from canon.data.formats.text_lists import has_lists, read_lists
from canon.data.kinds.base import Kind, holds_tables, once, peeked, records_of
from canon.data.kinds.parts import files_in, leading_file
from canon.data.kinds.questions import QUESTIONS
from canon.data.kinds.sentence_columns import SentenceColumns, choose_sentences, matched, says_sentences
from canon.data.kinds.table import TABLE
from canon.data.kinds.text import TEXT
from canon.data.paths import find_path, named_set
from canon.data.settings import Columns
from canon.data.source import Source, TableSource, split_inside, split_of
from canon.data.splits import choose
from canon.data.text.sentences import boundaries
from canon.errors import CanonError

_SEEN = 1000  # lines, or rows, by which a text is judged
_SEVERAL = 1.5  # sentences of a line on average, from which on lines are cut
_NO_CLASS = ("-", "")  # where annotators disagreed


@settings
class SentenceSettings(Columns):
    unit: Literal["auto", "line", "sentence"] = Field(
        default="auto", description="an example of a text file: each line, or each sentence; auto looks at the lines"
    )
    score_range: Annotated[tuple[float, ...], Field(max_length=2)] = Field(
        default=(), description="lowest and highest score of two texts; default: those of the training examples, whole"
    )


@dataclass(frozen=True)
class SentenceSource(Source):
    """Parts are `SentenceRows`."""

    columns: tuple[str, ...] = ()  # of the texts
    label: str = ""  # the column of the score or the class


class SentenceKind(Kind):
    name = "sentences"
    singular = "a set of sentences"
    plural = "sentences"
    plural_zh = "句子、句对和三元组"
    settings = SentenceSettings
    formats = ("sentences",)

    def is_chosen(self, config: Any) -> bool:
        return False

    def sniff(self, path: Path, config: Any) -> str:
        """A table with names that only such data has."""
        if listed := _lists(path, config):
            return f"{path.name} has the columns {', '.join(listed)}, with lists of texts"
        try:
            names = peeked(leading_file(path) or path, config).names if holds_tables(path, config) else ()
        except CanonError:
            return ""
        known = matched(names)
        return f"{path.name} has the columns {', '.join(known)}" if known and says_sentences(known) else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        if _lists(path, config):
            return self.sniff(path, config)
        table: Table | None = None
        try:
            table = peeked(leading_file(path) or path, config)
            columns = choose_sentences(table, config)
        except CanonError as mistake:  # of a table that cannot be read or is empty: opening it raises it again
            return "" if table is not None and table.names else str(mistake)
        return f"{path.name} has texts in {', '.join(columns.texts)}"

    def sniff_text(self, path: Path, config: Any) -> str:
        return TEXT.sniff(path, config)

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} has the text {', '.join(record.features)}" if record.features else ""

    def sniff_kind(self, name: str, home: Kind) -> str:
        return f"{name} is {home.plural}, which are texts" if home in (TEXT, QUESTIONS) else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> SentenceSource:
        """`like` has the columns of data that this file belongs to, where it has them too."""
        if path.is_file() or config.format in self.formats or holds_tables(path, config) or _has_questions(path):
            parts: dict[str, list[Path]] = {}
            for file in files_in(path):
                if file == path or _is_data(file, config):
                    split = split_of(file) or split_inside(file)
                    parts.setdefault(split if path.is_dir() else "train", []).append(file)
            return self._of_files(path.name, parts, config, like)
        return self._of_text(TEXT.read(path, config), config)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> SentenceSource:
        parts: dict[str, list[Path]] = {}
        for split, path in files.items():
            parts.setdefault(split.partition("/")[0], []).append(path)
        config = replace(config, label=config.label or record.label, features=config.features or record.features)
        return self._of_files(record.name, parts, config, None, record.columns)

    def adapt(self, source: Source, config: Any) -> Source:
        if isinstance(source, TableSource):
            config = replace(config, label=config.label, features=config.features or source.features)
            columns = choose_sentences(source.parts["train"], config)
            parts = {name: table_rows(table, columns) for name, table in source.parts.items()}
            return _source(source.name, parts, source.files, source.notes, columns, source.test)
        return self._of_text(source, config)

    def open_set(self, record: Dataset, config: Any) -> Source:
        return self._judged(super().open_set(record, config), config)

    def open(self, path: Path, config: Any) -> Source:
        return replace(self._judged(self.read(path, config), config), kind=self)

    def _judged(self, source: Source, config: Any) -> Source:
        """With the files, or named sets, of data.valid and data.test in place of its own parts."""
        for name, given in (("valid", config.valid), ("test", config.test)):
            if not isinstance(given, str) or not given:
                continue
            asked = replace(config, valid=0.0, test=0.0, format="auto", label="", features=(), source=given)
            if (record := named_set(given)) is not None:
                other = super().open_set(record, asked)
                part = other.parts.get(name) or other.scored()
            else:
                other = self.read(find_path(given, named=False), asked, source)
                part = other.parts.get(name) or other.parts["train"]
            files = {file.name: file for file in (*source.files, *other.files)}
            origin = {**source.origin, name: Path(given).name}
            parts = {**source.parts, name: part}
            source = replace(source, parts=parts, files=tuple(files.values()), origin=origin)
        return source

    def _of_files(
        self,
        name: str,
        parts: dict[str, list[Path]],
        config: Any,
        like: Source | None,
        columns: Sequence[str] = (),
    ) -> SentenceSource:
        """The rows of the files of each part; files without a part's name are the training part."""
        if not parts:
            raise CanonError(f"{name} has no texts that can be read; give one file.")
        if "" in parts:
            parts = {"train": list(chain.from_iterable(parts.values()))}
        read: dict[str, SentenceRows] = {}
        notes: dict[Path, tuple[str, ...]] = {}
        chosen = SentenceColumns(like.columns, like.label) if isinstance(like, SentenceSource) else None
        for split, files in sorted(parts.items(), key=lambda part: part[0] != "train"):  # that decides the columns
            several = []
            for file in files:
                rows, used, notes[file] = self._rows(file, config, chosen, columns)
                chosen = used if chosen is None else chosen
                several.append(rows)
            read[split] = several[0] if len(several) == 1 else _joined(name, several, files)
        if len(read) == 1:
            read = {"train": next(iter(read.values()))}
        every = {str(file): file for files in parts.values() for file in files}
        assert chosen is not None
        return _source(name, read, records_of(every), once(notes), chosen)

    def _rows(
        self, path: Path, config: Any, like: SentenceColumns | None, names: Sequence[str]
    ) -> tuple[SentenceRows, SentenceColumns, tuple[str, ...]]:
        if is_squad(path, config.encoding):
            return pairs_of(read_squad(path, config.encoding)), SentenceColumns(("question", "context")), ()
        if listed := _lists(path, config):
            rows, note = read_lists(path)
            return rows, SentenceColumns(listed), (note,)
        if is_table(path, config) or config.format in TABLE.formats:
            table = read_table(path, config, names, like=like.texts if like else ())
            if like is not None and set(like.texts) <= set(table.names):
                label = like.score or like.label or config.label
                if label and label not in table.names:
                    return table_rows(table, SentenceColumns(like.texts)), like, table.notes
                config = replace(config, features=like.texts, label=label)
            columns = choose_sentences(table, config)
            return table_rows(table, columns), columns, table.notes
        rows, note = _of_lines(path, (line.strip() for line in lines_of(path, config.encoding)), config)
        return rows, SentenceColumns(("text",)), (note,)

    def _of_text(self, source: Source, config: Any) -> SentenceSource:
        parts: dict[str, SentenceRows] = {}
        notes: dict[Path, tuple[str, ...]] = {}
        for name, stream in source.parts.items():
            if isinstance(stream, TextStream):
                texts: Any = chain.from_iterable(lines_of(file, config.encoding) for file in stream.files)
                path = Path(stream.name)
            else:
                texts, path = (line for document in stream for line in document.splitlines()), Path(name)
            parts[name], note = _of_lines(path, (line.strip() for line in texts), config)
            notes[path] = (note,)
        how = SentenceColumns(("text",)), source.test
        return _source(source.name, parts, source.files, (*source.notes, *once(notes)), *how)

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        report.kind = self.plural
        lengths: Counter[int] = Counter()
        try:
            chosen, _ = choose(source, config)
        except CanonError as mistake:
            report.warn(str(mistake))
            chosen = {name: (name, np.arange(source.size(name))) for name in source.parts}
        for name, (part, taken) in chosen.items():
            rows: SentenceRows = source.parts[part].take(taken)
            report.splits[name] = len(rows)
            texts = rows.texts()
            lengths.update(len(words(text)) for text in texts)
            if empty := sum(not text.strip() for text in texts):
                report.warn(f"{empty:,} of {len(texts):,} {name} texts are empty.")
            report.duplicates[name] = len(rows) - len(set(rows.sentences))
        report.lengths["words"] = quantiles(lengths)


def _lists(path: Path, config: Any) -> tuple[str, ...]:
    """The columns of queries with lists of texts, where none are chosen."""
    return has_lists(path) if config.format == "auto" and not (config.features or config.label) else ()


def table_rows(table: Table, columns: SentenceColumns) -> SentenceRows:
    """The rows of a part; its scores or classes are None where it lacks their column."""
    for name in columns.texts:
        if name not in table.names:
            raise CanonError(f'{table.path} has no column "{name}", which is one of the texts.')
    texts = list(zip(*(table.texts(name).tolist() for name in columns.texts), strict=True))
    scores, labels = None, None
    if columns.score in table.names:
        scores, bad = table.numbers(columns.score)
        if (wrong := bad | ~np.isfinite(scores)).any():
            row = int(wrong.argmax())
            shown = short(table.text(columns.score, row))
            raise table.mistake(row, f'the score (column "{columns.score}") must be a number, got "{shown}".')
    if columns.label in table.names:
        labels = table.texts(columns.label).tolist()
        kept = np.flatnonzero([label.strip() not in _NO_CLASS for label in labels])
        if not len(kept):
            raise CanonError(f'{table.path}: the column "{columns.label}" has no classes.')
        return SentenceRows(str(table.path), table.line, texts, None, labels).take(kept)
    return SentenceRows(str(table.path), table.line, texts, scores, labels)


def pairs_of(rows: SpanRows) -> SentenceRows:
    """Each question that its paragraph answers, with the paragraph."""
    pairs = list(zip(rows.questions, rows.documents, strict=True))
    groups = list(rows.groups)
    kept = np.flatnonzero([bool(answers) for answers in rows.answers]) if rows.answers else np.arange(len(rows))
    return SentenceRows(rows.path, rows.where, pairs, groups=groups).take(kept)


def _of_lines(path: Path, texts: Any, config: Any) -> tuple[SentenceRows, str]:
    """A row for each line that is not empty, or for each sentence of it."""
    numbered = ((number, text) for number, text in enumerate(texts, start=1) if text)
    head = list(islice(numbered, _SEEN))
    cut = config.unit == "sentence"
    if config.unit == "auto" and head:
        cut = sum(len(boundaries(text)) for _, text in head) > _SEVERAL * len(head)
    sentences: list[tuple[str, ...]] = []
    places: list[int] = []
    for number, text in chain(head, numbered):
        stops = boundaries(text) if cut else [len(text)]
        for begin, stop in zip([0, *stops], stops, strict=False):
            if sentence := text[begin:stop].strip():
                sentences.append((sentence,))
                places.append(number)
    if not sentences:
        raise CanonError(f"{path} is empty.")
    note = f"Each {'sentence' if cut else 'line'} is an example; data.unit chooses."
    return SentenceRows(str(path), lambda row: f"line {places[row]}", sentences), note


def _joined(name: str, parts: Sequence[SentenceRows], files: Sequence[Path]) -> SentenceRows:
    """The rows of several files, each of which knows its file."""
    widths = {part.width for part in parts}
    scored = {part.scores is not None for part in parts}
    if len(widths) > 1 or len(scored) > 1 or any(part.labels is not None for part in parts):
        listed = ", ".join(file.name for file in files[:3])
        raise CanonError(f"{name}: {listed} have different columns; give one file.")
    places = [(part, row) for part in parts for row in range(len(part))]

    def where(row: int) -> str:
        part, inside = places[row]
        return f"{Path(part.path).name}, {part.where(inside)}"

    origins = [file.name.partition(".")[0] for file, part in zip(files, parts, strict=True) for _ in range(len(part))]
    scores = np.concatenate([np.asarray(part.scores) for part in parts]) if all(scored) else None
    sentences = list(chain.from_iterable(part.sentences for part in parts))
    return SentenceRows(name, where, sentences, scores, origins=origins)


def _has_questions(path: Path) -> bool:
    return any(is_squad(file) for file in files_in(path))


def _is_data(file: Path, config: Any) -> bool:
    return ending(file) in TABLES or is_squad(file, config.encoding) or is_table(file, config)


def _source(
    name: str,
    parts: dict[str, SentenceRows],
    files: tuple,
    notes: Sequence[str],
    columns: SentenceColumns,
    test: float = 0.1,
) -> SentenceSource:
    """A part without the training part's scores or classes, as a contest's test part, is left out."""
    train, kept, more = parts["train"], {}, []
    for part, rows in parts.items():
        judged = columns.score or columns.label
        if judged and part != "train" and rows.scores is None and rows.labels is None:
            more.append(f'{Path(rows.path).name} has no column "{judged}" and is left out.')
            continue
        kept[part] = rows
    if "test" in parts and "test" not in kept and "valid" in kept:
        kept["test"] = kept.pop("valid")
        more.append(f"{Path(kept['test'].path).name} is the test set.")
    label = columns.score or columns.label
    said = [f"The texts are {', '.join(columns.texts)}"] if len(columns.texts) > 1 else []
    if said and label:
        said.append(f"the {'score' if columns.score else 'class'} is {label}")
    if said and columns.unread:
        said.append(f"{', '.join(columns.unread)} {'is' if len(columns.unread) == 1 else 'are'} not read")
    note = f"{', '.join(said)}; data.features and data.label choose others." if said else ""
    common = name, kept, tuple(files), tuple(filter(None, (*notes, note, *more))), test
    assert train is kept["train"]
    return SentenceSource(*common, columns=columns.texts, label=label, kind=SENTENCES)


SENTENCES = SentenceKind()
