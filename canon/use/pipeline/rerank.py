"""Steps after the ranker, each of which orders documents again or leaves some out.

| step | new score of a document; its score before is scaled to 0 … 1 over the candidates |
| --- | --- |
| mmr | chosen one after the other: λ · score − (1 − λ) · the largest likeness to a chosen one |
| freshness | (1 − w) · score + w · 2^(−age / half-life) |
| novelty | score − β · log2 of the document's share of the column's sum |
| boost | score + by, where the rule holds |
| filter, pin, cap | order alone: keep those for which the rule holds; put these at a position; so many of a value |

Papers: Carbonell and Goldstein 1998 (MMR, equation 1); Zhou et al. 2010 (self-information). Likeness is the cosine of
tf · idf. Ties keep their order. Deviations: none.
Shapes: n documents, k candidates, best first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from canon.data.batching.sequences import places_of
from canon.use.pipeline import settings as s
from canon.use.pipeline.documents import StoredDocuments
from canon.use.pipeline.rules import Rule, compiled
from canon.use.search.postings import Postings, WordsOfRows

_DAY = 86_400.0


@dataclass(frozen=True)
class Ordered:
    """Documents, best first, and their scores."""

    docs: np.ndarray  # int64 [k]
    scores: np.ndarray  # float64 [k], falling

    @classmethod
    def by(cls, docs: np.ndarray, scores: np.ndarray) -> Ordered:
        order = np.argsort(-scores, kind="stable")
        return cls(docs[order], scores[order])


@dataclass(frozen=True)
class Moment:
    """What a step may use in addition to the documents."""

    now: float  # seconds since 1970


Step = Callable[[Ordered, Moment], Ordered]


class Likeness:
    """The cosine of documents' words."""

    def __init__(self, postings: Postings, words_of_rows: WordsOfRows | None = None) -> None:
        self.postings, self._words_of_rows = postings, words_of_rows

    @cached_property
    def words_of_rows(self) -> WordsOfRows:
        return self._words_of_rows or self.postings.by_row()

    def among(self, docs: np.ndarray) -> np.ndarray:
        """[k, k]"""
        from scipy.sparse import csr_array

        p, rows = self.postings, self.words_of_rows
        place_E, size_k = places_of(np.asarray(rows.indptr), docs)
        weight_E = rows.counts[place_E] * np.log(p.rows / p.df[rows.terms[place_E]])
        ends_k = np.concatenate([[0], np.cumsum(size_k)])
        some = csr_array((weight_E, rows.terms[place_E], ends_k), shape=(len(docs), len(p.words)))
        length_k = np.maximum(np.sqrt(some.power(2).sum(axis=1)), 1e-12)
        return (some @ some.T).toarray() / length_k / length_k[:, None]


def minmax(scores: np.ndarray) -> np.ndarray:
    """Scaled to 0 … 1; 1 where all are equal."""
    low, high = (scores.min(), scores.max()) if len(scores) else (0.0, 0.0)
    return (scores - low) / (high - low) if high > low else np.ones(len(scores))


def mmr(scores: np.ndarray, alike: np.ndarray, weight: float, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Places in the order of choice, and the value that each was chosen by; ties go to the earlier place."""
    k = len(scores)
    value, most = weight * scores, np.zeros(k)
    order, values, left = [], [], np.ones(k, dtype=bool)
    for _ in range(min(top, k)):
        margin = np.where(left, value - (1 - weight) * most, -np.inf)
        best = int(margin.argmax())
        order.append(best)
        values.append(float(margin[best]))
        left[best] = False
        most = np.maximum(most, alike[best])
    return np.array(order, dtype=np.int64), np.array(values)


def step_of(name: str, config: Any, rows: StoredDocuments, likeness: Likeness) -> Step:
    """The step of a [[rerank]]; columns that it names must exist."""
    where = f"rerank.{name}"
    if isinstance(config, s.Mmr):
        return lambda given, moment: _mmr(given, config, likeness)
    if isinstance(config, s.Freshness):
        seconds_n = rows.seconds(config.column, f"{where}.column")
        return lambda given, moment: _freshness(given, config, seconds_n, moment.now)
    if isinstance(config, s.Novelty):
        counts_n = np.nan_to_num(rows.numbers(config.column, f"{where}.column"))
        share_n = np.maximum(counts_n, 0.5) / max(float(counts_n.sum()), 1.0)
        return lambda given, moment: Ordered.by(
            given.docs, minmax(given.scores) - config.beta * np.log2(share_n[given.docs])
        )
    if isinstance(config, s.Cap):
        values = rows.column(config.by, f"{where}.by")
        return lambda given, moment: _cap(given, config, values)
    rule = compiled(config.when, (*rows.columns, "score", "rank"), f"{where}.when")
    if isinstance(config, s.Filter):
        return lambda given, moment: _taken(given, np.flatnonzero(_holds(rule, given, rows)))
    if isinstance(config, s.Boost):
        return lambda given, moment: Ordered.by(
            given.docs, minmax(given.scores) + config.by * _holds(rule, given, rows)
        )
    assert isinstance(config, s.Pin)
    return lambda given, moment: _pin(given, config.position, _holds(rule, given, rows))


def _mmr(given: Ordered, config: s.Mmr, likeness: Likeness) -> Ordered:
    if not len(given.docs):
        return given
    order, values = mmr(minmax(given.scores), likeness.among(given.docs), config.weight, config.top)
    rest = np.setdiff1d(np.arange(len(given.docs)), order)
    below = values[-1] - np.arange(1, len(rest) + 1) * 1e-9  # those that were not chosen follow in their order
    return Ordered(given.docs[np.concatenate([order, rest])], np.concatenate([np.minimum.accumulate(values), below]))


def _freshness(given: Ordered, config: s.Freshness, seconds_n: np.ndarray, now: float) -> Ordered:
    age = np.maximum(now - seconds_n[given.docs], 0) / _DAY
    fresh = np.nan_to_num(2 ** (-age / config.half_life))
    return Ordered.by(given.docs, (1 - config.weight) * minmax(given.scores) + config.weight * fresh)


def _cap(given: Ordered, config: s.Cap, values: list[Any]) -> Ordered:
    """The first `within` places have at most `most` documents of a value; the others follow in their order."""
    kept: list[int] = []
    counts: dict[Any, int] = {}
    for place, doc in enumerate(given.docs.tolist()):
        if len(kept) == config.within:
            break
        value = str(values[doc])
        if counts.get(value, 0) < config.most:
            counts[value] = counts.get(value, 0) + 1
            kept.append(place)
    order = np.concatenate([np.array(kept, dtype=np.int64), np.setdiff1d(np.arange(len(given.docs)), kept)])
    return _reordered(given, order.astype(np.int64))


def _pin(given: Ordered, position: int, held: np.ndarray) -> Ordered:
    others = np.flatnonzero(~held)
    order = np.concatenate([others[: position - 1], np.flatnonzero(held), others[position - 1 :]])
    return _reordered(given, order)


def _reordered(given: Ordered, order: np.ndarray) -> Ordered:
    """In this order; a score is at most the one above, so that scores still fall."""
    return Ordered(given.docs[order], np.minimum.accumulate(given.scores[order]))


def _taken(given: Ordered, places: np.ndarray) -> Ordered:
    return Ordered(given.docs[places], given.scores[places])


def _holds(rule: Rule, given: Ordered, rows: StoredDocuments) -> np.ndarray:
    pairs = enumerate(zip(given.docs.tolist(), given.scores.tolist(), strict=True), start=1)
    held = [bool(rule({**rows.cells(doc), "score": score, "rank": rank})) for rank, (doc, score) in pairs]
    return np.array(held, dtype=bool)
