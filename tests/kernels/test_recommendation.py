"""Kernels of recommendation, compiled and as plain Python with NumPy: equal but for rounding; and ranks by sorting."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.batching.sequences import Uneven
from canon.systems.recommendation import base, factors, ials, item_knn
from tests.kernels.plain import compiled, plain
from tests.systems.made_events import data_of, events, learner_of

Kernels = Callable[[str], ModuleType]
NEAR = 1e-5  # of the largest number
SYSTEMS: dict[str, dict[str, Any]] = {
    "bpr": {"dim": 20, "lr": 0.1, "falls": 0.5},
    "bpr, popular": {"dim": 8, "negatives": "popular"},
    "mf": {"dim": 12, "negatives": 2},
    "mf, ratings": {"dim": 5, "loss": "squared"},
    "ials": {"dim": 9},
    "item-knn": {"neighbours": 4},
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_learning_and_ranking(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users, items = events(12, 18, 4)
    data = data_of(users, items, 1.0 + items % 5)

    def learned(kernels: Kernels) -> list[Any]:
        monkeypatch.setattr(base, "top_items", kernels("top_items"))
        monkeypatch.setattr(factors, "kernels", kernels("factors"))
        for host in ("bpr", "mf"):
            monkeypatch.setattr(f"canon.systems.recommendation.{host}.kernels", kernels("factors"))
        monkeypatch.setattr(ials, "solver", kernels("least_squares"))
        monkeypatch.setattr(item_knn, "kernels", kernels("neighbours"))
        learner = learner_of(name.partition(",")[0], data, batch=24, steps=4, **SYSTEMS[name])
        for step in range(1, 5):
            learner.step(step)
        asked = {
            "input": np.array([0, 3, -1], np.int32),
            "history": Uneven(np.array([*items[users == 0], *items[users == 3], 1, 2], np.int32), np.array([4, 4, 2])),
            "target": Uneven(np.array([3, 5, 7, 9], np.int32), np.array([2, 1, 1])),
        }
        outputs = learner.outputs(asked)
        tensors = [array for array in learner.tensors()["model"].values() if array.dtype == np.float32]
        return [*tensors, *learner.logs().values(), outputs["scores"], outputs["loss"], learner.outputs(asked)["above"]]

    for one, other in zip(learned(compiled), learned(plain), strict=True):
        one, other = (np.nan_to_num(np.asarray(each, np.float64), neginf=-9) for each in (one, other))
        np.testing.assert_allclose(other, one, rtol=0, atol=NEAR * max(np.abs(one).max(), 1e-3))


def ranked(scores_BI: np.ndarray, seen: Uneven, targets: Uneven, candidates: Uneven, most: int) -> list[np.ndarray]:
    size, num_targets = len(scores_BI), len(targets.tokens)
    top, best = np.zeros((size, most), np.int32), np.zeros((size, most), np.float32)
    above, among, count = np.zeros(num_targets, np.int64), np.zeros(num_targets, np.int64), np.zeros(size, np.int64)
    compiled("top_items").rank_block(
        scores_BI.copy(), np.arange(size), seen.tokens, seen.offsets, targets.tokens, targets.offsets,
        candidates.tokens, candidates.offsets, top, best, above, among, count,
    )  # fmt: skip
    return [top, best, above, among, count]


def lists(random: np.random.Generator, size: int, num_items: int, most: int) -> Uneven:
    rows = [np.sort(random.choice(num_items, random.integers(0, most), replace=False)) for _ in range(size)]
    return Uneven(np.concatenate(rows).astype(np.int32), np.array(list(map(len, rows)), np.int64))


def test_ranks_are_those_of_sorting() -> None:
    random = np.random.default_rng(0)
    scores = random.permuted(np.arange(40 * 60, dtype=np.float32).reshape(40, 60), axis=1)
    seen, targets, candidates = lists(random, 40, 60, 20), lists(random, 40, 60, 9), lists(random, 40, 60, 30)
    top, best, above, among, count = ranked(scores, seen, targets, candidates, 10)
    for user in range(40):
        left = np.setdiff1d(np.arange(60), seen[user])
        order = left[np.argsort(-scores[user][left])]
        np.testing.assert_array_equal(top[user], order[:10])
        np.testing.assert_array_equal(best[user], scores[user][order[:10]])
        assert count[user] == len(left)
        for place in range(*targets.offsets[user : user + 2]):
            item = targets.tokens[place]
            if item in seen[user]:
                assert above[place] == among[place] == -1
                continue
            assert above[place] == order.tolist().index(item)
            others = np.setdiff1d(np.intersect1d(candidates[user], left), [item])
            assert among[place] == np.count_nonzero(scores[user][others] > scores[user][item])


def test_equal_scores_come_in_an_order_that_items_do_not_decide() -> None:
    """All scores are equal: each item is as often first as others, and ranks follow the same order as lists."""
    size, num_items = 3000, 20
    nothing = Uneven(np.zeros(0, np.int32), np.zeros(size, np.int64))
    targets = Uneven(np.tile(np.arange(num_items, dtype=np.int32), size), np.full(size, num_items, np.int64))
    top, _, above, _, _ = ranked(np.zeros((size, num_items), np.float32), nothing, targets, nothing, num_items)
    np.testing.assert_array_equal(np.argsort(above.reshape(size, num_items), axis=1), top)
    first = np.bincount(top[:, 0], minlength=num_items)
    assert np.abs(first - size / num_items).max() < 6 * np.sqrt(size / num_items)


def test_a_short_list_ends_in_nothing() -> None:
    seen = Uneven(np.array([0, 1, 3], np.int32), np.array([3]))
    nothing = Uneven(np.zeros(0, np.int32), np.zeros(1, np.int64))
    top, best, *_ = ranked(np.ones((1, 5), np.float32), seen, nothing, nothing, 4)
    assert set(top[0, :2]) == {2, 4} and top[0, 2:].tolist() == [-1, -1] and np.isneginf(best[0, 2:]).all()
