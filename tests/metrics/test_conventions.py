"""Settings that change a metric, each at every value: by hand, by brute force over ties, or as gensim has them."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
from gensim.models import KeyedVectors

from canon import metrics
from canon.errors import CanonError

RELEVANCE, SCORES = [3, 0, 1, 2], [4.0, 3.0, 2.0, 1.0]
DISCOUNTS = [1 / math.log2(rank + 2) for rank in range(4)]


@pytest.mark.parametrize(
    ("gain", "gains"),
    [
        ("exponential", [7, 0, 1, 3]),
        ("linear", [3, 0, 1, 2]),
        ("binary", [1, 0, 1, 1]),
        ([0.5, 1.5, 2.5, 9.0], [9.0, 0.5, 1.5, 2.5]),
    ],
)
def test_gains(gain, gains) -> None:
    assert metrics.dcg(RELEVANCE, SCORES, gain=gain) == pytest.approx(np.dot(gains, DISCOUNTS), rel=1e-14)


def test_gains_that_cannot_be() -> None:
    assert math.isfinite(metrics.dcg([1000, 0], [1.0, 0.0]))
    with pytest.raises(CanonError, match=r"overflows at relevance 1001; use gain linear or a table"):
        metrics.dcg([1001, 0], [1.0, 0.0])
    with pytest.raises(CanonError, match=r"whole numbers below 3, the length of the gain table"):
        metrics.dcg(RELEVANCE, SCORES, gain=[0, 1, 2])
    with pytest.raises(CanonError, match=r"must not be negative, got -1 at position 2"):
        metrics.dcg([0, 1, -1], [3.0, 2.0, 1.0])


def test_ties_by_all_orders_of_equal_scores() -> None:
    relevance, scores = [0, 2, 1, 3, 0], [1.0, 1.0, 1.0, 0.5, 2.0]
    # In every order of the first three, the last comes first and the fourth last.
    orders = [
        metrics.dcg([relevance[i] for i in (4, *some, 3)], [5.0, 4.0, 3.0, 2.0, 1.0])
        for some in itertools.permutations(range(3))
    ]
    values = {ties: metrics.dcg(relevance, scores, ties=ties) for ties in ("average", "worst", "best", "order")}
    assert values["average"] == pytest.approx(np.mean(orders))
    assert values["worst"] == pytest.approx(min(orders)) and values["best"] == pytest.approx(max(orders))
    assert values["order"] == pytest.approx(orders[0])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (metrics.analogy_accuracy, KeyedVectors.evaluate_word_analogies),
        (metrics.similarity_correlation, KeyedVectors.evaluate_word_pairs),
    ],
)
def test_as_many_words_are_looked_at_as_gensim_does(ours, theirs) -> None:
    default = inspect.signature(theirs).parameters["restrict_vocab"].default
    assert inspect.signature(ours).parameters["restrict_vocab"].default == default
