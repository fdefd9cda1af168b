"""Labelled examples of text, as the readers of files return them: texts, sentences in words, questions.

| rows | what is predicted | read by |
| --- | --- | --- |
| `TextRows` | labels or a number of a text, or of two | kinds/labelled.py, fasttext_lines.py |
| `TagRows` | a tag of every word of a sentence | conll.py |
| `SpanRows` | the part of a document that answers a question | squad.py |
| `ChoiceRows` | the right one of several texts | kinds/choices.py, choices.py |
| `SentenceRows` | what a text is like, or goes with | kinds/sentences.py |
Each knows where in its file a row is, so that a mistake is reported with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np

from canon.errors import CanonError


@dataclass(frozen=True)
class LabelledRows:
    """What follows these two fields is columns, the first of which every kind of rows has."""

    path: str
    where: Callable[[int], str]  # "line 48" of row 47

    def columns(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values())))

    def take(self, rows: np.ndarray) -> Self:
        columns = {name: column for name, column in self.columns().items() if column is not None and len(column)}
        taken: dict[str, Any] = {name: [column[row] for row in rows.tolist()] for name, column in columns.items()}
        return replace(self, where=lambda row: self.where(int(rows[row])), **taken)


@dataclass(frozen=True)
class TextRows(LabelledRows):
    first: Sequence[str]
    second: Sequence[str] | None = None
    labels: Sequence[tuple[str, ...]] | None = None  # of each text: one, several, or none
    soft: Sequence[dict[str, float]] | None = None  # of each text a probability of every class

    def texts(self) -> list[str]:
        """Everything that a vocabulary may be made of."""
        return [*self.first, *(self.second or ())]

    def joined(self) -> Sequence[str]:
        """Each example as one text."""
        if self.second is None:
            return self.first
        return [f"{one} {other}" for one, other in zip(self.first, self.second, strict=True)]

    def names(self) -> list[str]:
        """The different labels."""
        return sorted(set(chain.from_iterable(self.labels or ())))

    def counts(self, rows: np.ndarray) -> dict[str, int]:
        """How many of the examples at `rows` have each label."""
        return Counter(chain.from_iterable(map((self.labels or ()).__getitem__, rows.tolist())))

    def single(self) -> list[str]:
        """The only label of each text, "" where it has none."""
        for row, labels in enumerate(self.labels or ()):
            if len(labels) > 1:
                raise CanonError(f"{self.path}, {self.where(row)}: a text has {len(labels)} labels; one is predicted.")
        return [labels[0] if labels else "" for labels in self.labels or ()]


@dataclass(frozen=True)
class TagRows(LabelledRows):
    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]] | None = None

    def texts(self) -> list[str]:
        return [" ".join(sentence) for sentence in self.words]


@dataclass(frozen=True)
class Answer:
    text: str
    start: int  # its first character in the document


@dataclass(frozen=True)
class SpanRows(LabelledRows):
    questions: Sequence[str]
    documents: Sequence[str]
    answers: Sequence[tuple[Answer, ...]] | None = None  # none: the document does not answer
    keys: Sequence[str] = ()  # the questions' own ids
    groups: Sequence[int] = ()  # the article of each question: an article is in one split alone

    def texts(self) -> list[str]:
        return [*dict.fromkeys(self.documents), *self.questions]


@dataclass(frozen=True)
class ChoiceRows(LabelledRows):
    questions: Sequence[str]
    choices: Sequence[tuple[str, ...]]
    answers: Sequence[int] | None = None
    names: Sequence[tuple[str, ...]] = ()  # of the choices: A, B, C …

    def texts(self) -> list[str]:
        return [*self.questions, *(choice for row in self.choices for choice in row)]


@dataclass(frozen=True)
class SentenceRows(LabelledRows):
    """Texts that are embedded one by one: one a row; two that belong together; two, and others that do not belong to
    the first; or two with a score or a class."""

    sentences: Sequence[tuple[str, ...]]  # equally many in every row
    scores: np.ndarray | Sequence[float] | None = None
    labels: Sequence[str] | None = None
    groups: Sequence[int] = ()  # rows of one article, which are in one split alone
    origins: Sequence[str] = ()  # the file of each row, where there are several

    @property
    def width(self) -> int:
        """Texts of a row."""
        return len(self.sentences[0]) if len(self.sentences) else 0

    def texts(self) -> list[str]:
        return list(chain.from_iterable(self.sentences))


Rows = TextRows | TagRows | SpanRows | ChoiceRows | SentenceRows


def groups_of(rows: Rows) -> np.ndarray | None:
    """The group of each row, which stays whole when rows are split; None where rows are alone."""
    if isinstance(rows, SpanRows | SentenceRows) and len(rows.groups):
        return np.array(rows.groups)
    return None


def is_labelled(rows: Rows) -> bool:
    """Whether the rows have what is predicted."""
    if isinstance(rows, TextRows):
        return rows.labels is not None
    if isinstance(rows, SentenceRows):
        return True
    return (rows.tags if isinstance(rows, TagRows) else rows.answers) is not None
