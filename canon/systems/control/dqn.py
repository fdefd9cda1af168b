"""Deep Q-networks: Q-learning with a network, on transitions drawn from a ring, with targets of an older network.

Mnih et al. 2015, Human-level control through deep reinforcement learning (Nature 518), algorithm 1.
  y = r + γ (1 − terminated) max_a Q(s', a; θ⁻)                                                  `DQN.targets`
  loss: mean of (y − Q(s, a; θ))², or Huber's by `loss`                                          `DQN.update`
  θ⁻ ← θ every `target_every` steps                                                              `DQN._act_and_learn`
  `double`: y = r + γ (1 − terminated) Q(s', argmax_a Q(s', a; θ); θ⁻), van Hasselt, Guez and Silver 2016
  `dueling`: Wang et al. 2016 (network.py); `replay` and `target` switch what the paper adds to Q-learning off.
Small networks act and learn by NumPy on the CPU (canon/systems/control/perceptron.py), all others by torch.
Deviations: observations of a few numbers and a perceptron in place of Atari's frames and convolutions; Adam in place of
RMSProp; errors are not clipped unless the objective is Huber's.
Shapes: N copies, B transitions, I inputs, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch.nn import functional as F

from canon.config import settings
from canon.contracts import Agent, Context, Environments
from canon.data.environments.abilities import Foresees, Measures, StateTable, Tabular
from canon.errors import CanonError, NonFinite
from canon.nn.limits import require_memory
from canon.systems.control import exact
from canon.systems.control.network import ActionNetwork, Actor, ObservationReader
from canon.systems.control.replay import Experience, Ring
from canon.systems.settings import Natural, Positive

_Probability = Annotated[float, Field(ge=0, le=1)]


@settings
class Config:
    shape: tuple[Natural, ...] = Field(default=(4,), description="the environment decides")
    states: Natural = Field(default=0, description="the environment decides; 0: observations are numbers")
    actions: Positive = Field(default=2, description="the environment decides")
    hidden: tuple[Positive, ...] = Field(default=(120, 84), description="units of each hidden layer; none: a table")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(default=0.99, description="γ, the discount")
    copies: Annotated[int, Field(gt=0, le=4096)] = Field(default=1, description="environments side by side")
    replay: bool = Field(default=True, description="learn from transitions drawn from a ring; off: from the newest")
    capacity: Positive = Field(default=10_000, description="transitions in the ring")
    minibatch: Positive = Field(default=128, description="transitions of an update")
    learn_every: Positive = Field(default=10, description="steps in the environment between updates")
    updates: Positive = Field(default=1, description="updates each time")
    learn_from: Natural = Field(default=10_000, description="steps before the first update")
    target: bool = Field(default=True, description="targets by an older network θ⁻; off: θ⁻ = θ")
    target_every: Positive = Field(default=500, description="C: steps after which θ⁻ becomes θ")
    epsilon: _Probability = Field(default=1.0, description="ε at first")
    epsilon_end: _Probability = Field(default=0.05, description="ε in the end")
    epsilon_steps: Natural = Field(default=250_000, description="steps over which ε falls")
    double: bool = Field(default=False, description="double DQN: θ chooses the action, θ⁻ values it")
    dueling: bool = Field(default=False, description="dueling network: a value, and advantages of actions")
    loss: Literal["squared", "huber"] = Field(default="squared", description="the objective decides")


class DQN(Agent, Foresees, Measures, Tabular):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.gamma, self.copies = config.gamma, config.copies
        self.read = ObservationReader(config.shape, config.states)
        bias = bool(config.hidden) or not config.states

        def network() -> ActionNetwork:
            return ActionNetwork(self.read.size, config.hidden, config.actions, config.dueling, bias)

        self.online, self.older = Actor(network(), context.world.device), Actor(network(), context.world.device)
        self.older.take(self.online.network.state_dict())
        self.random = np.random.default_rng([context.seed, 3])
        self.taken = 0  # steps in the environment
        self._sums = np.zeros(4)  # since the last log: updates, losses, mean Q, gradient norms

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.online.network.parameters())

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        config = self.config
        if batch % self.copies:
            raise CanonError(f"train.batch = {batch} must be a multiple of system.copies = {self.copies}.")
        if config.learn_from >= batch * steps:
            raise CanonError(
                f"system.learn_from = {config.learn_from:,} is not before the last of {batch * steps:,} steps, so "
                "nothing would be learned: lower it, or raise train.steps."
            )
        if config.minibatch > config.capacity:
            raise CanonError(
                f"system.minibatch = {config.minibatch:,} is more than the ring holds (system.capacity = "
                f"{config.capacity:,})."
            )
        first = environments.observations
        size = (2 * first[0].nbytes + 9) * config.capacity
        require_memory(size, f"A ring of {config.capacity:,} transitions", "lower system.capacity", torch.device("cpu"))
        self.environments, self.turns = environments, batch // self.copies
        self.ring = Ring(config.capacity, first.shape[1:], first.dtype)
        self.phase = self.context.optimizer(self.online.network.named_parameters(), "all")
        self.total = steps

    # Acting and learning

    def step(self, number: int) -> bool:
        self.phase.set_rate(number, self.total)
        for _ in range(self.turns):
            self._act_and_learn()
        return True

    def _act_and_learn(self) -> None:
        config, before = self.config, self.taken
        self.ring.add(self.environments.step(self._explore(self.environments.observations)))
        self.taken += self.copies
        if self.taken >= config.learn_from:
            for _ in range((self.taken // config.learn_every - before // config.learn_every) * config.updates):
                self.update(self._drawn())
        if self.taken // config.target_every > before // config.target_every:
            self.older.take(self.online.network.state_dict())

    def epsilon(self) -> float:
        config = self.config
        share = min(self.taken / config.epsilon_steps, 1.0) if config.epsilon_steps else 1.0
        return float(config.epsilon + (config.epsilon_end - config.epsilon) * share)

    def _explore(self, observations_N: np.ndarray) -> np.ndarray:
        random_N = self.random.random(self.copies) < self.epsilon()
        actions_N = self.random.integers(self.config.actions, size=self.copies)
        if not random_N.all():
            actions_N = np.where(random_N, actions_N, self.act(observations_N))
        return actions_N

    def _drawn(self) -> Experience:
        count = self.config.minibatch
        return self.ring.draw(count, self.random) if self.config.replay else self.ring.newest(count)

    def targets(self, drawn: Experience, after_BI: np.ndarray) -> np.ndarray:
        """[B] y."""
        older_BA = (self.older if self.config.target else self.online)(after_BI)
        if self.config.double:
            best_B = self.online(after_BI).argmax(axis=1)
            following_B = older_BA[np.arange(len(best_B)), best_B]
        else:
            following_B = older_BA.max(axis=1)
        y_B: np.ndarray = drawn.rewards + np.float32(self.gamma) * ~drawn.terminated * following_B
        return y_B

    def update(self, drawn: Experience) -> None:
        """One step on the mean loss of some transitions."""
        before_BI, after_BI = self.read(drawn.before), self.read(drawn.after)
        y_B, rows_B = self.targets(drawn, after_BI), np.arange(len(drawn.actions))
        if self.online.small is not None:
            value_BA = self.online.small(before_BI, keep=True)
            error_B = value_BA[rows_B, drawn.actions] - y_B
            loss, mean = self._loss(error_B), float(value_BA.mean())
            slope_BA = np.zeros_like(value_BA)
            clipped_B = np.clip(error_B, -1, 1) if self.config.loss == "huber" else 2 * error_B
            slope_BA[rows_B, drawn.actions] = clipped_B / len(error_B)
            self.online.small.backward(slope_BA)
            norm = self.online.small.norm()
        else:
            loss, mean, norm = self._by_torch(before_BI, drawn.actions, y_B)
        if not np.isfinite(loss + norm):
            raise NonFinite("The loss or a gradient is not finite")
        self._clip(norm)
        self.phase.step()
        self._sums += (1, loss, mean, norm)

    def _loss(self, error_B: np.ndarray) -> float:
        if self.config.loss == "squared":
            return float(np.square(error_B).mean())
        size_B = np.abs(error_B)
        return float(np.where(size_B < 1, 0.5 * size_B * size_B, size_B - 0.5).mean())

    def _by_torch(self, before_BI: np.ndarray, action_B: np.ndarray, y_B: np.ndarray) -> tuple[float, float, float]:
        place = self.online.device
        value_BA = self.online.network(torch.from_numpy(before_BI).to(place))
        chosen_B = value_BA.gather(1, torch.from_numpy(action_B.astype(np.int64)).to(place)[:, None]).squeeze(1)
        measure = F.smooth_l1_loss if self.config.loss == "huber" else F.mse_loss
        loss = measure(chosen_B, torch.from_numpy(y_B).to(place))
        self.phase.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        gradients = [parameter.grad for parameter in self.online.network.parameters() if parameter.grad is not None]
        return float(loss.detach()), float(value_BA.detach().mean()), float(torch.nn.utils.get_total_norm(gradients))

    def _clip(self, norm: float) -> None:
        """To train.clip, as canon.optim.clipping does."""
        most = self.context.recipe.train.clip if self.context.recipe is not None else None
        if most is not None and norm > most:
            for parameter in self.online.network.parameters():
                assert parameter.grad is not None
                parameter.grad.mul_(most / norm)

    # What it knows

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return self.online(self.read(observations_N)).argmax(axis=1)

    def foresee(self, observations_N: np.ndarray) -> np.ndarray:
        return self.online(self.read(observations_N)).max(axis=1)

    def measures(self, environment: Any) -> dict[str, float]:
        if exact.model_of(environment) is None:
            return {}
        value_SA = self.online.of_states(self.read).astype(float)
        policy_SA = exact.deterministic(value_SA.argmax(axis=1), self.config.actions)
        return exact.measured(environment, policy_SA, self.gamma, value_SA)

    def table(self) -> StateTable | None:
        if not self.config.states:
            return None
        value_SA = self.online.of_states(self.read)
        policy_SA = exact.deterministic(value_SA.argmax(axis=1), self.config.actions)
        return StateTable(value_SA.max(axis=1), policy_SA, np.zeros(self.config.states, np.int64))

    # Logs and checkpoints

    def logs(self) -> dict[str, float]:
        (count, *sums), self._sums = self._sums, np.zeros(4)
        names = ("loss", "mean_q", "gradient_norm")
        learned = {name: total / count for name, total in zip(names, sums, strict=True)} if count else {}
        full = len(self.ring) / self.config.capacity
        return {**learned, "epsilon": self.epsilon(), "ring": full, "lr": self.phase.optimizer.param_groups[0]["lr"]}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        nets = {"model": self.online.network.state_dict(), "target": self.older.network.state_dict()}
        nets = {name: {key: tensor.detach().clone() for key, tensor in net.items()} for name, net in nets.items()}
        return {**nets, "optimizer": self.phase.tensors(), **self.ring.tensors()}

    def state(self) -> dict[str, Any]:
        return {
            "random": self.random.bit_generator.state,
            "taken": self.taken,
            "added": self.ring.added,
            "sums": self._sums.tolist(),
        }

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.online.take(tensors["model"])
        if "recent" not in tensors:
            return
        self.older.take(tensors["target"])
        self.phase.restore(tensors["optimizer"])
        self.ring.restore(tensors, state["added"])
        self.random.bit_generator.state = state["random"]
        self.taken, self._sums = state["taken"], np.array(state["sums"])
