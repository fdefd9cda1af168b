"""BM25: rows by the words that they share with a query, in five variants.

Robertson and Zaragoza 2009, The probabilistic relevance framework: BM25 and beyond, equation 3.15; Lv and Zhai 2011
(BM25L: When documents are very long, BM25 fails; BM25+: Lower-bounding term frequency normalization); the other
variants as in Kamphuis et al. 2020, Which BM25 do you mean? A score is Σ_t idf · w over the query's words in the row,
with L = 1 − b + b · length / mean length and c = tf / L:

| variant | idf | w |
| --- | --- | --- |
| lucene | log(1 + (n − df + ½) / (df + ½)) | tf / (tf + k₁ L) |
| robertson | max(0, log((n − df + ½) / (df + ½))) | tf / (tf + k₁ L) |
| atire | log(n / df) | (k₁ + 1) tf / (tf + k₁ L) |
| bm25l | log((n + 1) / (df + ½)) | (k₁ + 1) (c + δ) / (k₁ + c + δ), δ = ½ |
| bm25+ | log((n + 1) / df) | (k₁ + 1) tf / (tf + k₁ L) + δ, δ = 1 |

Weights are computed once, so that a query adds up the lists of its words.
Deviations: none; bm25s adds to every row what BM25L and BM25+ would give its missing words, here they give nothing.
Shapes: n rows, V words, P places where a word is in a row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from canon.errors import CanonError, unknown
from canon.storage import read_json, write_text
from canon.use.search.postings import Postings, words_of

K1, B = 1.5, 0.75
VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_FILES = ("indptr", "docs", "weights")


def idf(variant: str, df: np.ndarray, rows: int) -> np.ndarray:
    """Of words that are in df rows; 0 of those in none."""
    df = np.asarray(df, dtype=np.float64)
    positive = np.maximum(df, 1)
    values = {
        "lucene": lambda: np.log(1 + (rows - positive + 0.5) / (positive + 0.5)),
        "robertson": lambda: np.log(np.maximum((rows - positive + 0.5) / (positive + 0.5), 1)),
        "atire": lambda: np.log(rows / positive),
        "bm25l": lambda: np.log((rows + 1) / (positive + 0.5)),
        "bm25+": lambda: np.log((rows + 1) / positive),
    }
    if variant not in values:
        raise unknown("variant of BM25", variant, VARIANTS)
    return np.where(df > 0, values[variant](), 0.0)


def saturation(variant: str, tf: np.ndarray, relative: np.ndarray, k1: float = K1, b: float = B) -> np.ndarray:
    """w of words that are tf times, once at least, in rows of `relative` length, length / mean length."""
    long = 1 - b + b * relative
    if variant == "bm25l":
        c = tf / long + 0.5
        return (k1 + 1) * c / (k1 + c)
    plain = tf / (tf + k1 * long)
    if variant in ("atire", "bm25+"):
        return (k1 + 1) * plain + (1.0 if variant == "bm25+" else 0.0)
    return plain


class BM25:
    def __init__(
        self, words: dict[str, int], indptr: np.ndarray, docs: np.ndarray, weights: np.ndarray, rows: int
    ) -> None:
        self.words, self.indptr, self.docs, self.weights, self.rows = words, indptr, docs, weights, rows

    @classmethod
    def of(cls, texts: Iterable[str], variant: str = "lucene") -> BM25:
        return cls.over(Postings.of(texts), variant)

    @classmethod
    def over(cls, postings: Postings, variant: str = "lucene") -> BM25:
        if not len(postings.docs):
            raise CanonError("There are no words in these rows.")
        relative_n = postings.lengths / postings.mean_length
        idf_V = idf(variant, np.diff(postings.indptr), postings.rows)
        weight_P = np.empty(len(postings.docs), dtype=np.float32)
        for some, term_P in postings.blocks():
            w = saturation(variant, postings.counts[some], relative_n[postings.docs[some]])
            weight_P[some] = idf_V[term_P] * w
        return cls(postings.words, postings.indptr, postings.docs, weight_P, postings.rows)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            np.save(folder / f"bm25-{name}.npy", vars(self)[name])
        write_text(folder / "bm25.json", json.dumps({"rows": self.rows, "words": list(self.words)}, ensure_ascii=False))

    @classmethod
    def load(cls, folder: Path) -> BM25 | None:
        """The index of a folder, mapped into memory; None where there is none."""
        if not (folder / "bm25.json").is_file():
            return None
        try:
            record = read_json(folder / "bm25.json")
            indptr, docs, weights = (np.load(folder / f"bm25-{name}.npy", mmap_mode="r") for name in _FILES)
            words = {word: place for place, word in enumerate(record["words"])}
            return cls(words, indptr, docs, weights, record["rows"])
        except (CanonError, OSError, ValueError, KeyError, TypeError):
            raise CanonError(f"{folder} is damaged: remove it, and the next search builds it again.") from None

    def scores(self, query: str) -> np.ndarray:
        """[n] of every row; a word that comes twice in the query counts twice."""
        scores_n = np.zeros(self.rows, dtype=np.float32)
        for word, count in Counter(words_of(query)).items():
            if (term := self.words.get(word, len(self.indptr))) + 1 < len(self.indptr):
                some = slice(int(self.indptr[term]), int(self.indptr[term + 1]))
                scores_n[self.docs[some]] += count * self.weights[some]
        return scores_n

    def search(self, queries: Sequence[str], top: int, removed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows [Q, K] by falling score, ties by row; −1 where no more rows share a word."""
        rows = np.full((len(queries), top), -1, dtype=np.int64)
        values = np.full((len(queries), top), -np.inf, dtype=np.float32)
        for number, query in enumerate(queries):
            scores_n = self.scores(query)
            scores_n[removed] = 0
            matches = np.flatnonzero(scores_n)
            if len(matches) > 4 * top:
                least = np.partition(scores_n[matches], len(matches) - top)[len(matches) - top]
                matches = matches[scores_n[matches] >= least]
            order = np.lexsort((matches, -scores_n[matches]))[:top]
            rows[number, : len(order)], values[number, : len(order)] = matches[order], scores_n[matches[order]]
        return rows, values
