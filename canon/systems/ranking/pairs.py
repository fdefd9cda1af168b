"""Sums over the pairs of a query that a ranking violates, without listing them.

Joachims 2006, Training linear SVMs in linear time, algorithm 3; Chapelle and Keerthi 2010, Efficient algorithms for
ranking with SVMs, section 3.2. A pair (i, j) with l_i > l_j is violated where s_i − s_j < m. For each grade the
documents below it and those of it (their scores less m) are sorted together once; then the sum of any numbers over
all partners of each document is two running sums: O(N log N) for each grade. Shapes: N documents, Q queries.
"""

from __future__ import annotations

import numpy as np

from canon.systems.ranking.learner import TrainingLists


class Violations:
    """The pairs that some scores violate; a pair of query q counts weights_Q[q]."""

    def __init__(
        self, documents: TrainingLists, scores_N: np.ndarray, margin: float = 1.0, weights_Q: np.ndarray | None = None
    ) -> None:
        self.scores_N, self.margin = scores_N, margin
        self.weights_N = np.ones(len(scores_N)) if weights_Q is None else weights_Q[documents.query]
        labels_N, query_N = documents.labels, documents.query
        # Of each grade: the documents below it and then those of it, in the order of their keys; how many of them are
        # below, and where the query of each begins and ends in that order.
        self._grades: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        for grade in np.unique(labels_N)[1:]:
            lower_N, upper_N = np.flatnonzero(labels_N < grade), np.flatnonzero(labels_N == grade)
            both = np.concatenate([lower_N, upper_N])
            keys = np.concatenate([scores_N[lower_N], scores_N[upper_N] - margin])
            is_upper = np.arange(len(both)) >= len(lower_N)
            # Of equal keys the lower document comes first: the margin is kept exactly there, and nothing is violated.
            order = np.lexsort((is_upper, keys, query_N[both]))
            both, is_upper = both[order], is_upper[order]
            bounds = np.searchsorted(query_N[both], np.arange(documents.num_queries + 1))
            self._grades.append((both, is_upper, bounds[query_N[both]], bounds[query_N[both] + 1]))
        ones_N = np.ones(len(scores_N))
        self.above_N = self.sums(ones_N, of_upper=True)  # violating partners of a higher grade
        self.below_N = self.sums(ones_N, of_upper=False)  # and of a lower one

    def sums(self, values_N: np.ndarray, of_upper: bool) -> np.ndarray:
        """[N] for each document, the weighted sum of values of its violating partners of higher (or lower) grade."""
        sums_N = np.zeros(len(values_N))
        for both, is_upper, first, end in self._grades:
            counted = np.where(is_upper == of_upper, values_N[both], 0.0)
            running = np.concatenate(([0.0], np.cumsum(counted)))
            at = np.arange(len(both))
            # Partners of an upper document are the lower ones after it, of a lower one the upper ones before it.
            sums = running[at] - running[first] if of_upper else running[end] - running[at]
            sums_N[both] += np.where(is_upper == of_upper, 0.0, sums)
        return sums_N * self.weights_N

    def hinge(self) -> float:
        """Σ max(0, m − (s_i − s_j)) over pairs."""
        return float((self.below_N * (self.margin - self.scores_N)).sum() + (self.above_N * self.scores_N).sum())

    def hinge_slopes(self) -> np.ndarray:
        """[N] its derivatives by the scores."""
        return self.above_N - self.below_N

    def squared(self) -> float:
        """Σ max(0, m − (s_i − s_j))² over pairs: of each i the sum over its lower partners j."""
        a_N, s_N = self.margin - self.scores_N, self.scores_N
        below_N = self.below_N * a_N**2 + 2 * a_N * self.sums(s_N, False) + self.sums(s_N**2, False)
        return max(float(below_N.sum()), 0.0)

    def squared_slopes(self) -> np.ndarray:
        s_N = self.scores_N
        lower_N = self.above_N * (self.margin + s_N) - self.sums(s_N, True)
        upper_N = self.below_N * (self.margin - s_N) + self.sums(s_N, False)
        return 2 * (lower_N - upper_N)

    def squared_curvature(self, direction_N: np.ndarray) -> np.ndarray:
        """[N] the second derivatives of `squared` times a direction: 2 Σ (v_i − v_j) over violated pairs."""
        partners_N = self.sums(direction_N, True) + self.sums(direction_N, False)
        return 2 * ((self.above_N + self.below_N) * direction_N - partners_N)
