"""BM25: rows by the words that they share with a query.

Robertson and Zaragoza 2009, The probabilistic relevance framework: BM25 and beyond, equation 3.15; idf as in Lucene:
score = Σ_t log(1 + (n − df_t + ½) / (df_t + ½)) · tf / (tf + k₁ (1 − b + b · length / mean length)).
Words are runs of letters and digits in lower case; a Chinese character is a word. Weights are computed once, so that a
query adds up the lists of its words. Deviations: no stemming and no stop words.
Shapes: n rows, V words, P places where a word is in a row.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from canon.data.checking.measure import HAN
from canon.errors import CanonError
from canon.storage import read_json, write_text

K1, B = 1.5, 0.75
_WORD = re.compile(rf"[{HAN}]|[^\W_{HAN}]+")
_FILES = ("indptr", "docs", "weights")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


class BM25:
    def __init__(
        self, words: dict[str, int], indptr: np.ndarray, docs: np.ndarray, weights: np.ndarray, rows: int
    ) -> None:
        self.words, self.indptr, self.docs, self.weights, self.rows = words, indptr, docs, weights, rows

    @classmethod
    def of(cls, texts: Iterable[str]) -> BM25:
        words: dict[str, int] = {}
        terms: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        sizes: list[int] = []
        lengths: list[int] = []
        for text in texts:
            found = Counter(words_of(text))
            terms.append(np.fromiter((words.setdefault(word, len(words)) for word in found), np.int32, len(found)))
            counts.append(np.fromiter(found.values(), np.int32, len(found)))
            sizes.append(len(found))
            lengths.append(found.total())
        rows, V = len(sizes), len(words)
        if not V:
            raise CanonError("There are no words in these rows.")
        term_P, tf_P = np.concatenate(terms), np.concatenate(counts).astype(np.float32)
        doc_P = np.repeat(np.arange(rows, dtype=np.int32), sizes)
        length_n = np.array(lengths, dtype=np.float32)
        df_V = np.bincount(term_P, minlength=V)
        idf_V = np.log(1 + (rows - df_V + 0.5) / (df_V + 0.5)).astype(np.float32)
        norm_n = K1 * (1 - B + B * length_n / max(float(length_n.mean()), 1e-9))
        weight_P = idf_V[term_P] * tf_P / (tf_P + norm_n[doc_P])
        order = np.argsort(term_P, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(df_V)]).astype(np.int64)
        return cls(words, indptr, doc_P[order], weight_P[order].astype(np.float32), rows)

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
        known = read_json(folder / "bm25.json")
        indptr, docs, weights = (np.load(folder / f"bm25-{name}.npy", mmap_mode="r") for name in _FILES)
        return cls({word: place for place, word in enumerate(known["words"])}, indptr, docs, weights, known["rows"])

    def scores(self, query: str) -> np.ndarray:
        """[n] of every row; a word that comes twice in the query counts twice."""
        scores_n = np.zeros(self.rows, dtype=np.float32)
        for word, count in Counter(words_of(query)).items():
            if (term := self.words.get(word)) is not None:
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
            found = np.flatnonzero(scores_n)
            if len(found) > 4 * top:
                least = np.partition(scores_n[found], len(found) - top)[len(found) - top]
                found = found[scores_n[found] >= least]
            order = np.lexsort((found, -scores_n[found]))[:top]
            rows[number, : len(order)], values[number, : len(order)] = found[order], scores_n[found[order]]
        return rows, values
