"""Features of a query and a field of a document, for many pairs at once.

Papers: Salton, Wong and Yang 1975 (vector space); Robertson and Zaragoza 2009 (BM25); Zhai and Lafferty 2004, A study
of smoothing methods for language models (equations 5 to 7); Qin and Liu 2013, Introducing LETOR 4.0 datasets.
With tf the count of a word in the field of the document, len its words, df the documents with the word, cf its count
in all documents, C all words, and idf = ln(N / df):

| feature | formula |
| --- | --- |
| tf, idf, tfidf | Σ tf, Σ idf, Σ tf · idf over the query's different words |
| length | len |
| and, or, share | whether all of the query's different words are there, whether one is, the share that is |
| vsm | cosine of the vectors tf · idf of query and document |
| bm25-VARIANT | canon/use/search/bm25.py |
| lm-jm | Σ ln((1 − λ) tf / len + λ cf / C), λ = .1 |
| lm-dirichlet | Σ ln((tf + μ cf / C) / (len + μ)), μ = 2000 |
| lm-absolute | Σ ln(max(tf − δ, 0) / len + δ u / len · cf / C), δ = .7, u the different words of the document |

BM25, vsm and the language models count a word as often as the query has it; words that no document has in the field are
left out. In lm-absolute a document without words has the probability cf / C, the limit for an empty document.
Deviations: none.
Shapes: p pairs of a query and a document, E words of the queries × documents of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from canon.errors import unknown
from canon.use.search.bm25 import VARIANTS, idf, saturation
from canon.use.search.postings import Postings, words_of

JM, DIRICHLET, ABSOLUTE = 0.1, 2000.0, 0.7
_BM25 = tuple(f"bm25-{variant}" for variant in VARIANTS)
_MODELS = ("lm-absolute", "lm-dirichlet", "lm-jm")
FEATURES = ("tf", "idf", "tfidf", "length", "and", "or", "share", "vsm", *_BM25, *_MODELS)


@dataclass(frozen=True)
class Candidates:
    """Documents of each query: those of query q are docs[offsets[q]] … docs[offsets[q + 1]]."""

    offsets: np.ndarray  # int64 [Q + 1]
    docs: np.ndarray  # int64 [p]

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Candidates:
        sizes = [len(rows) for rows in lists]
        docs = np.concatenate([np.empty(0, dtype=np.int64), *lists]).astype(np.int64)
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), docs)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of_query(self, query: int) -> np.ndarray:
        return self.docs[self.offsets[query] : self.offsets[query + 1]]

    @property
    def query_of(self) -> np.ndarray:
        """[p]"""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def part(self, start: int, stop: int) -> Candidates:
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        return Candidates(self.offsets[start : stop + 1] - low, self.docs[low:high])


class _Matches:
    """How often each word of each query is in the query's documents, for one field."""

    def __init__(self, field: Postings, queries: Sequence[str], candidates: Candidates) -> None:
        self.field, self.candidates = field, candidates
        self.different = np.array([len(set(words_of(query))) for query in queries], dtype=np.float64)
        term_R: list[int] = []
        query_R: list[int] = []
        asked_R: list[int] = []
        tf_E = [np.empty(0, dtype=np.int64)]
        for number, query in enumerate(queries):
            docs = candidates.of_query(number)
            for term, asked in field.terms(query).items():
                if field.df[term]:
                    term_R.append(term)
                    query_R.append(number)
                    asked_R.append(asked)
                    tf_E.append(field.counts_in(term, docs))
        self.term_R, self.query_R = np.array(term_R, dtype=np.int64), np.array(query_R, dtype=np.int64)
        self.asked_R = np.array(asked_R, dtype=np.float64)
        self.tf_E = np.concatenate(tf_E).astype(np.float64)
        self.sizes_R = np.diff(candidates.offsets)[self.query_R]
        first_R = np.cumsum(self.sizes_R) - self.sizes_R
        shift_R = candidates.offsets[:-1][self.query_R] - first_R
        self.pair_E = np.arange(len(self.tf_E)) + self.spread(shift_R)
        self.doc_E = candidates.docs[self.pair_E]

    def spread(self, values_R: np.ndarray) -> np.ndarray:
        """A value of each word of each query for the query's documents."""
        return np.repeat(values_R, self.sizes_R)

    def sum(self, values_E: np.ndarray) -> np.ndarray:
        """[p]"""
        sums = np.bincount(self.pair_E, weights=values_E, minlength=len(self.candidates.docs))
        return sums.astype(np.float64)  # of no words at all they are whole numbers

    def of_queries(self, values_R: np.ndarray) -> np.ndarray:
        """[p] the sums over the words of each query."""
        sums_Q = np.bincount(self.query_R, weights=values_R, minlength=len(self.candidates))
        return sums_Q[self.candidates.query_of]


def text_features(
    field: Postings, queries: Sequence[str], candidates: Candidates, names: Sequence[str] = FEATURES
) -> dict[str, np.ndarray]:
    """Each feature [p] by name."""
    for name in names:
        if name not in FEATURES:
            raise unknown("feature of text", name, FEATURES)
    matches = _Matches(field, queries, candidates)
    return {name: _feature(name, matches) for name in names}


def _feature(name: str, m: _Matches) -> np.ndarray:
    field, docs = m.field, m.candidates.docs
    if name == "length":
        return field.lengths[docs].astype(np.float64)
    if name in ("tf", "tfidf"):
        weight_R = _plain_idf(field, m.term_R) if name == "tfidf" else np.ones(len(m.term_R))
        return m.sum(m.tf_E * m.spread(weight_R))
    if name == "idf":
        return m.of_queries(_plain_idf(field, m.term_R))
    if name in ("and", "or", "share"):
        there, asked = m.sum(m.tf_E > 0), np.maximum(m.different, 1)[m.candidates.query_of]
        return {"and": there == asked, "or": there > 0, "share": there / asked}[name].astype(np.float64)
    if name == "vsm":
        return _cosine(m)
    if name in _BM25:
        return _bm25(name.removeprefix("bm25-"), m)
    return _language_model(name, m)


def _plain_idf(field: Postings, term_R: np.ndarray) -> np.ndarray:
    return np.log(field.rows / np.maximum(field.df[term_R], 1))


def _cosine(m: _Matches) -> np.ndarray:
    field = m.field
    weight_R = _plain_idf(field, m.term_R)
    dots = m.sum(m.tf_E * m.spread(m.asked_R * weight_R**2))
    query = np.sqrt(m.of_queries((m.asked_R * weight_R) ** 2))
    below = query * field.norms[m.candidates.docs]
    return np.divide(dots, below, out=np.zeros(len(dots)), where=below > 0)


def _bm25(variant: str, m: _Matches) -> np.ndarray:
    field = m.field
    relative_E = field.lengths[m.doc_E] / field.mean_length
    weight_R = m.asked_R * idf(variant, field.df[m.term_R], field.rows)
    values_E = np.where(m.tf_E > 0, saturation(variant, np.maximum(m.tf_E, 1), relative_E), 0.0)
    return m.sum(m.spread(weight_R) * values_E)


def _language_model(name: str, m: _Matches) -> np.ndarray:
    field = m.field
    length_E = field.lengths[m.doc_E].astype(np.float64)
    background_E = m.spread(field.cf[m.term_R] / field.total)
    some_E = np.maximum(length_E, 1)
    if name == "lm-jm":
        p_E = (1 - JM) * m.tf_E / some_E + JM * background_E
    elif name == "lm-dirichlet":
        p_E = (m.tf_E + DIRICHLET * background_E) / (length_E + DIRICHLET)
    else:
        left_E = np.where(length_E > 0, ABSOLUTE * field.distinct[m.doc_E] / some_E, 1.0)
        p_E = np.maximum(m.tf_E - ABSOLUTE, 0) / some_E + left_E * background_E
    return m.sum(m.spread(m.asked_R) * np.log(p_E))
