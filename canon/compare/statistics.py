"""Means, intervals and paired tests over seeds.

Student's t: the mean of n runs lies within t_{n−1} · s / √n (Student 1908). Two recipes trained with the same seeds are
compared by the differences of their pairs. When several are compared with the first, p-values are corrected by Holm's
step-down rule (Holm 1979). Deviations: none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass

LEVEL = 0.95
_ROUNDING = 1e-12  # a spread below this share of the values is their rounding


@dataclass(frozen=True)
class Spread:
    n: int
    mean: float
    sd: float | None  # None: one run has no spread
    low: float | None  # ends of the 95 % interval of the mean
    high: float | None


@dataclass(frozen=True)
class Difference:
    """Of the mean from the first recipe's, over pairs of one seed."""

    pairs: int
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None  # None: no test is possible, see `why`
    p_holm: float | None = None
    why: str = ""


def spread(values: Sequence[float]) -> Spread:
    from scipy.stats import t as student

    n, mean = len(values), math.fsum(values) / len(values)
    if n < 2:
        return Spread(n, mean, None, None, None)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    margin = float(student.ppf((1 + LEVEL) / 2, n - 1)) * sd / math.sqrt(n)
    return Spread(n, mean, sd, mean - margin, mean + margin)


def paired(first: Sequence[float], other: Sequence[float]) -> Difference:
    """other − first, with the two-sided paired t-test."""
    from scipy.stats import t as student

    n, mean, sd, low, high = astuple(spread([b - a for a, b in zip(first, other, strict=True)]))
    rounding = _ROUNDING * max(map(abs, (*first, *other)))
    if sd is None:
        return Difference(n, mean, why="one pair of runs has no spread: use more seeds")
    if sd <= rounding and abs(mean) <= rounding:
        return Difference(n, 0.0, 0.0, 0.0, 1.0)
    if sd <= rounding:  # n copies of one number are not n observations: an infinite t would be no evidence
        return Difference(n, mean, why="the difference is the same for every seed")
    t = mean / (sd / math.sqrt(n))
    return Difference(n, mean, low, high, float(2 * student.sf(abs(t), n - 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted so that rejecting all below α is wrong anywhere with probability at most α."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
