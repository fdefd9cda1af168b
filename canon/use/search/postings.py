"""Postings: for every word the rows that hold it and how often, and the length of each row.

They are all that BM25, language models and the other features of text are computed from. Several fields of the same
rows share one vocabulary, so that a word has one number everywhere.
Words are runs of letters and digits in lower case; a Chinese character is a word. No stemming and no stop words.
Shapes: n rows, V words, P places where a word is in a row.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from canon.data.checking.measure import HAN

_WORD = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_AT_ONCE = 1 << 20  # places whose words are joined together


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


class WordsOfRows(NamedTuple):
    """The same places row by row."""

    indptr: np.ndarray  # int64 [n + 1]
    terms: np.ndarray  # int32 [P]
    counts: np.ndarray  # int32 [P]


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
        from scipy.sparse import csr_array

        words = {} if words is None else words
        terms, counts, ends, lengths = array("i"), array("i"), array("q", [0]), array("q")
        for text in texts:
            tf = Counter(words_of(text))
            terms.extend([words.setdefault(word, len(words)) for word in tf])
            counts.extend(tf.values())
            ends.append(len(terms))
            lengths.append(tf.total())
        rows = len(lengths)
        term_P, tf_P = (
            np.frombuffer(values, dtype=np.int32) if values else np.empty(0, "i4") for values in (terms, counts)
        )
        by_row = csr_array((tf_P, term_P, np.frombuffer(ends, dtype=np.int64)), shape=(rows, len(words)))
        by_word = by_row.tocsc()  # two passes over the places, without a sort
        indptr, docs = by_word.indptr.astype(np.int64), by_word.indices.astype(np.int32, copy=False)
        return cls(words, indptr, docs, by_word.data, np.array(lengths, dtype=np.int64))

    @classmethod
    def joined(cls, fields: Sequence[Postings]) -> Postings:
        """The fields as one: counts and lengths are added. Some words at once, so that memory stays small."""
        rows, words = fields[0].rows, fields[0].words
        ends_FV = np.stack([np.append(f.indptr, np.full(len(words) + 1 - len(f.indptr), len(f.docs))) for f in fields])
        cuts = np.searchsorted(ends_FV.sum(axis=0), np.arange(0, int(ends_FV[:, -1].sum()) + _AT_ONCE, _AT_ONCE))
        total, done = int(ends_FV[:, -1].sum()), 0
        docs, counts, df_V = np.empty(total, np.int32), np.empty(total, np.int32), np.zeros(len(words), np.int64)
        for first, last in pairwise(np.unique(np.append(cuts.clip(max=len(words)), len(words))).tolist()):
            some = [slice(int(ends_V[first]), int(ends_V[last])) for ends_V in ends_FV]
            keys = [
                np.repeat(np.arange(last - first), np.diff(ends_V[first : last + 1])) * rows + field.docs[part]
                for field, part, ends_V in zip(fields, some, ends_FV, strict=True)
            ]
            key_P, where = np.unique(np.concatenate(keys), return_inverse=True)
            tf = np.concatenate([field.counts[part] for field, part in zip(fields, some, strict=True)])
            new = slice(done, done + len(key_P))
            term_P, docs[new] = np.divmod(key_P, max(rows, 1))
            counts[new] = np.bincount(where, weights=tf, minlength=len(key_P))
            df_V[first:last] = np.bincount(term_P, minlength=last - first)
            done = new.stop
        lengths = np.sum([field.lengths for field in fields], axis=0, dtype=np.int64).reshape(rows)
        indptr = np.concatenate([[0], np.cumsum(df_V)]).astype(np.int64)
        return cls(words, indptr, docs[:done], counts[:done], lengths)

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def by_row(self) -> WordsOfRows:
        from scipy.sparse import csc_array

        places = csc_array((self.counts, self.docs, self.indptr), shape=(self.rows, len(self.indptr) - 1)).tocsr()
        terms = places.indices.astype(np.int32, copy=False)
        return WordsOfRows(places.indptr.astype(np.int64), terms, places.data)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """All places, some at once, and the word of each."""
        for start in range(0, len(self.docs), _AT_ONCE):
            places = np.arange(start, min(start + _AT_ONCE, len(self.docs)))
            yield slice(start, start + _AT_ONCE), np.searchsorted(self.indptr, places, side="right") - 1

    @cached_property
    def df(self) -> np.ndarray:
        """[V] rows that hold each word of the vocabulary, also of those that only other fields have."""
        return self._per_word(np.diff(self.indptr))

    @cached_property
    def cf(self) -> np.ndarray:
        """[V] how often each word is in all rows."""
        sums = np.zeros(len(self.indptr) - 1, dtype=np.int64)
        for some, term_P in self.blocks():
            np.add.at(sums, term_P, self.counts[some])
        return self._per_word(sums)

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
        idf_V, sums = np.log(self.rows / np.maximum(self.df, 1)), np.zeros(self.rows)
        for some, term_P in self.blocks():
            np.add.at(sums, self.docs[some], (self.counts[some] * idf_V[term_P]) ** 2)
        return np.sqrt(sums)

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
