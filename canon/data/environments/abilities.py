"""What a user's own environment, and an agent (canon.contracts.Agent), may be able to do beyond what all can do.

Abilities are protocols that a class names as its base; code asks `isinstance`.
Shapes: N observations, S states, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from canon.contracts import Transitions


@runtime_checkable
class Snapshot(Protocol):
    """An environment of a user's own that can say where it is (its generator np_random is kept beside)."""

    def snapshot(self) -> Any:
        """Everything that the rest of an episode depends on, as JSON."""

    def restore(self, state: Any) -> None:
        """Takes what `snapshot` gave, which has been to JSON and back."""


@runtime_checkable
class Foresees(Protocol):
    """An agent that predicts the discounted return from an observation on."""

    def foresee(self, observations_N: np.ndarray) -> np.ndarray: ...


@runtime_checkable
class SamplesActions(Protocol):
    """An agent whose policy is stochastic."""

    sampling: bool  # whether it is judged by sampled actions

    def sample(self, observations_N: np.ndarray, uniform_N: np.ndarray) -> np.ndarray:
        """Actions decided by numbers between 0 and 1."""


@runtime_checkable
class Measures(Protocol):
    """An agent that knows more of what it learned than episodes show."""

    def measures(self, environment: Any) -> dict[str, float]: ...


@runtime_checkable
class LearnsFromRecords(Protocol):
    """An agent that learns from any transitions, whoever acted."""

    def take_records(self, records: Transitions) -> None:
        """Transitions to learn from in place of acting; called after `begin`."""


class StateTable(NamedTuple):
    """What an agent knows of each of S states."""

    values: np.ndarray  # [S]
    policy: np.ndarray  # [S, A] probabilities of actions
    visits: np.ndarray  # [S] how often it was there


@runtime_checkable
class Tabular(Protocol):
    """An agent of states that can be listed."""

    def table(self) -> StateTable | None:
        """None where states cannot be listed."""
