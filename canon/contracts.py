"""What all parts of canon agree on: what learns, what it receives, and which abilities it may have.

An ability is a protocol that a class names as its base; code asks `isinstance`, never for an attribute by its name.
Abilities of tasks are in canon.tasks.base.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor, nn

IGNORE = -100  # a label that no loss counts, as in torch
WIDEST = 1000  # hypotheses of one sentence, at most
Arrays = dict[str, "np.ndarray"]  # by name; of a checkpoint, or one row per example


# ---- what a learner receives


@dataclass(frozen=True)
class World:
    """The processes that train together, seen from this one. Here it is the only one; see canon.training.devices for
    several."""

    place: str = "cpu"  # the device: cpu, cuda:0, mps
    rank: int = 0
    size: int = 1

    @property
    def kind(self) -> str:
        """Of device: cpu, cuda or mps."""
        return self.place.partition(":")[0]

    @property
    def device(self) -> torch.device:
        import torch

        return torch.device(self.place)

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
        """Returns when all processes have called it."""


def _no_optimizer(_parameters: object, phase: str, _paces: object = None) -> Any:
    raise AssertionError(f"phase {phase}: a context without a recipe has no optimiser")


@dataclass(frozen=True)
class Context:
    """What a learner is built with beside its settings. `Context()` is enough to build one and to try it."""

    recipe: Any = None  # canon.recipe.Recipe: of a run
    schema: Any = None  # canon.data.schema.Schema: of data that has been read
    world: World = field(default_factory=World)
    seed: int = 0  # of everything that is drawn
    # (named parameters, phase, paces) → canon.training.phases.Phase: the recipe's optimiser with its schedule
    optimizer: Callable[..., Any] = _no_optimizer
    # Called between the parts of a long evaluation, equally often on all processes; what it raises ends the evaluation.
    pause: Callable[[], None] = lambda: None


# ---- what learns


class Unchanging(dict[str, Any]):
    """A group of `Learning.tensors` that is the same in every checkpoint that has a group of its name: it is written
    once, and later checkpoints link to that file."""


class Learning(ABC):
    """Something that learns in steps and whose whole state is arrays and JSON: what learners and agents share."""

    flops_per_example: float = 0.0  # of learning from one example; 0: not counted
    unit: tuple[float, str] = (1.0, "examples")  # what is counted per second: how many an example has, and their name

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
    def tensors(self) -> Mapping[str, Mapping[str, Any]]:
        """Everything that was learned, as numpy's arrays or torch's tensors: "model" is enough to predict, the rest is
        needed to resume."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What is not an array, as JSON."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        """Takes `tensors` and `state` of an earlier moment; "model" alone is enough to predict. Checkpoints give
        arrays."""

    def penalty(self) -> float:
        """The regulariser of the structural risk, at the current weights."""
        return 0.0


class Learner(Learning):
    """What the trainer drives. canon.training.gradient trains a torch network, canon.training.environment an agent; a
    system with loop="learner" in the registry is such a class itself and learns in its own way. Runs, curves,
    checkpoints, resume and all verbs are the same for all."""

    careful: bool = False  # whether `outputs` may decode by a slow search: for final scores and for predictions

    @abstractmethod
    def begin(self, data: Any, batch: int, steps: int) -> None:
        """Takes what it learns from out of the data (canon.data.schema.Data), examples per step, and steps. Called
        before the first step, not for prediction."""

    @abstractmethod
    def outputs(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The outputs for all rows of a split; the task knows what they mean."""


class NetworkLearner(Learner):
    """A learner that is a torch network."""

    network: nn.Module


# ---- experience by acting


class Space(NamedTuple):
    """What an observation is: numbers of a shape, or one of `size` states."""

    shape: tuple[int, ...] = ()
    size: int = 0


class Moved(NamedTuple):
    """What follows an action. An episode is over where it is terminated or truncated; only after `terminated` could
    nothing have followed."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool


class Environment(Protocol):
    """One copy of something to act in. All its randomness comes from the seed of `reset`. Every episode must end:
    whoever opens an environment without a limit of steps sets one."""

    observation: Space
    num_actions: int

    def reset(self, seed: int | None = None) -> Any:
        """The first observation of an episode; without a seed the random numbers continue."""

    def step(self, action: int) -> Moved: ...

    def state(self) -> dict[str, Any]:
        """Everything, generators too, as JSON: after `restore` of it the episode continues exactly."""

    def restore(self, state: dict[str, Any]) -> Any:
        """Takes an earlier `state`; returns its observation."""


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
    """Several copies side by side, each of which starts again where it ends (canon.training.environment.Copies)."""

    observation: Space
    num_actions: int
    copies: list[Any]  # the environments themselves, for agents that know more about them
    observations: np.ndarray  # [N, …] where the copies are now

    def step(self, actions_N: np.ndarray, open_N: np.ndarray | None = None) -> Transitions:
        """A step of every copy, or of those whose numbers are given."""

    def count(self, episodes: float, returns: float, lengths: float) -> None:
        """Adds episodes that an agent has drawn by itself to those that are logged: how many, and sums of their returns
        and lengths."""


class Transitions(NamedTuple):
    """One step of each copy. `after` is what followed the action, also where the copy has started again since."""

    before: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


@runtime_checkable
class HasTransitions(Protocol):
    """Data that may have transitions to learn from in place of acting."""

    def transitions(self) -> Transitions | None: ...


class Agent(Learning):
    """What learns by acting: a system with loop="environment". In a step it acts in its copies as often as it likes;
    canon.training.environment keeps the copies, scores the agent by playing, and makes it a learner."""

    unit = (1.0, "environment steps")
    copies: int = 1  # environments that it acts in side by side
    gamma: float = 1.0  # its discount

    @abstractmethod
    def begin(self, environments: Environments, batch: int, steps: int) -> None:
        """Takes the copies to act in, environment steps per step of learning, and steps; called before the first."""

    @abstractmethod
    def act(self, observations_N: np.ndarray) -> np.ndarray:
        """The best actions [N] that it knows, for evaluation, without learning."""


# ---- abilities of networks and learners


@runtime_checkable
class TakesVocabulary(Protocol):
    """A network that spells its words."""

    def take_vocabulary(self, vocabulary: Any) -> None: ...


@runtime_checkable
class Attends(Protocol):
    """A network whose attention weights can be inspected, by layer; the arguments are those of its forward."""

    def attention(self, *inputs: Any) -> dict[str, Tensor]: ...


@runtime_checkable
class Encodes(Protocol):
    """A pre-trained network: hidden states of all layers for texts end to end, and one vector of a text from them."""

    def encode(self, token_N: Tensor, layout: Any, segment_N: Tensor | None = None) -> Any: ...

    def pool(self, hidden_ND: Tensor, layout: Any) -> Tensor: ...


@runtime_checkable
class NamesTokens(Protocol):
    """A network whose forward gives features of some places as "hidden": the tokens that they name, and the losses of
    targets (canon.nn.token_loss.TokenLoss), for which not all logits are held at once."""

    def logits(self, hidden_MD: Tensor) -> Tensor: ...

    def token_losses(self, hidden_MD: Tensor, target_M: Tensor) -> Any: ...


@runtime_checkable
class TakesPrompts(NamesTokens, Protocol):
    """A pre-trained network that reads trained vectors among its tokens, and trained keys and values before them."""

    def prompted(
        self,
        token_N: Tensor,
        layout: Any,
        segment_N: Tensor | None = None,
        *,
        vectors_KD: Tensor | None = None,
        prefix_LP2D: Tensor | None = None,
    ) -> Tensor:
        """[N, D] the last hidden states. Ids from the vocabulary's size on are rows of `vectors`; `prefix` are keys and
        values of P places before each layer's own."""

    def naming(self, hidden_MD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The features, the matrix and the bias whose product are the logits."""


@runtime_checkable
class Borrows(Protocol):
    """What is built on a pre-trained network and, where this stays as it is, saves only its own part."""

    borrows: bool  # whether it stays as it is

    @property
    def borrower(self) -> Any:
        """The module whose `backbone` it is."""


@runtime_checkable
class StartsFromBackbone(Protocol):
    """A network whose own parts begin at what its backbone knows."""

    def start(self) -> None:
        """Called once the backbone has its weights."""


@runtime_checkable
class TakesTurns(Protocol):
    """A network of which each phase of a training step runs another part."""

    def turn(self, phase: str) -> Any:
        """A module whose forward is what that phase learns from."""


@runtime_checkable
class Directed(Protocol):
    """A network that declares whether it reads from left to right."""

    causal: ClassVar[bool]


@runtime_checkable
class LearnsByDrawing(Protocol):
    """A network that draws random choices while it learns, and has a loss for them."""

    def drawing(self, noise: Any = None) -> Any: ...

    def extra_loss(self, token_losses_M: Tensor, target: Any, drawing: Any) -> Tensor: ...


@runtime_checkable
class Compiles(Protocol):
    """A part that torch.compile can compile, where `compiles` is true."""

    compiles: ClassVar[bool]


@runtime_checkable
class TakesRows(Protocol):
    """A network that keeps the training rows themselves."""

    def take(self, rows: dict[str, Tensor], schema: Any) -> None: ...


@runtime_checkable
class Suggests(Protocol):
    """A system that knows good settings for data of a given size, which a recipe need not give then."""

    @classmethod
    def suggest(cls, recipe: Any, schema: Any, size: int) -> dict[str, Any]:
        """Settings by section.key; `size` is the number of training examples. optimizer.lr is a rate for Adam."""


@runtime_checkable
class Penalized(Protocol):
    """A network with a regulariser, which is added to the mean loss."""

    def penalty(self) -> Tensor: ...


class ParameterPace(NamedTuple):
    """How a parameter learns that does not learn like the rest."""

    share: float = 1.0  # of the rate
    decays: bool = True
    rows: bool = False  # whether only those of its rows learn that a batch has looked up (canon.optim.rows)


@runtime_checkable
class Paced(Protocol):
    """A network whose parameters do not all learn alike."""

    def paces(self) -> dict[str, ParameterPace]:
        """By a parameter's name."""


@runtime_checkable
class GraphRecordable(Protocol):
    """A network whose pass can be recorded as a CUDA graph, where `records` is true: it works on tokens end to end."""

    records: bool


@runtime_checkable
class KeepsVectors(Protocol):
    """A learner of word vectors."""

    def vectors(self) -> np.ndarray:
        """The vectors to use: float32 [V, D], row i for word i."""

    def vector(self, word: str) -> np.ndarray | None:
        """The vector of any word [D]; None for a word that this system cannot represent."""


@runtime_checkable
class WeighsFeatures(Protocol):
    """A learner that knows how much each feature counts."""

    def importances(self) -> dict[str, np.ndarray]:
        """[F] by the name of what is measured; features are ordered by the first."""


@runtime_checkable
class AdoptsVectors(Protocol):
    """A learner that can start with vectors learned elsewhere."""

    def adopt(self, tensors: Mapping[str, Any], words: Any) -> None: ...


@runtime_checkable
class Recommends(Protocol):
    """A learner that scores items for users; lists of items are canon.data.batching.sequences.Uneven."""

    def scores(self, users: np.ndarray, histories: Any) -> np.ndarray:
        """Of all items, float32 [users, items], for users of training with their items."""

    def fold_in(self, histories: Any) -> np.ndarray:
        """The same for users who are not in the training set, from their items alone."""

    def alike(self, items: np.ndarray) -> np.ndarray:
        """How alike all items are to some, float32 [some, items]."""
