"""Measures of recommended lists against scikit-learn, sets and the formulas written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from canon import metrics
from canon.errors import CanonError


def test_auc_by_user_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    above, lengths, ranked, wanted = [], [], [], []
    for _ in range(30):
        size, held = int(random.integers(5, 40)), int(random.integers(1, 4))
        scores = random.permutation(size).astype(float)
        targets = random.choice(size, held, replace=False)
        above += [int((scores > scores[t]).sum()) for t in targets]
        lengths.append(held)
        ranked.append(size)
        wanted.append(roc_auc_score(np.isin(np.arange(size), targets), scores))
    assert metrics.user_auc(above, lengths, ranked) == pytest.approx(np.mean(wanted), abs=1e-12)
    with pytest.raises(CanonError, match="lengths_U must sum to"):
        metrics.user_auc(above, lengths[:-1], ranked)


def test_auc_without_other_items_is_undefined() -> None:
    assert math.isnan(metrics.user_auc([0], [1], [1]))


def test_coverage_and_novelty() -> None:
    top = np.array([[3, 1, -1], [1, 0, 2]])
    assert metrics.coverage(top, 8) == 4 / 8
    counts = np.array([2, 8, 1, 4, 0])
    wanted = -np.mean([math.log2(counts[item] / 10) for item in (3, 1, 1, 0, 2)])
    assert metrics.novelty(top, counts, 10) == pytest.approx(wanted)
    assert metrics.novelty([[4]], counts, 16) == 4  # nobody has it: as if one had
