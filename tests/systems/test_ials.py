"""Implicit ALS against NumPy's `solve`, the sum over all pairs, and finite differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.batching.sequences import Uneven
from tests.systems.made_events import data_of, events, learner_of

SETTINGS: dict[str, Any] = {"unobserved": 0.2, "decay": 0.05, "exponent": 0.5, "spread": 0.5}


def solved(fixed: np.ndarray, items: np.ndarray, decay: float) -> np.ndarray:
    rows = fixed[items]
    curve = rows.T @ rows + SETTINGS["unobserved"] * fixed.T @ fixed + decay * np.eye(fixed.shape[1])
    return np.linalg.solve(curve, rows.sum(axis=0))


def whole_loss(learner: Any, users: np.ndarray, items: np.ndarray) -> float:
    """L written out over all pairs."""
    users_UD, items_ID = (learner.arrays[name].astype(np.float64) for name in ("users", "items"))
    x_UI = users_UD @ items_ID.T
    n_U, n_I = np.bincount(users), np.bincount(items, minlength=len(items_ID))
    share, power = SETTINGS["unobserved"], SETTINGS["exponent"]
    norms = ((n_U + share * len(n_I)) ** power) @ (users_UD**2).sum(1)
    norms += ((n_I + share * len(n_U)) ** power) @ (items_ID**2).sum(1)
    return float(((x_UI[users, items] - 1) ** 2).sum() + share * (x_UI**2).sum() + SETTINGS["decay"] * norms)


@pytest.mark.parametrize("dim", [5, 20])
def test_rows_fulfil_the_normal_equations(dim: int) -> None:
    users, items = events()
    learner = learner_of("ials", data_of(users, items), dim=dim, steps=3, **SETTINGS)
    learner.config = replace(learner.config, steps=2 * dim)
    items_ID = learner.arrays["items"].astype(np.float64).copy()
    rows = learner.num_users + learner.num_items
    learner.batch = -(-learner.num_users * len(users) // rows)  # the users alone
    learner.step(1)
    for user in range(learner.num_users):
        own = items[users == user]
        decay = SETTINGS["decay"] * (len(own) + SETTINGS["unobserved"] * 24) ** SETTINGS["exponent"]
        np.testing.assert_allclose(learner.arrays["users"][user], solved(items_ID, own, decay), atol=2e-4)


def test_the_logged_loss_is_the_sum_over_all_pairs_and_never_rises() -> None:
    users, items = events()
    learner = learner_of("ials", data_of(users, items), steps=8, dim=6, **SETTINGS)
    losses = []
    for step in range(1, 9):
        learner.step(step)
        losses.append(learner.logs()["loss"])
        assert losses[-1] == pytest.approx(whole_loss(learner, users, items) / len(users), rel=1e-5)
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(losses))


def test_the_loss_is_level_where_rows_are_solved() -> None:
    """By finite differences, of an item's row just solved for."""
    users, items = events()
    learner = learner_of("ials", data_of(users, items), steps=1, dim=4, **SETTINGS)
    learner.config = replace(learner.config, steps=12)
    learner.step(1)
    row = learner.arrays["items"][3]
    for d in range(4):
        at = row[d]
        sides = []
        for change in (0.01, -0.01):
            row[d] = at + np.float32(change)
            sides.append(whole_loss(learner, users, items))
        row[d] = at
        assert abs(sides[0] - sides[1]) / 0.02 < 0.01


def test_parts_of_an_epoch_are_the_epoch() -> None:
    whole, parts = (learner_of("ials", data_of(*events()), batch=b, steps=s, dim=6) for b, s in ((180, 2), (36, 10)))
    for learner, steps in ((whole, 2), (parts, 10)):
        for step in range(1, steps + 1):
            learner.step(step)
    for name in ("users", "items"):
        np.testing.assert_allclose(parts.arrays[name], whole.arrays[name], atol=1e-6)


def test_a_new_user_is_solved_for_as_a_user_of_training() -> None:
    users, items = events()
    learner = learner_of("ials", data_of(users, items), steps=4, dim=6, **SETTINGS)
    for step in range(1, 5):
        learner.step(step)
    own = items[users == 5]
    decay = SETTINGS["decay"] * (len(own) + SETTINGS["unobserved"] * 24) ** SETTINGS["exponent"]
    wanted = solved(learner.arrays["items"].astype(np.float64), own, decay) @ learner.arrays["items"].T
    np.testing.assert_allclose(learner.fold_in(Uneven(own, np.array([len(own)])))[0], wanted, atol=1e-4)
