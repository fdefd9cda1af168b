"""Postings: for every word the rows that hold it and how often, and the length of each row.

They are all that BM25, language models and the other features of text are computed from. Several fields of the same
rows share one vocabulary, so that a word has one number everywhere.
Words are runs of letters and digits in lower case; a Chinese character is a word. No stemming and no stop words.
Shapes: n rows, V words, P places where a word is in a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from canon.data.checking.measure import HAN

_WORD = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Postings:
    words: dict[str, int]
    indptr: np.ndarray  # int64 [V + 1]: places of word v are indptr[v] … indptr[v + 1]
    docs: np.ndarray  # int32 [P], rising within a word
    counts: np.ndarray  # int32 [P]: how often
    lengths: np.ndarray  # int64 [n]: words of each row

    @classmethod
    def of(cls, texts: Iterable[str], words: dict[str, int] | None = None) -> Postings:
        """The postings of rows; `words` is a vocabulary shared with other fields, which grows."""
        words = {} if words is None else words
        terms: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        sizes: list[int] = []
        lengths: list[int] = []
        for text in texts:
            tf = Counter(words_of(text))
            terms.append(np.fromiter((words.setdefault(word, len(words)) for word in tf), np.int32, len(tf)))
            counts.append(np.fromiter(tf.values(), np.int32, len(tf)))
            sizes.append(len(tf))
            lengths.append(tf.total())
        none = np.empty(0, dtype=np.int32)
        doc_P = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return cls._of(words, np.concatenate([none, *terms]), doc_P, np.concatenate([none, *counts]), np.array(lengths))

    @classmethod
    def _of(
        cls, words: dict[str, int], term_P: np.ndarray, doc_P: np.ndarray, tf_P: np.ndarray, lengths: np.ndarray
    ) -> Postings:
        order = np.argsort(term_P, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(term_P, minlength=len(words)))])
        return cls(words, indptr.astype(np.int64), doc_P[order], tf_P[order], lengths.astype(np.int64))

    @classmethod
    def joined(cls, fields: Sequence[Postings]) -> Postings:
        """The fields as one: counts and lengths are added."""
        terms, docs, counts = (np.concatenate(parts) for parts in zip(*map(Postings._places, fields), strict=True))
        rows = fields[0].rows
        keys, where = np.unique(docs.astype(np.int64) * len(fields[0].words) + terms, return_inverse=True)
        tf_P = np.bincount(where, weights=counts, minlength=len(keys)).astype(np.int32)
        doc_P, term_P = np.divmod(keys, max(len(fields[0].words), 1))
        lengths = np.sum([field.lengths for field in fields], axis=0, dtype=np.int64).reshape(rows)
        return cls._of(fields[0].words, term_P.astype(np.int32), doc_P.astype(np.int32), tf_P, lengths)

    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.term_of_places, self.docs, self.counts

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @cached_property
    def term_of_places(self) -> np.ndarray:
        """int32 [P]"""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def df(self) -> np.ndarray:
        """[V] rows that hold each word of the vocabulary, also of those that only other fields have."""
        return self._per_word(np.diff(self.indptr))

    @cached_property
    def cf(self) -> np.ndarray:
        """[V] how often each word is in all rows."""
        sums = np.bincount(self.term_of_places, weights=self.counts, minlength=len(self.indptr) - 1)
        return self._per_word(sums.astype(np.int64))

    def _per_word(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.zeros(len(self.words) - len(values), dtype=values.dtype)])

    @cached_property
    def distinct(self) -> np.ndarray:
        """[n] different words of each row."""
        return np.bincount(self.docs, minlength=self.rows)

    @cached_property
    def total(self) -> int:
        """The words of all rows, at least 1."""
        return max(int(self.lengths.sum()), 1)

    @property
    def mean_length(self) -> float:
        return self.total / max(self.rows, 1)

    @cached_property
    def norms(self) -> np.ndarray:
        """[n] of the vectors of tf · ln(n / df)."""
        weight_P = self.counts * np.log(self.rows / np.maximum(self.df[self.term_of_places], 1))
        return np.sqrt(np.bincount(self.docs, weights=weight_P**2, minlength=self.rows))

    def terms(self, query: str) -> dict[int, int]:
        """The numbers of a query's words, and how often each is in it; unknown words are left out."""
        counted = Counter(words_of(query))
        return {self.words[word]: count for word, count in counted.items() if word in self.words}

    def places(self, term: int) -> slice:
        if term + 1 >= len(self.indptr):
            return slice(0, 0)
        return slice(int(self.indptr[term]), int(self.indptr[term + 1]))

    def counts_in(self, term: int, docs: np.ndarray) -> np.ndarray:
        """How often a word is in some rows: a search in its list."""
        some = self.places(term)
        listed = self.docs[some]
        if not len(listed):
            return np.zeros(len(docs), dtype=np.int64)
        at = np.minimum(np.searchsorted(listed, docs), len(listed) - 1)
        return np.where(listed[at] == docs, self.counts[some][at], 0)
