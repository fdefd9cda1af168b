"""Matrix factorisation's steps against its equations and finite differences, of events and of ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.batching.sequences import Uneven
from canon.errors import CanonError
from canon.systems.recommendation.factors import kernels
from tests.systems.made_events import data_of, events, learner_of


def drawn(learner: Any, count: int, negatives: int) -> np.ndarray:
    """User, item and unseen items of the first draws."""
    none = np.zeros(0, np.uint32), np.zeros(0, np.int32)
    return kernels.draw_items(  # type: ignore[no-any-return]
        learner.key, 0, count, learner.users_N, learner.items_N, learner.seen.offsets, learner.marks, learner.width,
        learner.num_items, *none, learner.flat_users, learner.flat_items, learner.stride, negatives + 1,
    )  # fmt: skip


def rated(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    return 1.0 + (users * 7 + items * 3) % 5


@pytest.mark.parametrize("squared", [False, True])
def test_a_step_is_the_gradient_by_finite_differences(squared: bool) -> None:
    users, items = events()
    ratings = rated(users, items)
    settings = {"loss": "squared"} if squared else {"negatives": 1}
    data = data_of(users, items, ratings)
    learner = learner_of("mf", data, batch=1, steps=1000, dim=9, lr=0.05, falls=0.0, decay=0.03, spread=0.5, **settings)
    u, i, *others = drawn(learner, 1, 0 if squared else 1)[0]
    target = float(ratings[(users == u) & (items == i)][0]) if squared else 1.0

    def at(theta: np.ndarray, y: float) -> float:
        p, q, (b_u, b_i, b) = theta[:9], theta[9:18], theta[18:]
        x = p @ q + b_u + b_i + b
        cost = (y - x) ** 2 / 2 if squared else np.log1p(np.exp(x)) - y * x
        return float(cost + 0.03 / 2 * (p @ p + q @ q + b_u**2 + b_i**2))

    arrays = {name: array.astype(np.float64).copy() for name, array in learner.arrays.items()}
    for item, y in [(i, target), *((other, 0.0) for other in others)]:
        theta = np.concatenate([arrays["users"][u], arrays["items"][item]])
        theta = np.append(theta, [arrays["user_bias"][u], arrays["item_bias"][item], arrays["bias"][0]])
        slope = np.array([(at(theta + e, y) - at(theta - e, y)) / 2e-5 for e in 1e-5 * np.eye(len(theta))])
        moved = theta - 0.05 * slope
        arrays["users"][u], arrays["items"][item] = moved[:9], moved[9:18]
        arrays["user_bias"][u], arrays["item_bias"][item], arrays["bias"][0] = moved[18:]
    learner.step(1)
    for name in ("users", "items", "user_bias", "item_bias", "bias"):
        np.testing.assert_allclose(learner.arrays[name], arrays[name], atol=3e-6)


def test_the_logged_loss_is_that_of_the_items_before_they_moved() -> None:
    learner = learner_of("mf", data_of(*events()), batch=60, steps=1, dim=6, lr=1e-6, decay=0.0, negatives=3)
    rows = drawn(learner, 60, 3)
    x = np.einsum("nd,nkd->nk", learner.arrays["users"][rows[:, 0]], learner.arrays["items"][rows[:, 1:]])
    learner.step(1)
    wanted = np.concatenate([np.log1p(np.exp(-x[:, 0])), np.log1p(np.exp(x[:, 1:])).ravel()]).mean()
    assert learner.logs()["loss"] == pytest.approx(wanted, rel=1e-4)


def test_ratings_are_learned() -> None:
    users, items = events(40, each=10)
    ratings = 3.0 + np.where(items % 3 == users % 3, 1.5, -1.5)
    data = data_of(users, items, ratings)
    learner = learner_of("mf", data, steps=150, dim=6, loss="squared", lr=0.05, decay=0.01)
    for step in range(1, 151):
        learner.step(step)
    scores = learner.scores(users, Uneven(np.zeros(0, np.int32), np.zeros(len(users), np.int64)))
    assert np.sqrt(np.mean((scores[np.arange(len(users)), items] - ratings) ** 2)) < 0.3
    new = learner.fold_in(Uneven(np.array([0, 3, 6], np.int32), np.array([3])))[0]
    assert new[np.arange(24) % 3 == 0].mean() > new[np.arange(24) % 3 == 1].mean() + 0.5


def test_ratings_must_be_there() -> None:
    with pytest.raises(CanonError, match="learns from ratings, which made does not have"):
        learner_of("mf", data_of(*events()), dim=4, loss="squared")
