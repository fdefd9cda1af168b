"""Environments: gymnasium's facts that break others' code, exact snapshots, names, and what is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import arrows_of, grid_of
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.training.environment import Copies

FILE = Path(__file__).parent / "environments.py"
SIX = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1", "Taxi-v4", "CliffWalkingSlippery-v1"]
OWN = ["five-state-walk", "short-corridor", f"{FILE}:Drift", f"{FILE}:Snapshots"]


def moves(env: EnvironmentCopy, count: int, seed: int) -> list[Any]:
    random, seen = np.random.default_rng(seed), []
    for _ in range(count):
        move = env.step(int(random.integers(env.num_actions)))
        seen.append((np.asarray(move.observation).tobytes(), *move[1:]))
        if move.terminated or move.truncated:
            seen.append(np.asarray(env.reset()).tobytes())
    return seen


@pytest.mark.parametrize("name", [*SIX, *OWN])
def test_a_restored_copy_goes_on_bit_for_bit(name: str) -> None:
    """In the first episode and in later ones, through JSON; a limit of 30 steps cuts some off."""
    opener = Opener(name, max_steps=30)
    first = EnvironmentCopy(opener)
    first.reset(7)
    for step in (1, 13, 40, 5):
        moves(first, step, step)
        second = EnvironmentCopy(opener)
        seen = second.restore(json.loads(json.dumps(first.state())))
        np.testing.assert_array_equal(seen, first._observation)
        assert json.dumps(second.state()) == json.dumps(first.state())
        assert moves(second, 60, 3) == moves(first, 60, 3)


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("count", [1, 8])
def test_copies_are_restored(name: str, count: int) -> None:
    opener, random = Opener(name), np.random.default_rng(0)
    first = Copies(lambda: EnvironmentCopy(opener), count, 0)
    actions = random.integers(2, size=(120, count))
    for row in actions[:50]:
        first.step(row)
    second = Copies(lambda: EnvironmentCopy(opener), count, 99)
    second.restore(first.tensors(), json.loads(json.dumps(first.state())))
    for row in actions[50:]:
        for one, other in zip(first.step(row), second.step(row), strict=True):
            np.testing.assert_array_equal(one, other)
    assert first.logs() == second.logs()


def test_what_cannot_be_replayed_is_refused() -> None:
    env = EnvironmentCopy(Opener(f"{FILE}:Secret"))
    env.reset(0)
    moves(env, 5, 0)
    with pytest.raises(CanonError, match="cannot be resumed exactly"):
        EnvironmentCopy(Opener(f"{FILE}:Secret")).restore(env.state())


def test_it_steps_as_gymnasium_does() -> None:
    """The same observations, rewards and ends as gymnasium's own copy with its limit of steps."""
    for name in ("CartPole-v1", "FrozenLake-v1"):
        ours, theirs = EnvironmentCopy(Opener(name)), gymnasium.make(name)
        random = np.random.default_rng(0)
        assert np.array_equal(ours.reset(3), theirs.reset(seed=3)[0])
        for _ in range(300):
            action = int(random.integers(ours.num_actions))
            move = ours.step(action)
            seen, reward, terminated, truncated, _ = theirs.step(action)
            assert np.array_equal(move.observation, seen)
            assert move[1:] == (reward, terminated, truncated and not terminated)
            if terminated or truncated:
                assert np.array_equal(ours.reset(), theirs.reset()[0])


def test_terminated_wins_and_the_limit_truncates() -> None:
    env = EnvironmentCopy(Opener(f"{FILE}:Drift", {"both": True}))
    for seed in range(20):
        env.reset(seed)
        move = env.step(0)
        while not (move.terminated or move.truncated):
            move = env.step(0)
        assert move.terminated and not move.truncated
    assert EnvironmentCopy(Opener("CartPole-v1")).limit == 500
    env = EnvironmentCopy(Opener("CliffWalking-v1"))
    assert env.limit == 1000, "where the environment has no limit of its own"
    env = EnvironmentCopy(Opener("CliffWalking-v1", max_steps=2))
    env.reset(0)
    assert not env.step(0).truncated and env.step(0).truncated


def test_an_end_on_the_last_step_is_no_truncation() -> None:
    env = EnvironmentCopy(Opener("FrozenLake-v1", {"is_slippery": False}, max_steps=6))
    env.reset(0)
    *_, last = [env.step(action) for action in (1, 1, 2, 1, 2, 2)]
    assert last.terminated and not last.truncated and last.reward == 1


def test_a_copy_that_ends_shows_its_last_observation_and_begins_again_in_the_same_step() -> None:
    """gymnasium's vectors would by default take a step more, whose action is ignored."""
    copies = Copies(lambda: EnvironmentCopy(Opener("FrozenLake-v1", {"is_slippery": False})), 2, 0)
    for actions in ((2, 1), (1, 1)):  # into a hole, and beside it
        moved = copies.step(np.array(actions))
    assert moved.after.tolist() == [5, 8] and moved.terminated.tolist() == [True, False]
    assert copies.observations.tolist() == [0, 8]
    assert copies.step(np.array([1, 2])).before.tolist() == [0, 8]
    assert copies.logs() == {"episodes": 1.0, "return": 0.0, "length": 2.0}


def test_each_copy_has_its_own_generator() -> None:
    copies = Copies(lambda: EnvironmentCopy(Opener("CartPole-v1")), 3, 5)
    for i in range(3):
        assert np.array_equal(copies.observations[i], gymnasium.make("CartPole-v1").reset(seed=5 + i)[0])


def test_spaces_are_flat_and_begin_at_zero() -> None:
    env = EnvironmentCopy(Opener(f"{FILE}:Drift"))
    assert env.observation.shape == (2,) and env.num_actions == 2
    assert env.reset(0).shape == (2,) and env.step(1).observation.dtype == np.float32


def test_several_numbers_that_can_be_listed_are_one_state() -> None:
    """Blackjack's (sum, dealer's card, ace), against numpy's numbering."""
    ours, theirs = EnvironmentCopy(Opener("Blackjack-v1")), gymnasium.make("Blackjack-v1")
    assert ours.observation.size == 32 * 11 * 2 and ours.observation.shape == ()
    for seed in range(20):
        state, (parts, _) = ours.reset(seed), theirs.reset(seed=seed)
        assert state == np.ravel_multi_index(parts, (32, 11, 2))
        parts, *_ = theirs.step(1)
        assert ours.step(1).observation == np.ravel_multi_index(parts, (32, 11, 2))
    with pytest.raises(CanonError, match=r"observation \(4, 11, 0\) is not one of its 704 states"):
        ours._checked((4, 11, 0))


def test_grids() -> None:
    lake = EnvironmentCopy(Opener("FrozenLake-v1"))
    grid = grid_of(lake)
    assert grid is not None and lake.model is not None
    assert grid.letters == "S    H H   HH  G" and arrows_of(lake.model, grid) == ["←", "↓", "→", "↑"]
    cliff = EnvironmentCopy(Opener("CliffWalking-v1"))
    grid = grid_of(cliff)
    assert grid is not None and cliff.model is not None
    assert grid.letters[36:] == "SCCCCCCCCCCG" and arrows_of(cliff.model, grid) == ["↑", "→", "↓", "←"]
    assert grid_of(EnvironmentCopy(Opener("CartPole-v1"))) is None


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no version": ("frozenlake", {}, r"frozenlake has no version; gymnasium's ids do: .*FrozenLake-v1"),
    "unknown": ("CartPol-v1", {}, "did you mean CartPole-v1"),
    "retired": ("Taxi-v3", {}, "Taxi-v3 is retired: .*Taxi-v4"),
    "argument": ("FrozenLake-v1", {"slippery": False}, r"cannot be made: .*slippery.* \(data.arguments: slippery\)"),
    "no file": ("nowhere/env.py:Env", {}, "There is no file"),
    "no class": (f"{FILE}:Drif", {}, "did you mean Drift"),
    "no environment": (f"{FILE}:NOT_ONE", {}, "makes an object of type dict, which is not a gymnasium.Env"),
    "continuous": (f"{FILE}:Broken", {"how": "continuous"}, "one of finitely many .*TransformAction"),
    "imports": (f"{FILE}:Broken", {"how": "imports"}, "needs a module that is not installed: no_such_simulator"),
    "dict": (f"{FILE}:Broken", {"how": "dict"}, "canon reads Box, Discrete and up to 100,000 combinations"),
    "nan": (f"{FILE}:Broken", {"how": "nan"}, "after 3 steps of an episode nan is not finite"),
    "infinite": (f"{FILE}:Broken", {"how": "infinite"}, "inf is not finite"),
    "outside": (f"{FILE}:Broken", {"how": "outside"}, "11.0 is outside of its observation space"),
    "shape": (f"{FILE}:Broken", {"how": "shape"}, r"has shape \(2,\) where its space has shape \(1, 2\)"),
    "text": (f"{FILE}:Broken", {"how": "text"}, "an observation has 'here', which is not an array of numbers"),
    "ragged": (f"{FILE}:Broken", {"how": "ragged"}, r"has \[\[0\], \[0, 0\]\], which is not an array of numbers"),
    "reward": (f"{FILE}:Broken", {"how": "reward"}, "gave the reward nan; a reward is one finite number"),
    "many rewards": (f"{FILE}:Broken", {"how": "many rewards"}, r"gave the reward array\(\[0\., 0\., .*; a reward"),
    "no reward": (f"{FILE}:Broken", {"how": "no reward"}, "gave the reward None"),
    "old step": (f"{FILE}:Broken", {"how": "old step"}, "step must return"),
    "old reset": (f"{FILE}:Broken", {"how": "old reset"}, "reset must return"),
    "none over": (f"{FILE}:Broken", {"how": "none over"}, "gave terminated = None, which is not True or False"),
    "many cut": (
        f"{FILE}:Broken",
        {"how": "many cut"},
        r"gave truncated = array\(\[ ?True, False\]\), which is not True",
    ),
    "no spaces": (f"{FILE}:Broken", {"how": "no spaces"}, "has no action_space: __init__ must set"),
    "leaves": (f"{FILE}:Broken", {"how": "leaves"}, r"cannot be made: it called sys\.exit\(4\)"),
    "exits": (f"{FILE}:Broken", {"how": "exits"}, r"SystemExit: it called sys\.exit\(3\)"),
    "float state": (f"{FILE}:Line", {"seen": "float"}, r"observation 0\.0 is not one of its 4 states"),
    "module": ("no_such_module:Line-v0", {}, "module no_such_module of .* cannot be imported: No module named"),
    "raises": (f"{FILE}:Broken", {"how": "raises"}, "failed after 2 steps .* ZeroDivisionError: division by zero"),
    "reset raises": (f"{FILE}:Broken", {"how": "reset raises"}, "reset failed by RuntimeError: no road"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_broken_is_a_sentence(what: str) -> None:
    name, arguments, sentence = BAD[what]
    with pytest.raises(CanonError, match=sentence):
        env = EnvironmentCopy(Opener(name, arguments))
        env.reset(0)
        for _ in range(5):
            env.step(0)


@pytest.mark.parametrize("table", ["text", "nowhere"])
def test_a_broken_table_is_a_sentence(table: str) -> None:
    env = EnvironmentCopy(Opener(f"{FILE}:Line", {"table": table}))
    with pytest.raises(CanonError, match=r"P\[0\]\[0\] is not a list of \(probability, state, reward, terminated\)"):
        env.model  # noqa: B018


def test_wrappers_are_seen() -> None:
    """One that changes rewards hides the table P, one that limits steps is counted by canon."""
    scaled = EnvironmentCopy(Opener(f"{FILE}:tenfold"))
    assert scaled.model is None and grid_of(scaled) is None and scaled.limit == 100
    cut = EnvironmentCopy(Opener(f"{FILE}:cut_off"))
    assert cut.model is not None and cut.limit == 20 and not cut.wrapped
    assert EnvironmentCopy(Opener(f"{FILE}:cut_off", max_steps=30)).limit == 30


def test_a_module_is_imported_for_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import gymnasium\ngymnasium.register('Mine-v3', entry_point='gymnasium.envs.toy_text:CliffWalkingEnv')\n"
    (tmp_path / "registers_mine.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert EnvironmentCopy(Opener("registers_mine:Mine-v3")).observation.size == 48
    finally:
        gymnasium.registry.pop("Mine-v3", None)


def test_what_cannot_be_saved_is_a_sentence() -> None:
    env = EnvironmentCopy(Opener(f"{FILE}:Unsaved"))
    env.reset(0)
    with pytest.raises(CanonError, match=r"snapshot\(\) cannot be saved as JSON: Object of type set"):
        env.state()
    fails = EnvironmentCopy(Opener(f"{FILE}:Broken", {"how": "raises"}))
    fails.reset(0)
    fails.step(0)
    state = fails.state()
    state["environment"]["actions"] *= 3
    with pytest.raises(CanonError, match="cannot be resumed: division by zero"):
        EnvironmentCopy(Opener(f"{FILE}:Broken", {"how": "raises"})).restore(state)


def test_check_says_what_it_is(canon: Callable[..., Any]) -> None:
    report = json.loads(canon("check", "FrozenLake-v1", "--json").out)
    assert report["kind"] == "environments" and {"policy-iteration", "q-learning", "dqn"} <= set(report["suits"])
    assert any("16 states, takes 4 actions" in note for note in report["notes"]) and not report["warnings"]
    report = json.loads(canon("check", "CartPole-v1", "--json").out)
    assert "dqn" in report["suits"] and "q-learning" not in report["suits"]
    report = json.loads(canon("check", f"{FILE}:Secret", "--json").out)
    assert any("cannot be resumed exactly" in warning for warning in report["warnings"])
    report = json.loads(canon("check", f"{FILE}:Broken", "--set", "data.arguments.how=outside", "--json").out)
    assert any("is outside of its observation space" in warning for warning in report["warnings"])
    report = json.loads(canon("check", f"{FILE}:Line", "--set", "data.arguments.table=loop", "--json").out)
    assert any("P[0][1] has no outcome (1, 0, False)" in warning for warning in report["warnings"])
    assert "taxi has no version" in canon("check", "taxi").err
    for source, system in (("MountainCar-v0", "policy-iteration"), ("CartPole-v1", "q-learning"), ("iris", "dqn")):
        answer = canon("train", system, "--data", source, "--out", "nowhere")
        assert answer.code == 2 and answer.err.count("\n") == 1, answer.err
