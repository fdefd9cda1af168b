"""What systems that learn an order without gradients lower, in NumPy and of one query or all; `measured` gives each as
the loss of scores by which a run is judged.

Xu and Li 2007, AdaRank (`ExponentialMeasure`); Yeh et al. 2007, RankGP (`LostMeasure`); Crammer and Singer 2002,
Pranking with ranking (`RankError`); Caruana, Baluja and Mitchell 1996, Rankprop (`Disorder`); Yue et al. 2007, A
support vector method for optimizing average precision (`MAPHinge`); Chakrabarti et al. 2008, Structured learning for
non-smooth ranking losses (`NDCGHinge`). Bruch 2021, An alternative cross entropy loss for learning-to-rank
(arXiv:1911.09798, `CrossEntropyNDCG`), which has a gradient, is here because LightGBM lowers it too.
Deviations: of RankProp the targets are the nearest numbers in the order of the grades, not evenly spaced; of SVM-NDCG
c(r) = 1/√(1 + r) divided by its sum, and documents of one grade share their ranks' c in the right ranking.
Shapes: N documents, Q queries, n documents of one query, R relevant and S other ones, K grades.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from canon.objectives.ranking.base import ListLoss, Queries, RankLoss
from canon.objectives.ranking.plain_records import Cutoff, Measured
from canon.objectives.ranking.settings import Listwise
from canon.objectives.settings import NoSettings

Settings = TypeVar("Settings")
_MASK = (1 << 20) - 1  # bits of a random number that are enough

# ---- of all queries


def measured(
    labels_N: np.ndarray, scores_N: np.ndarray, offsets_Q: np.ndarray, settings: Measured, worst: bool = False
) -> np.ndarray:
    """[Q] average precision (relevant: a label of 1 or more) or NDCG of the ranking by some scores, 0 where nothing is
    relevant. Equal scores are in the order of the documents, or those of the worst label first."""
    sizes_Q = np.diff(offsets_Q)
    query_N, starts_Q = np.repeat(np.arange(len(sizes_Q)), sizes_Q), offsets_Q[:-1]
    place_N = np.arange(len(labels_N)) - starts_Q[query_N]
    sorted_N = labels_N[np.lexsort((labels_N if worst else place_N, -scores_N, query_N))]
    counted_N = place_N < (settings.cutoff or len(labels_N))
    if settings.measure == "map":
        hit_N = sorted_N >= 1
        total_Q = sums(hit_N, offsets_Q).astype(np.int64)
        before_Q = np.cumsum(total_Q) - total_Q
        precision_N = (np.cumsum(hit_N) - before_Q[query_N]) / (place_N + 1)
        return np.asarray(sums(precision_N * hit_N * counted_N, offsets_Q) / np.maximum(total_Q, 1))
    discount_N = counted_N / np.log2(place_N + 2)
    gained_Q = sums((np.exp2(sorted_N) - 1) * discount_N, offsets_Q)
    best_N = labels_N[np.lexsort((-labels_N, query_N))]
    ideal_Q = sums((np.exp2(best_N) - 1) * discount_N, offsets_Q)
    return np.asarray(gained_Q / np.where(ideal_Q > 0, ideal_Q, 1))


def in_order(labels_N: np.ndarray, scores_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
    """[N] the numbers nearest to some scores (least Σ (t − s)²) that have the order of the labels within each query.
    Documents of one label are free among each other (Kruskal 1964, the primary approach to ties)."""
    query_N = np.repeat(np.arange(len(offsets_Q) - 1), np.diff(offsets_Q))
    order_N = np.lexsort((scores_N, labels_N, query_N))
    sorted_N, fitted_N = scores_N[order_N], np.empty(len(scores_N))
    for first, end in spans(offsets_Q):
        fitted_N[first:end] = _rising(sorted_N[first:end].tolist())
    targets_N = np.empty(len(scores_N))
    targets_N[order_N] = fitted_N
    return targets_N


def _rising(values: list[float]) -> np.ndarray:
    """The nearest numbers that never fall: neighbours in the wrong order become their mean."""
    sums: list[float] = []
    counts: list[int] = []
    for value in values:
        total, count = value, 1
        while sums and sums[-1] * count >= total * counts[-1]:
            total, count = total + sums.pop(), count + counts.pop()
        sums.append(total)
        counts.append(count)
    return np.repeat(np.array(sums) / counts, counts)


def sums(values_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
    """[Q] by query."""
    sizes_Q = np.diff(offsets_Q)
    return np.bincount(np.repeat(np.arange(len(sizes_Q)), sizes_Q), weights=values_N, minlength=len(sizes_Q))


def spans(offsets_Q: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where each query begins and ends."""
    return zip(offsets_Q[:-1].tolist(), offsets_Q[1:].tolist(), strict=True)


# ---- of one query: the ranking y of the most Δ(y) + w·Ψ(y) − w·Ψ(y*), y* a right ranking, Δ = 1 − its measure


def worst_by_precision(scores_n: np.ndarray, labels_n: np.ndarray) -> tuple[np.ndarray, float]:
    """The numbers a with w·Ψ(y) − w·Ψ(y*) = Σ a_i (w·x_i), and Δ(y), by average precision. Ψ(y) is the mean over pairs
    of a relevant i and another j of ±(x_i − x_j), + where i comes first. Both kinds are in the order of their scores,
    and each j is put in its best place on its own (Yue et al., algorithm 2): O(n log n + R·S)."""
    is_relevant_n = labels_n >= 1
    relevant, others = np.flatnonzero(is_relevant_n), np.flatnonzero(~is_relevant_n)
    if not len(relevant) or not len(others):
        return np.zeros(len(scores_n)), 0.0
    relevant = relevant[np.argsort(-scores_n[relevant], kind="stable")]
    others = others[np.argsort(-scores_n[others], kind="stable")]
    pairs = len(relevant) * len(others)
    k_R1, j_1S = np.arange(1, len(relevant) + 1)[:, None], np.arange(1, len(others) + 1)[None]
    # What it adds that the j-th other comes before the k-th relevant, not right after it: less precision there, and
    # twice the pair's difference of scores.
    lost_RS = (k_R1 / (k_R1 + j_1S - 1) - k_R1 / (k_R1 + j_1S)) / len(relevant)
    gained_RS = lost_RS - 2 * (scores_n[relevant][:, None] - scores_n[others][None]) / pairs
    # Sums over k ≥ i, i = 1 … R + 1: before which relevant document an other is put; R + 1: after all of them.
    sums_RS = np.vstack([np.cumsum(gained_RS[::-1], axis=0)[::-1], np.zeros((1, len(others)))])
    is_before_RS = np.arange(len(relevant))[:, None] >= sums_RS.argmax(axis=0)[None]
    weights_n = np.zeros(len(scores_n))
    weights_n[relevant] = -2.0 * is_before_RS.sum(axis=1) / pairs
    weights_n[others] = 2.0 * is_before_RS.sum(axis=0) / pairs
    k_R = np.arange(1, len(relevant) + 1)
    return weights_n, float(1 - (k_R / (k_R + is_before_RS.sum(axis=1))).mean())


def worst_by_ndcg(scores_n: np.ndarray, labels_n: np.ndarray, cutoff: int) -> tuple[np.ndarray, float]:
    """The same by NDCG. Ψ(y) = Σ_i c(rank of i) x_i, c falling: then all is a sum over documents, and the y of the most
    an assignment of documents to ranks, O(n³)."""
    from scipy.optimize import linear_sum_assignment

    gain_n = np.exp2(labels_n) - 1
    if not gain_n.any():
        return np.zeros(len(scores_n)), 0.0
    rank_n = np.arange(1, len(scores_n) + 1)
    slope_n = 1 / np.sqrt(1 + rank_n)
    slope_n /= slope_n.sum()
    discount_n = 1 / np.log2(1 + rank_n) * (rank_n <= (cutoff or len(rank_n)))
    right_n = np.argsort(-gain_n, kind="stable")
    worth_n = gain_n / (gain_n[right_n] @ discount_n)
    profit_nn = scores_n[:, None] * slope_n[None] - worth_n[:, None] * discount_n[None]
    _, place_n = linear_sum_assignment(profit_nn, maximize=True)
    weights_n = slope_n[place_n]
    _, group_n = np.unique(-gain_n[right_n], return_inverse=True)
    weights_n[right_n] -= (np.bincount(group_n, weights=slope_n) / np.bincount(group_n))[group_n]
    return weights_n, float(1 - worth_n @ discount_n[place_n])


# ---- as losses of scores


class PlainRankLoss(RankLoss[Settings]):
    """A loss without a gradient."""

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        labels_N, logits = queries.grade_N.double().cpu().numpy(), logits_N.detach().double().cpu().numpy()
        sizes_Q = queries.layout.lengths.numpy()
        losses_Q = self.plain(logits, labels_N, np.concatenate(([0], np.cumsum(sizes_Q))))
        return torch.where(queries.informative_B, torch.from_numpy(losses_Q).to(logits_N), 0)

    @abstractmethod
    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        """[Q] of each query."""


class ExponentialMeasure(PlainRankLoss[Measured]):
    """e^(−E(q))."""

    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        return np.exp(-measured(labels_N, logits_N, offsets_Q, self.settings, worst=True))


class LostMeasure(PlainRankLoss[Measured]):
    """1 − E(q)."""

    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        return 1 - measured(labels_N, logits_N, offsets_Q, self.settings, worst=True)


class RankError(PlainRankLoss[NoSettings]):
    """Of logits s − b_k: the mean over documents of how many thresholds they are on the wrong side of."""

    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        sign_NK = np.where(labels_N[:, None] > np.arange(logits_N.shape[1]), 1.0, -1.0)
        wrong_N = (sign_NK * logits_N <= 0).sum(axis=1)
        return sums(wrong_N, offsets_Q) / np.maximum(np.diff(offsets_Q), 1)

    def scores(self, logits_N: Tensor) -> Tensor:
        return logits_N.mean(dim=-1)


class Disorder(PlainRankLoss[NoSettings]):
    """Σ (s − t)² / Σ (s − s̄)² over a query's documents; 1 where all scores are equal."""

    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        sizes_Q = np.diff(offsets_Q)
        lost_N = (logits_N - in_order(labels_N, logits_N, offsets_Q)) ** 2
        mean_Q = sums(logits_N, offsets_Q) / np.maximum(sizes_Q, 1)
        spread_Q = sums((logits_N - np.repeat(mean_Q, sizes_Q)) ** 2, offsets_Q)
        return np.divide(sums(lost_N, offsets_Q), spread_Q, out=np.ones(len(sizes_Q)), where=spread_Q > 0)


class Structured(PlainRankLoss[Settings]):
    """max over y of Δ(y) + w·Ψ(y) − w·Ψ(y*)."""

    @abstractmethod
    def worst(self, scores_n: np.ndarray, labels_n: np.ndarray) -> tuple[np.ndarray, float]:
        """Of a query the numbers a with w·Ψ(y) − w·Ψ(y*) = Σ a_i (w·x_i) at the y of the most, and Δ(y)."""

    def plain(self, logits_N: np.ndarray, labels_N: np.ndarray, offsets_Q: np.ndarray) -> np.ndarray:
        bounds = []
        for first, end in spans(offsets_Q):
            weights_n, missed = self.worst(logits_N[first:end], labels_N[first:end])
            bounds.append(missed + float(weights_n @ logits_N[first:end]))
        return np.array(bounds)


class MAPHinge(Structured[NoSettings]):
    """Δ = 1 − AP."""

    def worst(self, scores_n: np.ndarray, labels_n: np.ndarray) -> tuple[np.ndarray, float]:
        return worst_by_precision(scores_n, labels_n)


class NDCGHinge(Structured[Cutoff]):
    """Δ = 1 − NDCG."""

    def worst(self, scores_n: np.ndarray, labels_n: np.ndarray) -> tuple[np.ndarray, float]:
        return worst_by_ndcg(scores_n, labels_n, self.settings.cutoff)


class CrossEntropyNDCG(ListLoss[Listwise]):
    """−Σ φ log softmax(s), φ = (2^l − γ)/Σ (2^l − γ), γ a random number from 0 to 1 of each document."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        gamma_N = (queries.key_N & _MASK).to(logits_N.dtype) / (_MASK + 1)
        gain_N = torch.exp2(queries.grade_N.to(logits_N.dtype)) - gamma_N
        phi_N = gain_N / queries.sum(gain_N)[queries.row]
        return torch.where(queries.informative_B, -queries.sum(phi_N * queries.log_softmax(logits_N)), 0)
