"""Labelled examples of text, as the readers of files hand them over: texts, sentences in words, questions.

| rows | what is asked | read by |
| --- | --- | --- |
| `TextRows` | labels or a number of a text, or of two | kinds/labelled.py, fasttext_lines.py |
| `TagRows` | a tag of every word of a sentence | conll.py |
| `SpanRows` | the part of a document that answers a question | squad.py |
| `ChoiceRows` | the right one of several texts | kinds/choices.py, choices.py |
Each knows where in its file a row stands, so that a mistake is reported with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import numpy as np

from canon.errors import CanonError

T = TypeVar("T")


@dataclass(frozen=True)
class _Rows:
    path: str
    where: Callable[[int], str]  # "line 48" of row 47


def _some(values: Sequence[T], rows: np.ndarray) -> list[T]:
    return [values[row] for row in rows.tolist()]


def _placed(where: Callable[[int], str], rows: np.ndarray) -> Callable[[int], str]:
    return lambda row: where(int(rows[row]))


@dataclass(frozen=True)
class TextRows(_Rows):
    first: Sequence[str]
    second: Sequence[str] | None = None
    labels: Sequence[tuple[str, ...]] | None = None  # of each text: one, several, or none

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: np.ndarray) -> TextRows:
        return replace(
            self,
            where=_placed(self.where, rows),
            first=_some(self.first, rows),
            second=None if self.second is None else _some(self.second, rows),
            labels=None if self.labels is None else _some(self.labels, rows),
        )

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
class TagRows(_Rows):
    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def take(self, rows: np.ndarray) -> TagRows:
        tags = None if self.tags is None else _some(self.tags, rows)
        return replace(self, where=_placed(self.where, rows), words=_some(self.words, rows), tags=tags)

    def texts(self) -> list[str]:
        return [" ".join(sentence) for sentence in self.words]


@dataclass(frozen=True)
class Answer:
    text: str
    start: int  # its first character in the document


@dataclass(frozen=True)
class SpanRows(_Rows):
    questions: Sequence[str]
    documents: Sequence[str]
    answers: Sequence[tuple[Answer, ...]] | None = None  # none: the document does not answer
    keys: Sequence[str] = ()  # the questions' own ids
    groups: Sequence[int] = ()  # the article of each question: an article is in one split alone

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: np.ndarray) -> SpanRows:
        return replace(
            self,
            where=_placed(self.where, rows),
            questions=_some(self.questions, rows),
            documents=_some(self.documents, rows),
            answers=None if self.answers is None else _some(self.answers, rows),
            keys=_some(self.keys, rows) if self.keys else (),
            groups=_some(self.groups, rows) if self.groups else (),
        )

    def texts(self) -> list[str]:
        return [*dict.fromkeys(self.documents), *self.questions]


@dataclass(frozen=True)
class ChoiceRows(_Rows):
    questions: Sequence[str]
    choices: Sequence[tuple[str, ...]]
    answers: Sequence[int] | None = None
    names: Sequence[tuple[str, ...]] = field(default=())  # of the choices: A, B, C …

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: np.ndarray) -> ChoiceRows:
        return replace(
            self,
            where=_placed(self.where, rows),
            questions=_some(self.questions, rows),
            choices=_some(self.choices, rows),
            answers=None if self.answers is None else _some(self.answers, rows),
            names=_some(self.names, rows) if self.names else (),
        )

    def texts(self) -> list[str]:
        return [*self.questions, *(choice for row in self.choices for choice in row)]


Rows = TextRows | TagRows | SpanRows | ChoiceRows


def is_labelled(rows: Rows) -> bool:
    """Whether what is to be predicted is there."""
    if isinstance(rows, TextRows):
        return rows.labels is not None
    return (rows.tags if isinstance(rows, TagRows) else rows.answers) is not None
