"""Documents as the fastText classifier's kernels read them: rows of the input matrix, of which only used ones are kept.

Rows 0 … V − 1 of the whole matrix [V + B, D] are words, the others buckets that n-grams are hashed to (subwords.py). Of
the buckets those are stored that the training documents use, by falling use; `DocumentFeatures.kept` says which. The
row of any other bucket has never been trained: it has its first weights, which follow from the seed.
`label_tree` is Huffman's tree over labels as fastText builds it: of equals, a joined node goes before a label.
Shapes: n documents, N words, U different words, V words of the vocabulary, B buckets, P buckets kept, L labels.
"""

from __future__ import annotations

import numpy as np

from canon.data.batching.documents import LINE_END, Distinct, Documents
from canon.kernels.cpu import classifier as kernels


class DocumentFeatures:
    """What a document is made of, by the sizes of a classifier: `word_ngrams`, letters from `minn` to `maxn`."""

    def __init__(self, vocab_size: int, buckets: int, word_ngrams: int, minn: int, maxn: int) -> None:
        self.vocab_size, self.word_ngrams, self.minn, self.maxn = vocab_size, word_ngrams, minn, maxn
        self.buckets = buckets if word_ngrams > 1 or maxn > 0 else 0
        self._rows_of: tuple[Distinct, np.ndarray, np.ndarray] | None = None  # the newest words and their rows
        self.keep(None)

    def keep(self, kept_P: np.ndarray | None) -> None:
        """The buckets whose rows are stored, in that order, after the words'; None: all of them."""
        self.kept = kept_P
        self._stored_of: tuple[np.ndarray, np.ndarray] | None = None  # the newest words' rows, as they are stored
        if kept_P is not None:
            self._places_B = np.full(self.buckets, -1, np.int32)
            self._places_B[kept_P] = np.arange(len(kept_P), dtype=np.int32)

    def used(self, documents: Documents) -> np.ndarray | None:
        """The buckets that these documents use, the most used first; None where there are no buckets."""
        if not self.buckets:
            return None
        used_B = np.bincount(self._grams(documents)[1] - self.vocab_size, minlength=self.buckets)
        starts_U, rows = self._word_rows(documents.distinct)
        times_U = np.bincount(documents.codes_N, minlength=len(starts_U) - 1)
        hashed = rows >= self.vocab_size
        times = np.repeat(times_U, np.diff(starts_U))[hashed]
        used_B += np.bincount(rows[hashed] - self.vocab_size, times, self.buckets).astype(np.int64)
        used = np.flatnonzero(used_B)
        return used[np.argsort(-used_B[used], kind="stable")]

    def of(self, documents: Documents) -> tuple[kernels.DocumentRows, np.ndarray]:
        """What the kernels read, and how many features each document has."""
        row_starts_U, rows = self._word_rows(documents.distinct)
        if self._stored_of is None or self._stored_of[0] is not rows:
            self._stored_of = rows, self._stored(rows)
        gram_starts_n, grams = self._grams(documents)
        per_word_N = np.diff(row_starts_U)[documents.codes_N]
        ends = np.concatenate([[0], np.cumsum(per_word_N)])[documents.offsets]
        codes_N = np.array(documents.codes_N)  # kernels are compiled for arrays that may be written to
        stored = self._stored_of[1], gram_starts_n, self._stored(grams)
        texts = kernels.DocumentRows(codes_N, documents.offsets, row_starts_U, *stored)
        return texts, np.diff(ends) + np.diff(gram_starts_n)

    def counts(self, texts: kernels.DocumentRows, rows: int) -> np.ndarray:
        """How often each stored row is a feature of these documents, [R]."""
        times_U = np.bincount(texts.codes, minlength=len(texts.row_starts) - 1)
        times = np.repeat(times_U, np.diff(texts.row_starts))
        stored = texts.rows >= 0  # the others are of words that only other documents have
        return np.bincount(texts.rows[stored], times[stored], rows) + np.bincount(texts.grams, minlength=rows)

    def _word_rows(self, distinct: Distinct) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of each different word begin, and those rows of the whole matrix."""
        if self._rows_of is not None and self._rows_of[0] is distinct:
            return self._rows_of[1:]
        if not self.maxn:
            known_U = distinct.ids >= 0
            rows_of = np.concatenate([[0], np.cumsum(known_U)]), distinct.ids[known_U]
        else:
            text = np.frombuffer(b"".join(b"<" + word + b">" for word in distinct.words), np.uint8)
            ends_U = np.cumsum([len(word) + 2 for word in distinct.words])
            plain_U = np.array([word == LINE_END for word in distinct.words])
            out = np.empty(len(text) * (self.maxn - max(self.minn, 1) + 1) + len(ends_U), np.int32)
            sizes = self.minn, self.maxn, self.buckets, self.vocab_size
            starts_U = kernels.word_rows(text, ends_U, distinct.ids, plain_U, *sizes, out)
            rows_of = starts_U, out[: starts_U[-1]].copy()
        self._rows_of = distinct, *rows_of
        return rows_of

    def _grams(self, documents: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Where the word n-grams of each document begin, and their rows of the whole matrix."""
        if self.word_ngrams == 1:
            return np.zeros(len(documents) + 1, np.int64), np.empty(0, np.int32)
        out = np.empty(len(documents.codes_N) * (self.word_ngrams - 1), np.int32)
        sizes = self.word_ngrams, self.buckets, self.vocab_size
        starts_n = kernels.gram_rows(documents.hashes, documents.offsets, *sizes, out)
        return starts_n, out[: starts_n[-1]]

    def _stored(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the whole matrix as rows of the stored one; −1 − row where it is not stored."""
        if self.kept is None or not len(rows):
            return rows
        place = self._places_B[np.maximum(rows - self.vocab_size, 0)]
        hashed = np.where(place >= 0, self.vocab_size + place, -1 - rows)
        return np.where(rows >= self.vocab_size, hashed, rows).astype(np.int32)


def label_tree(counts_L: np.ndarray) -> kernels.Ways:
    """Huffman's tree over labels by falling count, its nodes numbered as fastText numbers them."""
    size = len(counts_L)
    weights = [*counts_L.tolist(), *[float("inf")] * (size - 1)]
    parent, turn, below = [-1] * (2 * size - 1), [0] * (2 * size - 1), np.zeros((size - 1, 2), np.int32)
    leaf, inner = size - 1, size
    for node in range(size, 2 * size - 1):
        joined = 0
        for side in (0, 1):
            if leaf >= 0 and weights[leaf] < weights[inner]:
                least, leaf = leaf, leaf - 1
            else:
                least, inner = inner, inner + 1
            parent[least], turn[least], below[node - size, side] = node, side, least
            joined += weights[least]
        weights[node] = joined
    nodes: list[int] = []
    turns: list[int] = []
    starts = [0]
    for label in range(size):
        at = label
        while parent[at] >= 0:
            nodes.append(parent[at] - size)
            turns.append(turn[at])
            at = parent[at]
        starts.append(len(nodes))
    return kernels.Ways(np.array(starts, np.int64), np.array(nodes, np.int32), np.array(turns, np.int8), below)
