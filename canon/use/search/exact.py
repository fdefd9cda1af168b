"""The nearest rows by going through all of them, block by block: memory does not grow with rows.

A block's scores are one matrix product; only scores above a query's worst so far are looked at. Ties go by row.
Shapes: n rows, Q queries, K results, B rows of a block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from canon.use.search.precision import RESCORED, restored, to_stored

_BLOCK = 16_384  # rows
_QUERIES = 256


class Best:
    """The best K rows of each query so far."""

    def __init__(self, queries: int, top: int) -> None:
        self.top = top
        self.scores = np.full((queries, top), -np.inf, dtype=np.float32)
        self.rows = np.full((queries, top), -1, dtype=np.int64)

    def add(self, scores_QB: np.ndarray, first: int) -> None:
        """The scores of rows first, first + 1, …"""
        worst_Q = self.scores[:, -1]
        most_Q = scores_QB.max(axis=1)
        for query in np.flatnonzero(most_Q > worst_Q).tolist():
            scores = scores_QB[query]
            places = np.flatnonzero(scores > worst_Q[query])
            if len(places) > 4 * self.top:
                least = np.partition(scores[places], len(places) - self.top)[len(places) - self.top]
                places = places[scores[places] >= least]
            values = np.concatenate([self.scores[query], scores[places]])
            rows = np.concatenate([self.rows[query], places + first])
            order = np.lexsort((rows, -values))[: self.top]
            self.scores[query], self.rows[query] = values[order], rows[order]


def exact(
    stored: np.ndarray,
    queries_QD: np.ndarray,
    top: int,
    precision: str = "float32",
    ranges_2D: np.ndarray | None = None,
    removed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows [Q, K] by falling score, and the scores; −1 fills up where there are fewer rows."""
    queries_QD = np.ascontiguousarray(queries_QD, dtype=np.float32)
    dim = queries_QD.shape[1]
    gone = np.sort(removed) if removed is not None and len(removed) else None
    signs = to_stored(queries_QD, precision) if precision == "binary" else None

    def score(block: np.ndarray, some: slice) -> np.ndarray:
        if signs is not None:
            distance = np.zeros((len(signs[some]), len(block)), dtype=np.int32)
            for byte in range(block.shape[1]):
                distance += np.bitwise_count(signs[some, byte, None] ^ block[None, :, byte])
            return (dim - 2 * distance).astype(np.float32)
        scores: np.ndarray = queries_QD[some] @ restored(block, precision, dim, ranges_2D).T
        return scores

    wanted = min(RESCORED * top if signs is not None else top, max(len(stored), 1))
    rows_QK, scores_QK = _through(stored, score, len(queries_QD), wanted, gone)
    if signs is None:
        return rows_QK, scores_QK
    return rescored(stored, queries_QD, rows_QK, top, precision, ranges_2D)


def _through(
    stored: np.ndarray,
    score: Callable[[np.ndarray, slice], np.ndarray],
    queries: int,
    top: int,
    gone: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    best = [
        (slice(a, min(a + _QUERIES, queries)), Best(min(_QUERIES, queries - a), top))
        for a in range(0, queries, _QUERIES)
    ]
    for first in range(0, len(stored), _BLOCK):
        block = stored[first : first + _BLOCK]
        for some, kept in best:
            scores_QB = score(block, some)
            if gone is not None:
                low, high = np.searchsorted(gone, (first, first + len(block)))
                scores_QB[:, gone[low:high] - first] = -np.inf
            kept.add(scores_QB, first)
    return np.concatenate([kept.rows for _, kept in best]), np.concatenate([kept.scores for _, kept in best])


def rescored(
    stored: np.ndarray,
    queries_QD: np.ndarray,
    rows_QK: np.ndarray,
    top: int,
    precision: str,
    ranges_2D: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The best of these rows by the float query; −1 means no row."""
    best = Best(len(rows_QK), top)
    for query, rows in enumerate(rows_QK):
        known = np.sort(rows[rows >= 0])
        vectors = restored(stored[known], precision, queries_QD.shape[1], ranges_2D)
        scores = vectors @ queries_QD[query]
        order = np.lexsort((known, -scores))[:top]
        best.rows[query, : len(order)], best.scores[query, : len(order)] = known[order], scores[order]
    return best.rows, best.scores


def nearest_rows(vectors: Callable[[int, int], np.ndarray], rows: int, queries: np.ndarray, top: int) -> np.ndarray:
    """The best rows by the float vectors of all, which `vectors` gives from one row to another."""
    best = Best(len(queries), top)
    for start in range(0, rows, _BLOCK):
        best.add(queries @ vectors(start, min(start + _BLOCK, rows)).T, start)
    return best.rows
