"""Steps a second of DQN on CartPole: canon, stable-baselines3, and the loop that CleanRL publishes, at equal settings.

    python benchmarks/dqn.py [--quick] [--steps 60000]
    python benchmarks/dqn.py --learned [--quick] [--seeds 1]

Settings are those of CleanRL's dqn.py: 120 and 84 units, Adam at 2.5e-4, a ring of 10,000, 128 transitions every 10
steps, θ⁻ every 500, ε from 1 to 0.05 over half of the steps; learning begins after a sixth of them. One process, one
copy of the environment. canon runs twice: with CleanRL's squared loss, and with what stable-baselines3 always has,
Huber's loss and gradients clipped to norm 10. Every policy is then played greedily. Seconds are of the processor, since
the machine is shared.
With `--learned`, canon and stable-baselines3 have the settings of RL Baselines3 Zoo, by which both learn CartPole in
51,200 steps: 256 and 256 units, Adam at 2.3e-3, Huber's loss clipped to norm 10, a ring of 100,000, 128 updates of 64
transitions every 256 steps, θ⁻ every 10, ε from 1 to 0.04 over 8,000. Ten times the policy plays 20 episodes of unseen
seeds, beside the clock; the best mean is reported.
The loop is the published algorithm written again: a vector of one environment, the opponent's own ring, torch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from common import arguments, write_result
from torch import nn
from torch.nn import functional as F

from canon import recipe as recipes
from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.optim.schedules import Schedule
from canon.optim.settings import Adam
from canon.recipe import OptimizerChoice
from canon.systems.control.dqn import DQN, Config
from canon.training.environment import Copies
from canon.training.phases import Phase

NAME, LR, CAPACITY, MINIBATCH, EVERY, TARGET, GAMMA = "CartPole-v1", 2.5e-4, 10_000, 128, 10, 500, 0.99


def ours(
    steps: int, seed: int, loss: Literal["squared", "huber"] = "squared", clip: float | None = None
) -> tuple[float, Any]:
    torch.manual_seed(seed)
    recipe = recipes.load("control/cartpole", changes={} if clip is None else {"train.clip": clip})
    choice = OptimizerChoice("adam", Adam(lr=LR), Schedule(), ())
    context = Context(recipe, seed=seed, optimizer=lambda named, phase, paces=None: Phase(phase, choice, named, paces))
    config = Config(learn_from=steps // 6, epsilon_steps=steps // 2, capacity=CAPACITY, loss=loss)
    agent = DQN(config, context)
    agent.begin(Copies(lambda: EnvironmentCopy(Opener(NAME)), 1, seed), 500, steps // 500)
    begun = time.process_time()
    for number in range(1, steps // 500 + 1):
        agent.step(number)
    return time.process_time() - begun, lambda seen: int(agent.act(seen[None])[0])


def ours_clipped(steps: int, seed: int) -> tuple[float, Any]:
    return ours(steps, seed, "huber", 10.0)


def by_stable_baselines3(steps: int, seed: int) -> tuple[float, Any]:
    import stable_baselines3

    model = stable_baselines3.DQN(
        "MlpPolicy",
        gymnasium.make(NAME),
        learning_rate=LR,
        buffer_size=CAPACITY,
        learning_starts=steps // 6,
        batch_size=MINIBATCH,
        train_freq=EVERY,
        target_update_interval=TARGET,
        exploration_fraction=0.5,
        max_grad_norm=10,
        policy_kwargs={"net_arch": [120, 84]},
        seed=seed,
        device="cpu",
    )
    begun = time.process_time()
    model.learn(steps)
    return time.process_time() - begun, lambda seen: int(model.predict(seen, deterministic=True)[0])


def published_loop(steps: int, seed: int) -> tuple[float, Any]:
    from stable_baselines3.common.buffers import ReplayBuffer

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(NAME))],
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    space, actions = envs.single_observation_space, envs.single_action_space

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2))

    online, older = network(), network()
    older.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=LR)
    ring = ReplayBuffer(CAPACITY, space, actions, "cpu", handle_timeout_termination=False)
    begun = time.process_time()
    seen, _ = envs.reset(seed=seed)
    for step in range(steps):
        epsilon = max(1 - 0.95 * step / (steps / 2), 0.05)
        if random.random() < epsilon:
            chosen = np.array([actions.sample()])
        else:
            chosen = torch.argmax(online(torch.Tensor(seen)), dim=1).cpu().numpy()
        after, rewards, terminated, truncated, infos = envs.step(chosen)
        true_after = after.copy()
        for place, cut in enumerate(terminated | truncated):
            if cut:
                true_after[place] = infos["final_obs"][place]
        ring.add(seen, true_after, chosen, rewards, terminated, [{}])
        seen = after
        if step > steps // 6 and step % EVERY == 0:
            data = ring.sample(MINIBATCH)
            with torch.no_grad():
                best, _ = older(data.next_observations).max(dim=1)
                y = data.rewards.flatten() + GAMMA * best * (1 - data.dones.flatten())
            loss = F.mse_loss(y, online(data.observations).gather(1, data.actions).squeeze())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % TARGET == 0:
                older.load_state_dict(online.state_dict())
    return time.process_time() - begun, lambda seen: int(online(torch.from_numpy(seen)[None]).argmax())


# With settings that learn: seconds of the processor, and the best mean return on the way.

ZOO_STEPS, ZOO_EVERY, LOOKS = 51_200, 256, 10
Act = Callable[[np.ndarray], int]


class Clock:
    """Processor seconds of learning alone, and the best of some looks at the policy."""

    def __init__(self, looks_every: int) -> None:
        self._every, self._begun, self.seconds, self.best = looks_every, time.process_time(), 0.0, -math.inf

    def at(self, step: int, act: Act) -> None:
        if step % self._every == 0:
            self.seconds += time.process_time() - self._begun
            self.best = max(self.best, mean_return(act, 20))
            self._begun = time.process_time()


def ours_learned(steps: int, seed: int) -> Clock:
    torch.manual_seed(seed)
    recipe = recipes.load("control/cartpole", changes={"train.clip": 10.0})
    choice = OptimizerChoice("adam", Adam(lr=2.3e-3), Schedule(), ())
    context = Context(recipe, seed=seed, optimizer=lambda named, phase, paces=None: Phase(phase, choice, named, paces))
    config = replace(recipe.config, loss="huber")
    agent, clock = DQN(config, context), Clock(steps // LOOKS)
    agent.begin(Copies(lambda: EnvironmentCopy(Opener(NAME)), 1, seed), ZOO_EVERY, steps // ZOO_EVERY)
    for number in range(1, steps // ZOO_EVERY + 1):
        agent.step(number)
        clock.at(number * ZOO_EVERY, lambda seen: int(agent.act(seen[None])[0]))
    return clock


def by_stable_baselines3_learned(steps: int, seed: int) -> Clock:
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback

    model = stable_baselines3.DQN(
        "MlpPolicy",
        gymnasium.make(NAME),
        learning_rate=2.3e-3,
        buffer_size=100_000,
        learning_starts=1000,
        batch_size=64,
        train_freq=ZOO_EVERY,
        gradient_steps=128,
        target_update_interval=10,
        exploration_fraction=8000 / steps,
        exploration_final_eps=0.04,
        max_grad_norm=10,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )
    clock = Clock(steps // LOOKS)

    class Looks(BaseCallback):
        def _on_step(self) -> bool:
            clock.at(self.num_timesteps, lambda seen: int(model.predict(seen, deterministic=True)[0]))
            return True

    model.learn(steps, callback=Looks())
    return clock


def compare_learned(steps: int, seeds: int) -> dict[str, dict[str, list[float]]]:
    rows: dict[str, dict[str, list[float]]] = {}
    for seed in range(seeds):
        for name, learner in (("canon", ours_learned), ("stable-baselines3", by_stable_baselines3_learned)):
            clock = learner(steps, seed)
            row = rows.setdefault(name, {"steps_per_processor_second": [], "best_return": []})
            row["steps_per_processor_second"].append(round(steps / clock.seconds, 1))
            row["best_return"].append(clock.best)
            print(f"{name:<20} {steps / clock.seconds:>9,.0f} steps/s of the processor   best return {clock.best}")
    return rows


def mean_return(act: Any, episodes: int) -> float:
    env, returns = gymnasium.make(NAME), []
    for seed in range(episodes):
        (seen, _), total, over = env.reset(seed=100_000 + seed), 0.0, False
        while not over:
            seen, reward, terminated, truncated, _ = env.step(act(seen))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=60_000, help="in the environment, of each")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--learned", action="store_true", help="settings that learn, beside stable-baselines3 alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.learned:
        steps, seeds = (10 * ZOO_EVERY, 1) if given.quick else (ZOO_STEPS, given.seeds)
        by_name = compare_learned(steps, seeds)
        ours_rate, theirs_rate = (np.median(row["steps_per_processor_second"]) for row in by_name.values())
        print(f"canon is {ours_rate / theirs_rate:.2f} times as fast as stable-baselines3")
        packages = ("numpy", "torch", "gymnasium", "stable_baselines3")
        write_result("dqn_learned", {"environment": NAME, "steps": steps, "rows": by_name}, given, packages)
        return
    steps, seeds, episodes = (3000, 1, 2) if given.quick else (given.steps, given.seeds, 20)
    rows: dict[str, dict[str, Any]] = {}
    for seed in range(seeds):  # in turn, so that a busy neighbour slows all alike
        for learner in (ours, ours_clipped, by_stable_baselines3, published_loop):
            seconds, act = learner(steps, seed)
            row = rows.setdefault(learner.__name__, {"steps_per_processor_second": [], "return": []})
            row["steps_per_processor_second"].append(round(steps / seconds, 1))
            row["return"].append(mean_return(act, episodes))
    for name, row in rows.items():
        rate = np.median(row["steps_per_processor_second"])
        print(f"{name:<20} {rate:>9,.0f} steps/s of the processor   returns {row['return']}")
    for mine, theirs in (("ours_clipped", "by_stable_baselines3"), ("ours", "published_loop")):
        one, other = (float(np.median(rows[name]["steps_per_processor_second"])) for name in (mine, theirs))
        print(f"canon is {one / other:.2f} times as fast as {theirs}")
    packages = ("numpy", "torch", "gymnasium", "stable_baselines3")
    write_result("dqn", {"environment": NAME, "steps": steps, "rows": rows}, given, packages)


if __name__ == "__main__":
    main()
