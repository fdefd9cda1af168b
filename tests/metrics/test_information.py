"""Entropy and its relatives against closed forms and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy

from canon import metrics
from canon.errors import CanonError

counts = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 50), min_size=n, max_size=n).filter(any) for _ in range(2)])
)


def test_weather_example_is_1_75_bits():
    p = [0.5, 0.25, 0.125, 0.125]
    assert metrics.entropy(p, base=2) == 1.75
    # Coding it as if uniform costs 2 bits, 0.25 more; perplexity of that is 4 in any base.
    assert metrics.cross_entropy(p, [0.25] * 4, base=2) == 2.0
    assert metrics.kl_divergence(p, [0.25] * 4, base=2) == pytest.approx(0.25, abs=1e-15)
    assert metrics.perplexity(2.0, base=2) == 4.0
    assert metrics.perplexity(metrics.cross_entropy(p, [0.25] * 4)) == pytest.approx(4.0, rel=1e-14)


def test_cross_entropy_worked_examples():
    truth = [1, 0, 0, 0, 0]
    assert metrics.cross_entropy(truth, [0.4, 0.3, 0.05, 0.05, 0.2]) == pytest.approx(-math.log(0.4), rel=1e-15)
    assert round(metrics.cross_entropy(truth, [0.4, 0.3, 0.05, 0.05, 0.2]), 3) == 0.916
    assert round(metrics.cross_entropy(truth, [0.98, 0.01, 0, 0, 0.01]), 3) == 0.020


@given(counts, st.sampled_from([2, math.e, 10, 3.5]))
@settings(max_examples=150)
def test_entropy_kl_and_js_equal_scipy(pair, base):
    p, q = pair
    near = {"rel": 1e-12, "abs": 1e-14}
    assert metrics.entropy(p, base=base, normalize=True) == pytest.approx(scipy_entropy(p, base=base), **near)
    kl = metrics.kl_divergence(p, q, base=base, normalize=True)
    assert kl == pytest.approx(scipy_entropy(p, q, base=base), **near)
    assert metrics.cross_entropy(p, q, base=base, normalize=True) == pytest.approx(
        kl + scipy_entropy(p, base=base), **near
    )
    js = metrics.js_divergence(p, q, base=base, normalize=True)
    # scipy returns the square root, so squaring magnifies rounding near zero.
    assert js == pytest.approx(jensenshannon(p, q, base=base) ** 2, rel=1e-9, abs=1e-12)


def test_zero_probabilities_follow_the_argument():
    p, q = [0.5, 0.5], [1.0, 0.0]
    assert metrics.cross_entropy(p, q) == math.inf
    assert metrics.kl_divergence(p, q) == math.inf
    expected = -0.5 * math.log(1e-6)
    assert metrics.cross_entropy(p, q, zero="clip", epsilon=1e-6) == pytest.approx(expected, rel=1e-14)
    assert metrics.kl_divergence(p, q, zero="clip", epsilon=1e-6) == pytest.approx(expected - math.log(2), rel=1e-14)
    with pytest.raises(CanonError, match="q is zero at position 1"):
        metrics.cross_entropy(p, q, zero="error")
    # Where p is zero too, nothing is paid: 0·log 0 = 0.
    assert metrics.cross_entropy([1.0, 0.0], q, zero="error") == 0.0
    assert metrics.js_divergence([1, 0], [0, 1], base=2) == 1.0


def test_sequence_perplexity_is_the_inverse_geometric_mean():
    assert metrics.sequence_perplexity([0.5, 0.125]) == pytest.approx(4.0, rel=1e-14)
    assert metrics.sequence_perplexity([0.5, 0.0]) == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.entropy([0.5, 0.6]), "must sum to 1, got 1.1"),
        (lambda: metrics.entropy([]), "is empty"),
        (lambda: metrics.entropy([-0.5, 1.5]), "must not be negative"),
        (lambda: metrics.entropy([0, 0], normalize=True), "cannot be normalised"),
        (lambda: metrics.entropy([0.5, 0.5], base=1), "other than 1"),
        (lambda: metrics.entropy([np.nan, 1.0]), "contains NaN"),
        (lambda: metrics.kl_divergence([0.5, 0.5], [1.0]), "same length"),
        (lambda: metrics.cross_entropy([1.0], [1.0], zero="ignore"), 'No zero "ignore"'),
        (lambda: metrics.sequence_perplexity([1.2]), "must lie in"),
        (lambda: metrics.perplexity(math.nan), "is NaN"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(CanonError) as caught:
        call()
    assert words in str(caught.value)
