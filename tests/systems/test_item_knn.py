"""Neighbours and scores of item-knn and counts of popular against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.batching.sequences import Uneven
from tests.systems.made_events import data_of, events, learner_of


def dense(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    table = np.zeros((int(users.max()) + 1, int(items.max()) + 1))
    table[users, items] = 1
    return table


@pytest.mark.parametrize("neighbours", [3, 50])
@pytest.mark.parametrize("batch", [0, 20])
def test_neighbours_and_scores_are_those_of_dense_matrices(neighbours: int, batch: int) -> None:
    users, items = events(50, each=7)
    learner = learner_of("item-knn", data_of(users, items), batch=batch, neighbours=neighbours, shrink=2.0)
    step = 1
    while learner.step(step):
        step += 1
    table = dense(users, items)
    both, count = table.T @ table, table.sum(0)
    alike = both / (np.sqrt(np.outer(count, count)) + 2.0)
    np.fill_diagonal(alike, 0)
    kept = np.zeros_like(alike)
    for item in range(24):
        order = np.lexsort((np.arange(24), -count, -alike[item].astype(np.float32)))
        order = order[alike[item][order] > 0][:neighbours]
        kept[item, order] = alike[item, order]
        near = learner.arrays["near"][item]
        np.testing.assert_array_equal(near[near >= 0], order)
    everyone = Uneven(items, np.bincount(users))
    np.testing.assert_allclose(learner.scores(np.arange(50), everyone), table @ kept.T, atol=1e-5)
    np.testing.assert_allclose(learner.fold_in(everyone), table @ kept.T, atol=1e-5)
    np.testing.assert_allclose(learner.alike(np.arange(24)), kept, atol=1e-6)


def test_popular_counts() -> None:
    users, items = events()
    learner = learner_of("popular", data_of(users, items), batch=50)
    step = 1
    while learner.step(step):
        step += 1
    assert step == 4
    np.testing.assert_array_equal(learner.arrays["count"], np.bincount(items))
    scores = learner.scores(np.array([3, 4]), Uneven(items[:0], np.zeros(2, np.int64)))
    np.testing.assert_allclose(scores, np.log1p(np.bincount(items))[None].repeat(2, 0), rtol=1e-6)
