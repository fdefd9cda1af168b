"""The classifier two-sample test against permutation tests and its promised error rate."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from canon import metrics
from canon.errors import CanonError


@pytest.mark.parametrize("sizes", [(60, 60), (90, 30)])
@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_exact_p_value_equals_permuting_the_held_out_labels(sizes, shift):
    rng = np.random.default_rng(0)
    result = metrics.classifier_two_sample_test(
        rng.normal(size=(sizes[0], 2)), rng.normal(size=(sizes[1], 2)) + shift, seed=3
    )
    draws = np.array([rng.permutation(result.labels) for _ in range(20_000)])
    share = np.mean((draws == result.predictions).mean(axis=1) >= result.accuracy - 1e-12)
    # Four standard errors of a share from 20,000 draws.
    assert result.p_value == pytest.approx(share, abs=4 * np.sqrt(0.25 / 20_000))


def test_agrees_with_a_permutation_test_that_retrains_every_time():
    rng = np.random.default_rng(1)
    for shift, rejects in ((0.0, False), (1.0, True)):
        a, b = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + shift
        ours = metrics.classifier_two_sample_test(a, b)
        pooled = np.concatenate([a, b])
        above = 0
        for _ in range(60):
            mixed = rng.permutation(pooled)
            above += metrics.classifier_two_sample_test(mixed[:60], mixed[60:]).accuracy >= ours.accuracy
        permutation = (above + 1) / 61
        assert (ours.p_value < 0.05) is rejects
        assert (permutation < 0.05) is rejects


def test_equal_distributions_are_rejected_no_more_often_than_the_level():
    rng = np.random.default_rng(2)
    p = [
        metrics.classifier_two_sample_test(rng.normal(size=(50, 3)), rng.normal(size=(70, 3)), seed=i).p_value
        for i in range(100)
    ]
    # Binomial(100, 0.05) exceeds 12 with probability 0.0015; a median below 0.3 would mean p-values pile up low.
    assert np.sum(np.array(p) < 0.05) <= 12
    assert np.median(p) > 0.3


def test_shifted_distributions_are_rejected():
    rng = np.random.default_rng(3)
    for p_value in ("exact", "normal"):
        result = metrics.classifier_two_sample_test(rng.normal(size=300), rng.normal(size=300) + 1, p_value=p_value)
        assert result.p_value < 1e-6
        assert 0.6 < result.accuracy < 0.8  # the best possible is Φ(½) = 0.69
        assert result.held_out == 300


def test_a_change_of_shape_needs_a_classifier_that_sees_it():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(400, 1)), 3 * rng.normal(size=(400, 1))
    assert metrics.classifier_two_sample_test(a, b, classifier="logistic").p_value > 0.01
    assert metrics.classifier_two_sample_test(a, b, classifier="mlp").p_value < 1e-4
    assert metrics.classifier_two_sample_test(a, b, classifier=KNeighborsClassifier(15)).p_value < 1e-4


def test_the_seed_fixes_the_result():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 0.3
    one, two = (metrics.classifier_two_sample_test(a, b, seed=9, classifier="mlp") for _ in range(2))
    assert (one.accuracy, one.p_value) == (two.accuracy, two.p_value)
    assert (one.predictions == two.predictions).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"first": [1.0, 2.0]}, "at least 4 are needed"),
        ({"first": np.zeros((9, 3))}, "same number of features, got 3 and 1"),
        ({"first": [1.0, np.nan, 2, 3]}, "contains NaN"),
        ({"first": [1.0, np.inf, 2, 3]}, "infinite"),
        ({"classifier": "forest"}, 'No classifier "forest"'),
        ({"test_share": 1.0}, "between 0 and 1"),
        ({"p_value": "bayes"}, 'No p_value "bayes"'),
        ({"p_value": "normal", "first": np.zeros(9)}, "equal size, got 9 and 8"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    with pytest.raises(CanonError) as caught:
        metrics.classifier_two_sample_test(**{"first": np.arange(8.0), "second": np.arange(8.0), **arguments})
    assert words in str(caught.value)
