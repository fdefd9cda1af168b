"""REINFORCE: a stochastic policy that climbs the gradient of its return, estimated from whole episodes.

Williams 1992, Simple statistical gradient-following algorithms for connectionist reinforcement learning; with returns
from each step on and a baseline, Sutton and Barto 2018, section 13.4.
  mean over episodes of Σ_t (G_t − b_t) ∇ log π(a_t | s_t) + β ∇H(π(· | s_t))           `Reinforce.slopes`
  G_t = Σ_{k ≥ t} γ^(k−t) r_k                                                            `returns_to_go`
  b: none; `mean`: of the other episodes' returns from step t on (0 after their end), which keeps the estimate unbiased;
    `learned`: V(s_t), a network of its own, by squared error                            `Reinforce.baseline`
`discount_steps` multiplies step t by γ^t, as the gradient of the discounted return has it; `scale_returns` divides
G − b by its standard deviation in the batch. Both are off.
Deviations: episodes that the limit of steps cuts off count as if they ended there.
Shapes: E episodes, B their steps, N observations, I inputs, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from canon.config import settings
from canon.contracts import Agent, Context, Environments
from canon.data.environments.abilities import Foresees, Measures, SamplesActions, StateTable, Tabular
from canon.errors import NonFinite
from canon.systems.control import exact
from canon.systems.control.episodes import Played, of_each, places, play
from canon.systems.control.network import ActionNetwork, Actor, ObservationReader
from canon.systems.settings import Natural, Positive


@settings
class Config:
    shape: tuple[Natural, ...] = Field(default=(4,), description="the environment decides")
    states: Natural = Field(default=0, description="the environment decides; 0: observations are numbers")
    actions: Positive = Field(default=2, description="the environment decides")
    hidden: tuple[Positive, ...] = Field(default=(64,), description="units of each hidden layer; none: linear")
    gamma: Annotated[float, Field(ge=0, le=1)] = Field(default=0.99, description="γ, the discount")
    copies: Annotated[int, Field(gt=0, le=4096)] = Field(default=8, description="environments side by side")
    baseline: Literal["none", "mean", "learned"] = Field(default="learned", description="b, subtracted from returns")
    entropy: Annotated[float, Field(ge=0)] = Field(default=0.0, description="β, the weight of the entropy")
    discount_steps: bool = Field(default=False, description="whether step t counts γ^t")
    scale_returns: bool = Field(default=False, description="whether G − b is divided by its standard deviation")
    judged: Literal["greedy", "sampled"] = Field(default="greedy", description="the actions of scored episodes")


def returns_to_go(rewards_B: np.ndarray, lengths_E: np.ndarray, gamma: float) -> np.ndarray:
    """[B] G_t of each step."""
    returns_B = np.zeros(len(rewards_B))
    for stop, length in zip(np.cumsum(lengths_E), lengths_E, strict=True):
        total = 0.0
        for place in range(stop - 1, stop - length - 1, -1):
            returns_B[place] = total = rewards_B[place] + gamma * total
    return returns_B


def mean_of_others(returns_B: np.ndarray, lengths_E: np.ndarray) -> np.ndarray:
    """[B] the mean over the other episodes of their return from the same step on, 0 after their end."""
    place_B = places(lengths_E)
    sums_T = np.bincount(place_B, returns_B)
    others: np.ndarray = (sums_T[place_B] - returns_B) / max(len(lengths_E) - 1, 1)
    return others


def log_softmax(logits_NA: np.ndarray) -> np.ndarray:
    shifted_NA = logits_NA - logits_NA.max(axis=1, keepdims=True)
    log_NA: np.ndarray = shifted_NA - np.log(np.exp(shifted_NA).sum(axis=1, keepdims=True))
    return log_NA


class Reinforce(Agent, Foresees, Measures, SamplesActions, Tabular):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.gamma, self.copies, self.unit = config.gamma, config.copies, (1.0, "episodes")
        self.sampling = config.judged == "sampled"
        self.read = ObservationReader(config.shape, config.states)
        bias, place = bool(config.hidden) or not config.states, context.world.device
        self.policy = Actor(ActionNetwork(self.read.size, config.hidden, config.actions, bias=bias), place)
        self.value = Actor(ActionNetwork(self.read.size, config.hidden, 1, bias=bias), place)
        self.random = np.random.default_rng([context.seed, 4])
        self._sums = np.zeros(6)  # since the last log: updates, losses, entropies, norms, losses of V; and all steps

    @property
    def num_parameters(self) -> int:
        nets = (self.policy, self.value) if self.config.baseline == "learned" else (self.policy,)
        return sum(parameter.numel() for net in nets for parameter in net.network.parameters())

    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        self.environments, self.each, self.total = environments, of_each(batch, self.copies), steps
        self.phases = [self.context.optimizer(self.policy.network.named_parameters(), "all")]
        if self.config.baseline == "learned":
            self.phases.append(self.context.optimizer(self.value.network.named_parameters(), "value"))

    # Acting

    def step(self, number: int) -> bool:
        for phase in self.phases:
            phase.set_rate(number, self.total)
        self.update(play(self.environments, self.each, self._choose))
        return True

    def _choose(self, observations_N: np.ndarray) -> np.ndarray:
        return self._drawn(self.read(observations_N), self.random.random(len(observations_N)))

    def _drawn(self, x_NI: np.ndarray, uniform_N: np.ndarray) -> np.ndarray:
        cumulative_NA = np.exp(log_softmax(self.policy(x_NI).astype(np.float64))).cumsum(axis=1)
        drawn_N: np.ndarray = (uniform_N[:, None] * cumulative_NA[:, -1:] >= cumulative_NA).sum(axis=1)
        return np.minimum(drawn_N, self.config.actions - 1)

    # Learning

    def advantages(self, played: Played) -> tuple[np.ndarray, np.ndarray]:
        """[B] the weights of ∇ log π, and G."""
        config = self.config
        returns_B = returns_to_go(played.rewards, played.lengths, self.gamma)
        beyond_B = returns_B - self.baseline(played, returns_B)
        if config.scale_returns:
            beyond_B = beyond_B / max(float(beyond_B.std()), 1e-8)
        if config.discount_steps:
            beyond_B = beyond_B * self.gamma ** places(played.lengths)
        return beyond_B, returns_B

    def baseline(self, played: Played, returns_B: np.ndarray) -> np.ndarray:
        if self.config.baseline == "mean":
            return mean_of_others(returns_B, played.lengths)
        if self.config.baseline == "learned":
            return self.value(self.read(played.observations))[:, 0].astype(np.float64)
        return np.zeros(len(returns_B))

    def slopes(self, logits_BA: np.ndarray, played: Played, beyond_B: np.ndarray) -> tuple[np.ndarray, float, float]:
        """[B, A] the derivative of the loss by the logits; the loss and the mean entropy.

        ∂ log π(a)/∂z = [a] − π, ∂H/∂z = −π (log π + H)."""
        log_BA = log_softmax(logits_BA.astype(np.float64))
        p_BA, rows_B = np.exp(log_BA), np.arange(len(log_BA))
        entropy_B = -(p_BA * log_BA).sum(axis=1)
        slope_BA = -p_BA * beyond_B[:, None]
        slope_BA[rows_B, played.actions] += beyond_B
        slope_BA -= self.config.entropy * p_BA * (log_BA + entropy_B[:, None])
        episodes = len(played.lengths)
        gain = beyond_B @ log_BA[rows_B, played.actions] + self.config.entropy * entropy_B.sum()
        return (-slope_BA / episodes).astype(np.float32), float(-gain / episodes), float(entropy_B.mean())

    def update(self, played: Played) -> None:
        beyond_B, returns_B = self.advantages(played)
        logits_BA = self._forward(self.policy, self.read(played.observations))
        slope_BA, loss, entropy = self.slopes(_plain(logits_BA), played, beyond_B)
        norm = self._backward(self.policy, logits_BA, slope_BA)
        value_loss = 0.0
        if self.config.baseline == "learned":
            value_B1 = self._forward(self.value, self.read(played.observations))
            error_B = _plain(value_B1)[:, 0] - returns_B
            value_loss = float(np.square(error_B).mean())
            norm += self._backward(self.value, value_B1, (2 * error_B / len(error_B))[:, None].astype(np.float32))
        if not np.isfinite(loss + norm + value_loss):
            raise NonFinite("The loss or a gradient is not finite")
        for phase in self.phases:
            phase.step()
        self._sums += (1, loss, entropy, norm, value_loss, len(returns_B))

    def _forward(self, actor: Actor, x_BI: np.ndarray) -> Any:
        if actor.small is not None:
            return actor.small(x_BI, keep=True)
        return actor.network(torch.from_numpy(x_BI).to(actor.device))

    def _backward(self, actor: Actor, outputs: Any, slope: np.ndarray) -> float:
        """Sets the gradients, clipped to train.clip; their norm before."""
        parameters = list(actor.network.parameters())
        if actor.small is not None:
            actor.small.backward(slope)
        else:
            for parameter in parameters:
                parameter.grad = None
            outputs.backward(torch.from_numpy(slope).to(actor.device))
        norm = float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
        most = self.context.recipe.train.clip if self.context.recipe is not None else None
        if most is not None and norm > most:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad.mul_(most / norm)
        return norm

    # What it knows

    def act(self, observations_N: np.ndarray) -> np.ndarray:
        return self.policy(self.read(observations_N)).argmax(axis=1)

    def sample(self, observations_N: np.ndarray, uniform_N: np.ndarray) -> np.ndarray:
        return self._drawn(self.read(observations_N), uniform_N)

    def foresee(self, observations_N: np.ndarray) -> np.ndarray:
        if self.config.baseline != "learned":
            return np.full(len(observations_N), np.nan)
        return self.value(self.read(observations_N))[:, 0]

    def probabilities(self) -> np.ndarray:
        """[S, A] π of all states."""
        return np.exp(log_softmax(self.policy.of_states(self.read).astype(np.float64)))

    def measures(self, environment: Any) -> dict[str, float]:
        if exact.model_of(environment) is None:
            return {}
        policy_SA = self.probabilities()
        if not self.sampling:
            policy_SA = exact.deterministic(policy_SA.argmax(axis=1), self.config.actions)
        return exact.measured(environment, policy_SA, self.gamma)

    def table(self) -> StateTable | None:
        if not self.config.states:
            return None
        learned = self.config.baseline == "learned"
        values_S = self.value.of_states(self.read)[:, 0] if learned else np.zeros(self.config.states)
        return StateTable(values_S, self.probabilities(), np.zeros(self.config.states, np.int64))

    # Logs and checkpoints

    def logs(self) -> dict[str, float]:
        count, loss, entropy, norm, value_loss, steps = self._sums
        self._sums = np.array([0, 0, 0, 0, 0, steps])
        means = {"loss": loss, "entropy": entropy, "gradient_norm": norm}
        if self.config.baseline == "learned":
            means["value_loss"] = value_loss
        logged = {name: float(total / max(count, 1)) for name, total in means.items()}
        return {**logged, "environment_steps": float(steps), "lr": self.phases[0].optimizer.param_groups[0]["lr"]}

    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        nets = {"policy": self.policy.network.state_dict(), "value": self.value.network.state_dict()}
        model = {f"{name}.{key}": x.detach().clone() for name, net in nets.items() for key, x in net.items()}
        optimizer = {key: x for phase in self.phases for key, x in phase.tensors().items()}
        return {"model": model, "optimizer": optimizer}

    def state(self) -> dict[str, Any]:
        return {"random": self.random.bit_generator.state, "sums": self._sums.tolist()}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        for name, actor in (("policy", self.policy), ("value", self.value)):
            tensors_of_actor = {key: x for key, x in tensors["model"].items() if key.startswith(f"{name}.")}
            actor.take({key.removeprefix(f"{name}."): x for key, x in tensors_of_actor.items()})
        if "optimizer" in tensors:
            for phase in self.phases:
                phase.restore(tensors["optimizer"])
        self.random.bit_generator.state = state["random"]
        self._sums = np.array(state["sums"])


def _plain(outputs: Any) -> np.ndarray:
    return outputs if isinstance(outputs, np.ndarray) else outputs.detach().cpu().numpy()
