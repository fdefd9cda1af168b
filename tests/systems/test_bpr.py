"""BPR's steps against its equations, finite differences, and implicit's on data that leaves no choice of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.batching.sequences import Uneven
from canon.systems.recommendation.factors import kernels, newton
from tests.systems.made_events import data_of, events, learner_of


def drawn(learner: Any, count: int) -> np.ndarray:
    """User, item and unseen item of the first draws."""
    return kernels.draw_items(  # type: ignore[no-any-return]
        learner.key, 0, count, learner.users_N, learner.items_N, learner.seen.offsets, learner.marks, learner.width,
        learner.num_items, learner.threshold_I, learner.other_I, learner.flat_users, learner.flat_items,
        learner.stride, 2,
    )  # fmt: skip


def loss(p: np.ndarray, q: np.ndarray, r: np.ndarray, b: float, c: float, decay: float) -> float:
    """−ln σ(x) + λ/2 ‖Θ‖², float64."""
    x = p @ (q - r) + b - c
    return float(np.log1p(np.exp(-x)) + decay / 2 * (p @ p + q @ q + r @ r + b * b + c * c))


@pytest.mark.parametrize("dim", [5, 16, 40])
def test_a_step_is_the_gradient_by_finite_differences(dim: int) -> None:
    settings = {"dim": dim, "lr": 0.1, "falls": 0.0, "decay": 0.03, "spread": 0.5}
    learner = learner_of("bpr", data_of(*events()), batch=1, steps=100, **settings)
    learner.arrays["bias"][:] = np.random.default_rng(2).normal(0, 0.3, learner.num_items)
    (u, i, j) = drawn(learner, 1)[0]
    before = {name: array.astype(np.float64).copy() for name, array in learner.arrays.items()}
    theta = np.concatenate(
        [before["users"][u], before["items"][i], before["items"][j], before["bias"][[i]], before["bias"][[j]]]
    )

    def at(values: np.ndarray) -> float:
        p, q, r = values[:-2].reshape(3, dim)
        return loss(p, q, r, values[-2], values[-1], 0.03)

    slope = np.array([(at(theta + e) - at(theta - e)) / 2e-5 for e in 1e-5 * np.eye(len(theta))])
    learner.step(1)
    after = learner.arrays
    moved = np.concatenate(
        [after["users"][u], after["items"][i], after["items"][j], after["bias"][[i]], after["bias"][[j]]]
    )
    np.testing.assert_allclose(moved, theta - 0.1 * slope, atol=2e-6)
    assert learner.logs()["loss"] == pytest.approx(loss(*theta[:-2].reshape(3, dim), theta[-2], theta[-1], 0), rel=1e-5)


@pytest.mark.parametrize("falls", [0.0, 0.8])
def test_many_steps_are_the_equations_one_after_the_other(falls: float) -> None:
    learner = learner_of("bpr", data_of(*events()), batch=50, steps=4, dim=7, lr=0.2, decay=0.02, falls=falls)
    triples, (p, q, b) = (
        drawn(learner, 200),
        (learner.arrays[name].astype(np.float64) for name in ("users", "items", "bias")),
    )
    p, q, b = p.copy(), q.copy(), b.copy()
    losses = []
    for n, (u, i, j) in enumerate(triples):
        rate = 0.2 * (1 - falls * n / 200)
        x = p[u] @ (q[i] - q[j]) + b[i] - b[j]
        g = 1 / (1 + np.exp(x))
        losses.append(np.log1p(np.exp(-x)))
        p[u], q[i], q[j] = (
            p[u] + rate * (g * (q[i] - q[j]) - 0.02 * p[u]),
            q[i] + rate * (g * p[u] - 0.02 * q[i]),
            q[j] + rate * (-g * p[u] - 0.02 * q[j]),
        )
        b[i], b[j] = b[i] + rate * (g - 0.02 * b[i]), b[j] + rate * (-g - 0.02 * b[j])
    for step in range(1, 5):
        learner.step(step)
    for name, wanted in (("users", p), ("items", q), ("bias", b)):
        np.testing.assert_allclose(learner.arrays[name], wanted, atol=2e-5)
    assert learner.logs()["loss"] == pytest.approx(np.mean(losses), rel=1e-4)


def test_events_are_drawn_evenly_and_others_until_unseen() -> None:
    data = data_of(*events())
    learner = learner_of("bpr", data, dim=4)
    u, i, j = drawn(learner, 60_000).T
    have = set(zip(learner.users_N.tolist(), learner.items_N.tolist(), strict=True))
    assert not have & set(zip(u.tolist(), j.tolist(), strict=True))
    assert have == set(zip(u.tolist(), i.tolist(), strict=True))
    # An event comes 60,000/180 ± 18 times; an unseen item of a user with 6 of 24 in 1/18 of the user's draws.
    times = np.bincount(u * 24 + i)[np.array([user * 24 + item for user, item in sorted(have)])]
    assert np.abs(times - 60_000 / 180).max() < 6 * np.sqrt(60_000 / 180)
    for user in range(3):
        others = np.bincount(j[u == user], minlength=24)
        count = int((u == user).sum())
        unseen = [item for item in range(24) if (user, item) not in have]
        assert np.abs(others[unseen] - count / 18).max() < 6 * np.sqrt(count / 18)


def test_popular_negatives_follow_the_counts() -> None:
    data = data_of(*events())
    learner = learner_of("bpr", data, dim=4, negatives="popular", beta=0.5)
    u, _, j = drawn(learner, 60_000).T
    weight = np.bincount(learner.items_N, minlength=24) ** 0.5
    own = np.array([item not in learner.seen[0] for item in range(24)])
    wanted = np.where(own, weight, 0) / weight[own].sum() * (u == 0).sum()
    counts = np.bincount(j[u == 0], minlength=24)
    assert np.abs(counts - wanted).max() < 6 * np.sqrt(wanted.max())


def test_lists_and_bits_say_the_same_of_what_is_seen() -> None:
    learner = learner_of("bpr", data_of(*events()), dim=4)
    by_bits = drawn(learner, 500)
    learner.marks = np.zeros(0, np.uint64)
    np.testing.assert_array_equal(drawn(learner, 500), by_bits)


def test_every_seed_gives_a_key() -> None:
    """Half of the keys are above what a signed number holds."""
    data = data_of(*events())
    first = []
    for seed in range(6):
        learner = learner_of("bpr", data, batch=4, dim=4, seed=seed)
        learner.step(1)
        first.append(tuple(drawn(learner, 3).ravel()))
    assert len(set(first)) == 6


def test_a_user_who_has_everything_is_passed_over() -> None:
    users, items = np.array([0, 1, 1], np.int32), np.array([0, 0, 1], np.int32)
    learner = learner_of("bpr", data_of(users, items), batch=64, steps=1, dim=4)
    before = learner.arrays["users"][1].copy()
    learner.step(1)
    np.testing.assert_array_equal(learner.arrays["users"][1], before)
    assert 0 < learner._count < 64


def test_the_update_is_that_of_implicit() -> None:
    """One user who can be learned from, with one item and one that is not: each draw that counts is the same."""
    pytest.importorskip("implicit")
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    random = np.random.default_rng(3)
    first_users, first_items = (random.normal(0, 0.5, (2, 6)).astype(np.float32) for _ in range(2))
    first_users[:, -1] = 1  # the item's bias is the last factor there
    users, items = np.array([0, 1, 1], np.int32), np.array([0, 0, 1], np.int32)
    theirs = BayesianPersonalizedRanking(
        factors=5, learning_rate=0.1, regularization=0.05, iterations=20, num_threads=1, random_state=1
    )
    theirs.user_factors, theirs.item_factors = first_users.copy(), first_items.copy()
    theirs.fit(csr_matrix((np.ones(3, np.float32), (users, items))), show_progress=False)
    assert np.abs(theirs.user_factors[0] - first_users[0]).max() > 0.05
    ours = learner_of("bpr", data_of(users, items), batch=1, steps=1000, dim=5, lr=0.1, falls=0.0, decay=0.05)
    ours.take_arrays(
        {"users": first_users[:, :5], "items": first_items[:, :5], "bias": np.ascontiguousarray(first_items[:, 5])}
    )
    off = []
    for step in range(1, 200):
        ours.step(step)
        off.append(
            max(
                np.abs(ours.arrays["users"][0] - theirs.user_factors[0, :5]).max(),
                np.abs(ours.arrays["items"] - theirs.item_factors[:, :5]).max(),
                np.abs(ours.arrays["bias"] - theirs.item_factors[:, 5]).max(),
            )
        )
    assert min(off) < 2e-6  # after as many draws as counted there


def test_a_new_user_minimises_the_loss() -> None:
    random = np.random.default_rng(0)
    rows, offset = random.normal(size=(40, 6)), random.normal(size=40)
    target, weight = (random.random(40) < 0.5).astype(float), random.random(40)
    p = newton(rows.astype(np.float32), offset, target, weight, 0.7).astype(np.float64)

    def at(values: np.ndarray) -> float:
        x = rows.astype(np.float32).astype(np.float64) @ values + offset
        return float(weight @ (np.log1p(np.exp(x)) - target * x) + 0.35 * values @ values)

    slope = [(at(p + e) - at(p - e)) / 2e-4 for e in 1e-4 * np.eye(6)]
    assert np.abs(slope).max() < 1e-5


def test_a_new_user_with_items_of_a_group_gets_more_of_it() -> None:
    learner = learner_of("bpr", data_of(*events(60, each=7)), batch=420, steps=40, dim=8, lr=0.1, decay=0.002)
    for step in range(1, 41):
        learner.step(step)
    scores = learner.fold_in(Uneven(np.array([0, 3, 6, 1, 4, 7], np.int32), np.array([3, 3])))
    group = np.arange(24) % 3
    assert scores[0][group == 0].mean() > scores[0][group == 1].mean() + 0.3
    assert scores[1][group == 1].mean() > scores[1][group == 0].mean() + 0.3
