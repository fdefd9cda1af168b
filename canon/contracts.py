"""What the rooms of the house agree on: what learns, what it is given, and what it may be able to do.

An ability is a protocol that a class names; code asks `isinstance`, never for an attribute by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

IGNORE = -100  # a label that no loss counts, as in torch


# ---- what a learner is given


def _cpu() -> torch.device:
    import torch

    return torch.device("cpu")


@dataclass(frozen=True)
class World:
    """The processes that train together, seen from this one. Here it is the only one; canon.training.devices has the
    world of several."""

    device: torch.device = field(default_factory=_cpu)
    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def total(self, numbers: list[float]) -> list[float]:
        """Sums over all processes, in float64."""
        return numbers

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in rank order, on every process."""
        return rows

    def wait(self) -> None:
        """Returns when all processes have come here."""


def _no_optimizer(_parameters: object, phase: str, _paces: object = None) -> Any:
    raise AssertionError(f"phase {phase}: a context without a recipe has no optimiser")


@dataclass(frozen=True)
class Context:
    """What a learner is made with beside its settings. `Context()` is enough to build one and to try it."""

    recipe: Any = None  # canon.recipe.Recipe: of a run
    schema: Any = None  # canon.data.schema.Schema: what the data is, with its words, where data has been read
    world: World = field(default_factory=World)
    seed: int = 0  # of everything that is drawn
    # (named parameters, phase, paces) to the optimiser that the recipe chose, with its schedule:
    # canon.training.phases.Phase
    optimizer: Callable[..., Any] = _no_optimizer
    # Called between the parts of a long evaluation, on all processes as often; what it raises ends the evaluation.
    pause: Callable[[], None] = lambda: None


# ---- what learns


class Learning(ABC):
    """Something that learns in steps and whose whole state is tensors and JSON: what learners and agents share."""

    flops_per_example: float = 0.0  # of learning from one example; 0: not counted
    unit: tuple[float, str] = (1.0, "examples")  # what is counted per second, and how many of them an example has

    def __init__(self, config: Any, context: Context) -> None:
        self.config, self.context = config, context

    @property
    @abstractmethod
    def num_parameters(self) -> int: ...

    @abstractmethod
    def step(self, number: int) -> bool:
        """One step of learning, counted from 1; False when there is nothing more to learn."""

    @abstractmethod
    def logs(self) -> dict[str, float]:
        """The numbers to log since the last call."""

    @abstractmethod
    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Everything that was learned: "model" is enough to predict, the rest is needed to go on."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What is not a tensor, as JSON."""

    @abstractmethod
    def restore(self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Goes back to where `tensors` and `state` come from; "model" alone is enough to predict."""

    def penalty(self) -> float:
        """The regulariser of the structural risk, at the weights as they are."""
        return 0.0


class Learner(Learning):
    """What the trainer drives. canon.training.gradient trains a torch network, canon.training.environment an agent; a
    system with loop="learner" in the registry is such a class itself and learns in its own way. Runs, curves,
    checkpoints, resume and all verbs are the same for all."""

    @abstractmethod
    def begin(self, data: Any, batch: int, steps: int) -> None:
        """Takes what it learns from out of the data (canon.data.schema.Data), examples per step, and steps; called
        before the first step, not for prediction."""

    @abstractmethod
    def outputs(self, columns: Mapping[str, Any]) -> dict[str, Tensor]:
        """The outputs for all rows of a split, on the CPU; what they mean is the task's affair."""


# ---- experience that is made


class Space(NamedTuple):
    """What an observation is: numbers of a shape, or one of `size` states."""

    shape: tuple[int, ...] = ()
    size: int = 0


class Moved(NamedTuple):
    """What follows an action. An episode is over where it is terminated or truncated; only `terminated` says that
    nothing could have followed."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool


class Environment(Protocol):
    """One copy of something to act in. All its chances come from the seed given to `reset`. Every episode must end:
    whatever has no limit of steps is given one by whoever opens it."""

    observation: Space
    num_actions: int

    def reset(self, seed: int | None = None) -> Any:
        """The first observation of an episode; without a seed the chances go on from where they are."""

    def step(self, action: int) -> Moved: ...

    def state(self) -> dict[str, Any]:
        """Everything, generators too, as JSON: `restore` of it goes on exactly."""

    def restore(self, state: dict[str, Any]) -> Any:
        """Goes back to `state`; returns the observation there."""


@runtime_checkable
class MakesEnvironment(Protocol):
    """Data that is an environment, and a column of its episodes."""

    def make(self) -> Environment:
        """A new copy."""


@runtime_checkable
class Episodes(MakesEnvironment, Protocol):
    """A column whose rows are episodes to play: a split of an environment."""

    seeds: np.ndarray

    def __len__(self) -> int: ...


class Environments(Protocol):
    """Several copies side by side, each of which begins again where it ends (canon.training.environment.Copies)."""

    observation: Space
    num_actions: int
    copies: list[Any]  # the environments themselves, for agents that know more of them
    observations: np.ndarray  # [N, …] where the copies are now

    def step(self, actions_N: np.ndarray) -> Transitions: ...


class Transitions(NamedTuple):
    """One step of each copy. `after` is what followed the action, also where the copy has begun again since."""

    before: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Agent(Learning):
    """What learns by acting: a system with loop="environment". It acts in its copies as often in a step as it likes;
    canon.training.environment keeps them, plays it to score it, and makes it a learner."""

    copies: int = 1  # environments that it acts in side by side

    @abstractmethod
    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        """Takes the copies to act in, environment steps per step of learning, and steps; called before the first."""

    @abstractmethod
    def act(self, observations_N: np.ndarray) -> np.ndarray:
        """The best actions [N] it knows, for evaluation; nothing is learned."""


# ---- abilities of networks and learners


@runtime_checkable
class TakesVocabulary(Protocol):
    """A network that spells its words."""

    def take_vocabulary(self, vocabulary: Any) -> None: ...


@runtime_checkable
class Attends(Protocol):
    """A network whose attention weights can be looked at, by layer: arguments are those of its forward."""

    def attention(self, *inputs: Any) -> dict[str, Tensor]: ...


@runtime_checkable
class Encodes(Protocol):
    """A pre-trained network: hidden states of all layers for texts end to end, and one vector of a text from them."""

    def encode(self, token_N: Tensor, layout: Any, segment_N: Tensor | None = None) -> Any: ...

    def pool(self, hidden_ND: Tensor, layout: Any) -> Tensor: ...


@runtime_checkable
class Directed(Protocol):
    """A network that says whether it reads from left to right."""

    causal: ClassVar[bool]


@runtime_checkable
class Draws(Protocol):
    """A network that draws while it learns, and has a loss of what it drew."""

    def drawing(self, noise: Any = None) -> Any: ...

    def extra_loss(self, token_losses_M: Tensor, target: Any, drawing: Any) -> Tensor: ...


@runtime_checkable
class Compiles(Protocol):
    """A part that torch.compile takes, where `compiles` says so."""

    compiles: ClassVar[bool]


@runtime_checkable
class TakesRows(Protocol):
    """A network that is made of the training rows themselves."""

    def take(self, rows: dict[str, Tensor], schema: Any) -> None: ...


@runtime_checkable
class Penalized(Protocol):
    """A network with a regulariser that the mean loss is added to."""

    def penalty(self) -> Tensor: ...


@runtime_checkable
class Recordable(Protocol):
    """A network whose pass can be a CUDA graph, where `records` says so: all of it works on tokens end to end."""

    records: ClassVar[bool]


@runtime_checkable
class KeepsVectors(Protocol):
    """A learner of word vectors."""

    def vectors(self) -> np.ndarray:
        """The vectors to use: float32 [V, D], row i for word i."""

    def vector(self, word: str) -> np.ndarray | None:
        """The vector of any word [D]; None for one that this system cannot know."""


@runtime_checkable
class AdoptsVectors(Protocol):
    """A learner that can begin with vectors learned elsewhere."""

    def adopt(self, tensors: dict[str, Tensor], words: Any) -> None: ...
