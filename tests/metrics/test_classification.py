"""Class counts and regression errors against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from canon import metrics
from canon.errors import CanonError

columns = st.integers(1, 60).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2)])
)


@given(columns)
@settings(max_examples=60)
def test_confusion_matrix_accuracy_and_zero_one_loss_equal_scikit_learn(pair):
    labels, predictions = pair
    assert (metrics.confusion_matrix(labels, predictions) == sk.confusion_matrix(labels, predictions)).all()
    assert metrics.accuracy(labels, predictions) == sk.accuracy_score(labels, predictions)
    assert metrics.zero_one_loss(labels, predictions) == pytest.approx(sk.zero_one_loss(labels, predictions), abs=1e-15)
    total = sk.zero_one_loss(labels, predictions, normalize=False)
    assert metrics.zero_one_loss(labels, predictions, reduction="sum") == total


@given(columns, st.sampled_from(["macro", "micro", "weighted"]), st.sampled_from([0.0, 1.0]))
@settings(max_examples=100)
def test_multiclass_precision_recall_f1_equal_scikit_learn(pair, average, zero):
    labels, predictions = pair
    arguments = {"average": average, "zero_division": zero}
    for ours, theirs in (
        (metrics.precision, sk.precision_score),
        (metrics.recall, sk.recall_score),
        (metrics.f1, sk.f1_score),
    ):
        assert ours(labels, predictions, **arguments) == pytest.approx(
            theirs(labels, predictions, **arguments), abs=1e-14
        )


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.sampled_from([0.0, 1.0]))
@settings(max_examples=60)
def test_binary_scores_equal_scikit_learn(pairs, zero):
    labels, predictions = (np.array(c, dtype=int) for c in zip(*pairs, strict=True))
    for ours, theirs in (
        (metrics.precision, sk.precision_score),
        (metrics.recall, sk.recall_score),
        (metrics.f1, sk.f1_score),
    ):
        assert ours(labels, predictions, zero_division=zero) == pytest.approx(
            theirs(labels, predictions, zero_division=zero), abs=1e-15
        )


def test_class_scores_equal_scikit_learn_with_string_classes_in_a_given_order():
    rng = np.random.default_rng(1)
    classes = ["dog", "ant", "cat", "never"]
    labels, predictions = rng.choice(classes[:3], 200), rng.choice(classes[:3], 200)
    ours = metrics.class_scores(labels, predictions, classes=classes)
    theirs = sk.precision_recall_fscore_support(labels, predictions, labels=classes, zero_division=0)
    assert list(ours.classes) == classes
    for a, b in zip((ours.precision, ours.recall, ours.f1, ours.support), theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)
    matrix = sk.confusion_matrix(labels, predictions, labels=classes)
    assert (metrics.confusion_matrix(labels, predictions, classes=classes) == matrix).all()


def test_positive_names_the_class_for_the_binary_average():
    labels, predictions = ["spam", "ham", "spam", "ham"], ["spam", "spam", "ham", "ham"]
    assert metrics.precision(labels, predictions, positive="spam") == 0.5
    # No prediction of the positive class at all: the value is zero_division.
    assert metrics.precision(["a", "b"], ["a", "a"], positive="b", zero_division=0.25) == 0.25


@pytest.mark.parametrize("size", [2, 5])
def test_log_loss_equals_scikit_learn_on_matrices_and_vectors(size):
    rng = np.random.default_rng(2)
    table = rng.dirichlet(np.ones(size), 100)
    table[0] = np.eye(size)[0]
    labels = rng.integers(0, size, 100)
    labels[0] = 1  # probability zero: clipped on both sides
    ours = metrics.log_loss(labels, table)
    assert ours == pytest.approx(sk.log_loss(labels, table, labels=range(size)), rel=1e-12)
    assert metrics.log_loss(labels, table, zero="inf") == np.inf
    if size == 2:
        assert metrics.log_loss(labels, table[:, 1]) == pytest.approx(sk.log_loss(labels, table[:, 1]), rel=1e-12)


def test_log_loss_worked_examples():
    # Hand values: −ln 0.4 = 0.916 and −ln 0.98 = 0.020; one bit for an even guess.
    assert metrics.log_loss([0], [[0.4, 0.3, 0.05, 0.05, 0.2]]) == pytest.approx(0.916, abs=5e-4)
    assert metrics.log_loss([0], [[0.98, 0.01, 0, 0, 0.01]]) == pytest.approx(0.020, abs=5e-4)
    assert metrics.log_loss([0, 1], [0.5, 0.5], base=2) == 1.0


def test_regression_errors_equal_scikit_learn():
    rng = np.random.default_rng(3)
    y, f = rng.normal(size=300), rng.normal(size=300)
    assert metrics.mean_squared_error(y, f) == pytest.approx(sk.mean_squared_error(y, f), rel=1e-14)
    assert metrics.root_mean_squared_error(y, f) == pytest.approx(sk.root_mean_squared_error(y, f), rel=1e-14)
    assert metrics.mean_absolute_error(y, f) == pytest.approx(sk.mean_absolute_error(y, f), rel=1e-14)
    assert metrics.r2(y, f) == pytest.approx(sk.r2_score(y, f), rel=1e-13)
    grid, other = y.reshape(100, 3), f.reshape(100, 3)
    assert metrics.mean_squared_error(grid, other) == pytest.approx(sk.mean_squared_error(grid, other), rel=1e-14)


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("predictions", [[2.0, 2.0, 2.0], [2.0, 2.0, 3.0]])
def test_r2_of_constant_targets_follows_scikit_learn(finite, predictions):
    ours = metrics.r2([2.0, 2.0, 2.0], predictions, force_finite=finite)
    np.testing.assert_equal(ours, sk.r2_score([2.0, 2.0, 2.0], predictions, force_finite=finite))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.accuracy([1, 2], [1]), "same length, got 2 and 1"),
        (lambda: metrics.accuracy([], []), "labels is empty"),
        (lambda: metrics.accuracy([[1]], [[1]]), "must have 1 axis"),
        (lambda: metrics.precision([0, 1, 2], [0, 1, 2]), 'average="binary" needs two classes'),
        (lambda: metrics.f1([0, 2], [0, 2]), "positive=1"),
        (lambda: metrics.f1([0, 1], [0, 1], average="marco"), "did you mean macro?"),
        (lambda: metrics.confusion_matrix([0, 1], [0, 3], classes=[0, 1]), "does not list 3"),
        (lambda: metrics.confusion_matrix([0, 1], [0, 1], classes=[0, 1, 1]), "must not repeat"),
        (lambda: metrics.zero_one_loss([0], [0], reduction="max"), "No reduction"),
        (lambda: metrics.log_loss([0, 1], [0.5, 1.5]), "must lie in"),
        (lambda: metrics.log_loss([0], [[0.5, 0.2]]), "must sum to 1"),
        (lambda: metrics.log_loss([2], [[0.5, 0.5]]), "whole numbers from 0 to 1"),
        (lambda: metrics.log_loss([0], [np.nan]), "contains NaN"),
        (lambda: metrics.mean_squared_error([1.0, 2.0], [1.0]), "same shape"),
        (lambda: metrics.r2([1.0, np.nan], [1.0, 2.0]), "targets contains NaN"),
        (lambda: metrics.mean_absolute_error(["a"], ["b"]), "must be numbers"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(CanonError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
