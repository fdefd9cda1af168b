"""Deep Q-networks: against Q-learning with a table, stable-baselines3's gradients, and torch's backward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from canon.contracts import Context, Transitions
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.errors import CanonError
from canon.optim.schedules import Schedule
from canon.optim.settings import SGD, Adam
from canon.recipe import OptimizerChoice
from canon.runs import checkpoint
from canon.systems.control import tabular
from canon.systems.control.dqn import DQN, Config
from canon.systems.control.replay import Experience, Ring
from canon.training.environment import Copies
from canon.training.phases import Phase
from tests.data.test_environments import FILE


def context(settings: Any = None, seed: int = 0) -> Context:
    choice = OptimizerChoice("x", settings or Adam(lr=1e-3), Schedule(), ())
    return Context(seed=seed, optimizer=lambda named, phase, paces=None: Phase(phase, choice, named, paces))


def begun(name: str, settings: Any = None, steps: int = 100, batch: int = 1, **config: Any) -> DQN:
    opener = Opener(name)
    env = EnvironmentCopy(opener)
    torch.manual_seed(0)
    sizes = {"shape": env.observation.shape, "states": env.observation.size, "actions": env.num_actions}
    agent = DQN(Config(**sizes, **config), context(settings))
    agent.begin(Copies(lambda: EnvironmentCopy(opener), agent.copies, 0), batch, steps)
    return agent


def some(count: int, seed: int = 0) -> Experience:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(2, count, 4)).astype(np.float32)
    actions, rewards = random.integers(2, size=count), random.normal(size=count).astype(np.float32)
    return Experience(rows[0], actions, rewards, rows[1], random.random(count) < 0.3)


def gradients(agent: DQN) -> list[np.ndarray]:
    return [parameter.grad.clone().numpy() for parameter in agent.online.network.parameters()]  # type: ignore[union-attr]


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("double", [False, True])
def test_numpy_and_torch_agree(loss: str, double: bool) -> None:
    drawn = some(64)
    norms = []
    for by_torch in (False, True):
        agent = begun("CartPole-v1", SGD(lr=1e-9), learn_from=1, loss=loss, double=double)
        if by_torch:
            agent.online.small = agent.older.small = None
        agent.update(drawn)
        norms.append((gradients(agent), agent._sums))
    for one, other in zip(norms[0][0], norms[1][0], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(norms[0][1], norms[1][1], rtol=1e-4)


def test_loss_and_gradients_are_those_of_stable_baselines3() -> None:
    import stable_baselines3
    from stable_baselines3.common.logger import configure

    env = gymnasium.make("CartPole-v1")
    theirs = stable_baselines3.DQN(
        "MlpPolicy", env, learning_rate=0.0, batch_size=32, max_grad_norm=1e9, buffer_size=32, device="cpu"
    )
    theirs.set_logger(configure(None, []))
    drawn = some(32)
    for row in range(32):
        theirs.replay_buffer.add(  # type: ignore[union-attr]
            drawn.before[row], drawn.after[row], drawn.actions[row : row + 1], drawn.rewards[row : row + 1],
            drawn.terminated[row : row + 1], [{}],
        )  # fmt: skip
    whole = theirs.replay_buffer._get_samples(np.arange(32))  # type: ignore[union-attr]
    theirs.replay_buffer.sample = lambda *_, **__: whole  # type: ignore[union-attr, method-assign]
    ours = begun("CartPole-v1", SGD(lr=1e-9), learn_from=1, loss="huber", hidden=(64, 64))
    for net, other in ((ours.online, theirs.q_net), (ours.older, theirs.q_net_target)):
        names = zip(net.network.state_dict(), other.q_net.state_dict().values(), strict=True)
        net.take({name: value + 0.05 * (net is ours.older) for name, value in names})
    for parameter in theirs.q_net_target.parameters():
        parameter.data += 0.05
    theirs.train(gradient_steps=1, batch_size=32)
    ours.update(drawn)
    for one, other in zip(gradients(ours), theirs.q_net.parameters(), strict=True):
        np.testing.assert_allclose(one, other.grad.numpy(), rtol=1e-3, atol=1e-6)  # type: ignore[union-attr]
    assert ours._sums[1] == pytest.approx(theirs.logger.name_to_value["train/loss"], rel=1e-4)


def test_without_replay_and_target_a_table_is_learned_as_by_q_learning() -> None:
    """A linear network of one-hot states by SGD at α/2, from zero, one transition at a time."""
    alpha = 0.2
    network = begun(
        "FrozenLake-v1", SGD(lr=alpha / 2), hidden=(), replay=False, target=False, minibatch=1, learn_from=1
    )
    network.online.take({"output.weight": np.zeros((4, 16), np.float32)})
    table = tabular.QLearning(tabular.Config(alpha=alpha, gamma=0.99), Context())
    random = np.random.default_rng(0)
    env = EnvironmentCopy(Opener("FrozenLake-v1", {"is_slippery": False}))
    state = env.reset(0)
    for _ in range(2000):
        action = int(random.integers(4))
        move = env.step(action)
        row = (np.array([value]) for value in (state, action, move.reward, move.observation, move.terminated))
        network.ring.add(Transitions(*row, np.array([move.truncated])))
        network.update(network._drawn())
        table.learn(state, action, move.reward, move.observation, move.terminated, 1.0)
        state = env.reset() if move.terminated or move.truncated else move.observation
    assert table.value_SA.max() > 0.1
    np.testing.assert_allclose(network.online.network.output.weight.detach().numpy().T, table.value_SA, atol=1e-5)


def test_targets_by_hand() -> None:
    drawn = some(16)
    for double in (False, True):
        agent = begun("CartPole-v1", learn_from=1, double=double)
        agent.older.take({name: value * 1.5 for name, value in agent.older.network.state_dict().items()})
        online, older = agent.online(drawn.after), agent.older(drawn.after)
        for row, y in enumerate(agent.targets(drawn, drawn.after)):
            value = older[row, online[row].argmax()] if double else older[row].max()
            wanted = drawn.rewards[row] + (0.0 if drawn.terminated[row] else 0.99 * value)
            assert y == pytest.approx(wanted, rel=1e-5)


def test_dueling_means_are_values() -> None:
    agent = begun("CartPole-v1", learn_from=1, dueling=True)
    network, x = agent.online.network, torch.randn(8, 4)
    hidden = x
    for layer in network.hidden:
        hidden = torch.relu(layer(hidden))
    assert network.value is not None
    torch.testing.assert_close(network(x).mean(dim=1, keepdim=True), network.value(hidden))


def test_many_states_are_not_kept_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 states: no array of vectors for all of them, and the same values as one by one."""
    agent = begun(f"{FILE}:Many", learn_from=1, hidden=(4,))
    rows, read = [], agent.read.__class__.__call__

    def counted(self: Any, states_N: np.ndarray) -> np.ndarray:
        rows.append(len(states_N))
        return read(self, states_N)

    monkeypatch.setattr(agent.read.__class__, "__call__", counted)
    table = agent.table()
    assert table is not None and len(table.values) == 60_000 and max(rows) <= 1000
    some_S = np.array([0, 511, 512, 59_999])
    np.testing.assert_allclose(table.values[some_S], agent.foresee(some_S), rtol=1e-6)


# The ring


def moved(numbers: np.ndarray) -> Transitions:
    rows = np.stack([numbers, numbers + 0.5], axis=1).astype(np.float32)
    return Transitions(rows, numbers % 3, numbers, rows + 1, numbers % 5 == 0, numbers % 7 == 0)


def test_the_ring_draws_the_newest_uniformly() -> None:
    ring = Ring(1000, (2,), np.float32)
    random = np.random.default_rng(0)
    for start in range(0, 5000, 4):
        ring.add(moved(np.arange(start, start + 4)))
        assert ring.draw(8, random).rewards.min() >= max(0, start + 4 - 1000)
    drawn = ring.draw(200_000, random)
    counts = np.bincount(drawn.rewards.astype(int) - 4000, minlength=1000)
    assert len(counts) == 1000 and abs(counts.std() - np.sqrt(200)) < 2
    np.testing.assert_array_equal(drawn.after[:, 0], drawn.rewards + 1)
    np.testing.assert_array_equal(ring.newest(5).rewards, np.arange(4995, 5000))


def test_a_checkpoint_of_the_ring_links_what_is_written_already(tmp_path: Path) -> None:
    ring, added = Ring(4000, (2,), np.float32), 0
    inodes: dict[str, int] = {}
    for step in range(1, 60):
        count = 37 * step % 400
        ring.add(moved(np.arange(added, added + count)))
        added += count
        state = {"step": step, "best": {}, "waited": 0, "valid": {}, "seconds": 0.0, "metrics_bytes": 0, "learner": {}}
        path = checkpoint.save(tmp_path, step, "x", ring.tensors(), state)
        tensors, _ = checkpoint.load(path)
        other = Ring(4000, (2,), np.float32)
        other.restore(tensors, added)
        numbers = np.arange(max(added - 4000, 0), added)
        for one, two in zip(ring._at(numbers), other._at(numbers), strict=True):
            np.testing.assert_array_equal(one, two)
        for file in path.glob("replay-*.safetensors"):
            assert inodes.setdefault(file.name, file.stat().st_ino) == file.stat().st_ino, "written once"
        if step > 3:
            checkpoint.prune(tmp_path, step, 2, set())
    assert len(inodes) > 20


BAD = {
    "minibatch": ({"minibatch": 512, "capacity": 256, "learn_from": 1}, "is more than the ring holds"),
    "late": ({"learn_from": 100}, "nothing would be learned"),
    "copies": ({"learn_from": 1, "copies": 3}, "must be a multiple of system.copies"),
    "memory": ({"learn_from": 1, "capacity": 2**31 - 1, "minibatch": 1}, "lower system.capacity"),
}


@pytest.mark.parametrize("what", BAD)
def test_settings_that_do_not_fit_are_a_sentence(what: str) -> None:
    config, sentence = BAD[what]
    with pytest.raises(CanonError, match=sentence):
        begun("CartPole-v1", **config)
