"""Features, labels and weights from click logs.

Papers: Joachims, Granka, Pan, Hembrooke and Gay 2005, Accurately interpreting clickthrough data as implicit feedback
(section 6: the strategies); Joachims, Swaminathan and Schnabel 2017, Unbiased learning-to-rank with biased feedback
(inverse propensities; θ by swaps); Richardson, Dominowska and Ragno 2007, Predicting clicks (the position-based model
P(click) = θ_k · γ_qd, fitted by expectation and maximisation as in Wang et al. 2018).

| function | |
| --- | --- |
| `rates` | CTR (c + a p₀) / (v + a) of c clicks in v views, p₀ all clicks / all views, a = 10; mean dwell of clicks; |
| | second-hop: the share of clicks from which the reader clicked on |
| `preferences` | skip-above: a clicked document over each above it that was not clicked; last-click: the last click |
| | alone; skip-next: a clicked document over the next one, where that was not clicked |
| `labels` | 2 where a document won more often than it lost, 0 where it lost more often, else 1 |
| `propensities_by_swaps` | θ_k / θ_(k−1): the ratio of CTRs of the same query and document, seen at both positions |
| `propensities_by_em` | the position-based model; θ_1 = 1 |
| `weights` | min(1 / θ_k, cap) of clicks, 0 else |

Shapes: N rows, K positions, p pairs of a query and a document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from canon.data.formats.click_log import ClickLog
from canon.errors import CanonError, unknown

PRIOR = 10.0  # views
STRATEGIES = ("skip-above", "last-click", "skip-next")
LOST, EVEN, WON = 0, 1, 2
_LEAST = 1e-9  # of a probability


@dataclass(frozen=True)
class LoggedPairs:
    """The different pairs of a query and a document of a log, and which of them each row is."""

    query: np.ndarray  # [p]
    document: np.ndarray  # [p]
    of_row: np.ndarray  # [N]

    @classmethod
    def of(cls, log: ClickLog) -> LoggedPairs:
        keys, of_row = np.unique(log.query * len(log.documents) + log.document, return_inverse=True)
        query, document = np.divmod(keys, len(log.documents))
        return cls(query, document, of_row)

    def sum(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.of_row, weights=values, minlength=len(self.query))


def rates(log: ClickLog, pairs: LoggedPairs, prior: float = PRIOR) -> dict[str, np.ndarray]:
    """ctr of each pair, and where the log has them dwell and second-hop."""
    views, clicks = pairs.sum(np.ones(len(log))), pairs.sum(log.clicked)
    values = {"ctr": (clicks + prior * log.clicked.mean()) / (views + prior)}
    for name, column in (("dwell", log.dwell), ("second-hop", log.hop)):
        if column is not None:
            known = log.clicked & ~np.isnan(column)
            values[name] = pairs.sum(np.where(known, column, 0.0)) / np.maximum(pairs.sum(known), 1)
    return values


def preferences(log: ClickLog, strategy: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are preferred, and the rows they are preferred to."""
    if strategy not in STRATEGIES:
        raise unknown("strategy", strategy, STRATEGIES)
    starts = np.flatnonzero(np.concatenate([[True], log.view[1:] != log.view[:-1]]))
    ends = np.concatenate([starts[1:], [len(log)]])
    if strategy == "skip-next":
        rows = np.flatnonzero(log.clicked[:-1] & ~log.clicked[1:] & (log.view[1:] == log.view[:-1]))
        return rows, rows + 1
    # The number of rows not clicked before each row of its view: with it pairs are laid out without a loop over rows.
    skipped = np.flatnonzero(~log.clicked)
    clicks = np.flatnonzero(log.clicked)
    view_of = np.repeat(np.arange(len(starts)), ends - starts)
    if strategy == "last-click" and len(clicks):
        last = np.concatenate([view_of[clicks][1:] != view_of[clicks][:-1], [True]])
        clicks = clicks[last]
    low, high = np.searchsorted(skipped, starts[view_of[clicks]]), np.searchsorted(skipped, clicks)
    counts = high - low
    first = np.cumsum(counts) - counts
    inside = np.arange(int(counts.sum())) - np.repeat(first, counts) + np.repeat(low, counts)
    return np.repeat(clicks, counts), skipped[inside]


def labels(log: ClickLog, pairs: LoggedPairs, strategy: str) -> np.ndarray:
    """[p] 2 where a document won more often than it lost, 0 where it lost more often, else 1."""
    better, worse = preferences(log, strategy)
    wins = np.bincount(pairs.of_row[better], minlength=len(pairs.query)).astype(np.int64)
    losses = np.bincount(pairs.of_row[worse], minlength=len(pairs.query))
    return np.where(wins > losses, WON, np.where(wins < losses, LOST, EVEN))


def weights(log: ClickLog, theta_K: np.ndarray, cap: float = 10.0) -> np.ndarray:
    """[N] min(1 / θ_k, cap) of clicks, by which clicks at positions that are rarely seen count more; 0 else."""
    if int(log.position.max()) > len(theta_K):
        raise CanonError(f"There are {len(theta_K)} propensities, but a document was at position {log.position.max()}.")
    return np.where(log.clicked, np.minimum(1 / np.maximum(theta_K[log.position - 1], 1e-12), cap), 0.0)


def propensities_by_swaps(log: ClickLog, pairs: LoggedPairs) -> np.ndarray:
    """θ [K], θ_1 = 1: by documents that were shown at two positions next to each other for the same query.

    Of each such pair, views at both positions weigh alike: clicks are rates times the harmonic mean of views."""
    K = int(log.position.max())
    key, size = pairs.of_row * K + log.position - 1, len(pairs.query) * K
    views = np.bincount(key, minlength=size).reshape(-1, K)
    rate = np.bincount(key, weights=log.clicked, minlength=size).reshape(-1, K) / np.maximum(views, 1)
    theta = np.ones(K)
    for k in range(1, K):
        both = (views[:, k] > 0) & (views[:, k - 1] > 0)
        weight = 1 / (1 / np.maximum(views[:, k], 1) + 1 / np.maximum(views[:, k - 1], 1)) * both
        above = float((weight * rate[:, k - 1]).sum())
        if not above:
            raise CanonError(
                f"No document was shown and clicked at positions {k} and {k + 1} of the same query: use the model of "
                "positions (em), or a log with swaps."
            )
        theta[k] = theta[k - 1] * float((weight * rate[:, k]).sum()) / above
    return theta


def propensities_by_em(log: ClickLog, pairs: LoggedPairs, rounds: int = 5000, close: float = 1e-8) -> np.ndarray:
    """θ [K], θ_1 = 1, of the position-based model.

    Rows of one pair and position are counted together, so that a round costs their number, not N. Plain EM takes tens
    of thousands of rounds where documents rarely change position; every third step is extrapolated (Varadhan and Roland
    2008, Simple and globally convergent methods for accelerating any EM algorithm), unless that makes the log less
    likely."""
    K = int(log.position.max())
    key, where = np.unique(pairs.of_row * K + log.position - 1, return_inverse=True)
    views = np.bincount(where).astype(np.float64)
    clicks = np.bincount(where, weights=log.clicked)
    pair, place = np.divmod(key, K)
    shown = np.maximum(np.bincount(np.concatenate([place, pair + K]), weights=np.tile(views, 2)), 1)

    def step(x: np.ndarray) -> np.ndarray:
        """E: P(seen | no click) = θ (1 − γ) / (1 − θ γ), P(liked | no click) = γ (1 − θ) / (1 − θ γ); M: means."""
        seen, liked = x[place], x[pair + K]
        missed = (views - clicks) / (1 - seen * liked)
        seen_sums = np.bincount(place, weights=clicks + missed * seen * (1 - liked), minlength=K)
        liked_sums = np.bincount(pair, weights=clicks + missed * liked * (1 - seen))
        return np.clip(np.concatenate([seen_sums, liked_sums]) / shown, _LEAST, 1 - _LEAST)

    def likelihood(x: np.ndarray) -> float:
        p = x[place] * x[pair + K]
        return float((clicks * np.log(p) + (views - clicks) * np.log1p(-p)).sum())

    x = np.full(len(shown), 0.5)
    for _ in range(rounds):
        one = step(x)
        two = step(one)
        first, second = one - x, two - 2 * one + x
        size = np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-300)
        far = np.clip(x + 2 * size * first + size**2 * second, _LEAST, 1 - _LEAST)
        new = step(far if likelihood(far) >= likelihood(two) else two)
        change, x = np.abs(new - x)[:K].max(), new
        if change < close:
            break
    return np.asarray(x[:K] / x[0])
