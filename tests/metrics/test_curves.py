"""ROC, AUC, KS and precision–recall against brute force, scikit-learn and scipy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from canon import metrics
from canon.errors import CanonError

few = st.integers(-3, 3).map(float)
any_score = st.floats(allow_nan=False, allow_infinity=True)
samples = st.one_of(
    st.lists(st.tuples(st.integers(0, 1), few), min_size=2, max_size=40),
    st.lists(st.tuples(st.integers(0, 1), any_score), min_size=2, max_size=40),
).filter(lambda rows: len({label for label, _ in rows}) == 2)


def pair_count(labels, scores):
    """The definition, over all pairs, in exact arithmetic."""
    positive = [s for y, s in zip(labels, scores, strict=True) if y]
    negative = [s for y, s in zip(labels, scores, strict=True) if not y]
    wins = sum(Fraction(int(p > n)) + Fraction(int(p == n), 2) for p in positive for n in negative)
    return float(wins / (len(positive) * len(negative)))


@given(samples)
@settings(max_examples=200)
def test_both_auc_forms_equal_the_count_over_all_pairs(rows):
    labels, scores = zip(*rows, strict=True)
    expected = pair_count(labels, scores)
    assert metrics.auc_by_pairs(labels, scores) == expected
    assert metrics.auc_by_ranks(labels, scores) == expected


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_both_auc_forms_equal_scikit_learn_on_a_large_sample_with_ties(dtype, share):
    rng = np.random.default_rng(0)
    labels = (rng.random(50_000) < share).astype(int)
    scores = (3 * (rng.normal(size=50_000) + labels)).astype(dtype)
    expected = sk.roc_auc_score(labels, scores)
    pairs, ranks = metrics.auc(labels, scores), metrics.auc(labels, scores, form="ranks")
    assert pairs == pytest.approx(expected, abs=1e-12)
    assert abs(pairs - ranks) <= 1e-12
    assert metrics.gini(labels, scores) == pytest.approx(2 * expected - 1, abs=1e-12)


def test_auc_reads_torch_tensors_bools_and_lists_alike():
    labels, scores = [0, 1, 1, 0], [0.1, 0.4, 0.35, 0.8]
    expected = sk.roc_auc_score(labels, scores)
    assert metrics.auc(torch.tensor(labels), torch.tensor(scores, requires_grad=True)) == pytest.approx(expected)
    assert metrics.auc(np.array(labels, dtype=bool), np.array(scores)) == pytest.approx(expected)


@given(samples)
@settings(max_examples=100)
def test_roc_curve_and_average_precision_equal_scikit_learn(rows):
    labels, scores = (np.array(c) for c in zip(*rows, strict=True))
    scores = np.where(np.isinf(scores), np.sign(scores) * 1e300, scores)  # scikit-learn refuses infinite scores
    for drop in (False, True):
        ours = metrics.roc_curve(labels, scores, drop_intermediate=drop)
        for a, b in zip(
            (ours.fpr, ours.tpr, ours.thresholds), sk.roc_curve(labels, scores, drop_intermediate=drop), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-15)
    curve = metrics.pr_curve(labels, scores)
    theirs = sk.precision_recall_curve(labels, scores)
    for a, b in zip((curve.precision, curve.recall, curve.thresholds), theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)
    assert metrics.average_precision(labels, scores) == pytest.approx(
        sk.average_precision_score(labels, scores), abs=1e-13
    )
    assert metrics.pr_area(labels, scores) == pytest.approx(sk.auc(theirs[1], theirs[0]), abs=1e-13)
    assert metrics.pr_area(labels, scores, rule="step") == metrics.average_precision(labels, scores)


@given(samples)
@settings(max_examples=100)
def test_ks_equals_scipys_two_sample_statistic(rows):
    labels, scores = (np.array(c) for c in zip(*rows, strict=True))
    expected = ks_2samp(scores[labels == 1], scores[labels == 0]).statistic
    assert metrics.ks_statistic(labels, scores) == pytest.approx(expected, abs=1e-12)


def test_worked_examples():
    # Perfect order 1, reversed 0, all equal ½; Gini and KS of the same.
    labels = [0, 0, 1, 1]
    assert (metrics.auc(labels, [1, 2, 3, 4]), metrics.gini(labels, [1, 2, 3, 4])) == (1.0, 1.0)
    assert (metrics.auc(labels, [4, 3, 2, 1]), metrics.ks_statistic(labels, [4, 3, 2, 1])) == (0.0, 1.0)
    assert (metrics.auc(labels, [7, 7, 7, 7]), metrics.ks_statistic(labels, [7, 7, 7, 7])) == (0.5, 0.0)
    # Infinite scores are ordinary ends of the order.
    assert metrics.auc([0, 1], [-np.inf, np.inf]) == 1.0


@pytest.mark.parametrize("function", ["auc_by_pairs", "auc_by_ranks", "roc_curve", "pr_curve", "ks_statistic"])
@pytest.mark.parametrize(
    ("labels", "scores", "words"),
    [
        ([0, 1], [0.1], "same length"),
        ([], [], "is empty"),
        ([0, 2], [0.1, 0.2], "must be 0 or 1, got 2 at position 1"),
        ([-1, 1], [0.1, 0.2], "must be 0 or 1"),
        ([0, 1], [0.1, np.nan], "scores contains NaN at flat position 1"),
        ([0, 0], [0.1, 0.2], "must contain at least a 1"),
        (["a", "b"], [0.1, 0.2], "must be 0 or 1"),
    ],
)
def test_bad_input_is_one_sentence(function, labels, scores, words):
    with pytest.raises(CanonError, match=words):
        getattr(metrics, function)(labels, scores)


def test_one_class_only_and_unknown_names_are_refused():
    with pytest.raises(CanonError, match="all 2 of them are 1"):
        metrics.auc([1, 1], [0.1, 0.2])
    with pytest.raises(CanonError, match='No form "pair"; did you mean pairs'):
        metrics.auc([0, 1], [0.1, 0.2], form="pair")
    with pytest.raises(CanonError, match="No rule"):
        metrics.pr_area([0, 1], [0.1, 0.2], rule="simpson")
