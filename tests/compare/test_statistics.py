"""Statistics against scipy, closed testing by brute force, and simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from canon.compare.statistics import holm, paired, spread

DRAWS = [np.random.default_rng(n).normal(0.9, 0.02, (2, n)) for n in (2, 3, 5, 30)]


@pytest.mark.parametrize("values", [draw[0] for draw in DRAWS], ids=len)
def test_spread_is_scipys_t_interval(values: np.ndarray) -> None:
    result = spread(values.tolist())
    low, high = stats.t.interval(0.95, len(values) - 1, loc=values.mean(), scale=stats.sem(values))
    assert (result.n, result.mean, result.sd) == (
        len(values),
        pytest.approx(values.mean()),
        pytest.approx(values.std(ddof=1)),
    )
    assert (result.low, result.high) == (pytest.approx(low), pytest.approx(high))


def test_interval_covers_the_truth_95_times_in_100() -> None:
    draws = np.random.default_rng(0).normal(3.0, 2.0, (2000, 4)).tolist()
    inside = [result.low < 3.0 < result.high for result in map(spread, draws)]  # type: ignore[operator]
    assert 0.935 < np.mean(inside) < 0.965


@pytest.mark.parametrize("pair", DRAWS, ids=lambda pair: pair.shape[1])
def test_paired_is_scipys_ttest_rel(pair: np.ndarray) -> None:
    first, other = pair
    result, oracle = paired(first.tolist(), other.tolist()), stats.ttest_rel(other, first)
    bounds = oracle.confidence_interval(0.95)
    assert result.p == pytest.approx(oracle.pvalue)
    assert result.mean == pytest.approx((other - first).mean())
    assert (result.low, result.high) == (pytest.approx(bounds.low), pytest.approx(bounds.high))


def test_pairing_matters() -> None:
    first, other = [0.1, 0.5, 0.9], [0.12, 0.53, 0.92]
    assert (paired(first, other).p or 1) < 0.05 < (paired(first, [0.92, 0.12, 0.53]).p or 1)


def test_no_difference_at_all() -> None:
    result = paired([0.9, 0.8, 0.7], [0.9, 0.8, 0.7])
    assert (result.mean, result.low, result.high, result.p) == (0.0, 0.0, 0.0, 1.0)
    # Rounding must not become evidence.
    assert paired([0.1 + 0.2, 0.7], [0.3, 0.7]).p == 1.0


def test_what_cannot_be_tested_says_why() -> None:
    one, same = paired([0.9], [0.8]), paired([0.9, 0.9, 0.9], [0.8, 0.8, 0.8])
    assert one.p is None and one.low is None and "more seeds" in one.why and one.mean == pytest.approx(-0.1)
    assert same.p is None and same.low is None and "every seed" in same.why and same.mean == pytest.approx(-0.1)
    assert spread([0.5]).sd is None and spread([0.5]).low is None


def test_holm_by_hand() -> None:
    # Sorted: 0.01·3 = 0.03, 0.03·2 = 0.06, 0.04·1 = 0.04, which may not fall below the 0.06 before it.
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == [] and holm([0.2]) == [0.2] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_holm_is_closed_testing_with_bonferroni() -> None:
    """A hypothesis falls when every set that holds it does: p = max over sets S of |S| · min p in S."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = rng.beta(0.4, 2, rng.integers(1, 6)).tolist()
        sets = [s for k in range(1, len(p) + 1) for s in combinations(range(len(p)), k)]
        wanted = [max(min(1.0, len(s) * min(p[j] for j in s)) for s in sets if i in s) for i in range(len(p))]
        assert holm(p) == pytest.approx(wanted)
