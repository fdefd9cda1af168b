"""A system of two phases for the tests: body and head take turns, each with its own optimiser and batch."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.objectives.record import Objective
from canon.objectives.settings import SmoothedWeighted
from canon.registry import System
from canon.tasks.classification import Classification


@settings
class Config:
    shape: tuple[int, ...] = Field(default=(64,))
    num_classes: int = Field(default=10)


class Duel(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
        self.head = nn.Linear(16, config.num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs))


class TurnTaking(Classification):
    phases = ("body", "head", "head")

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in network.named_parameters() if name.startswith(phase)]


SYSTEM = System(
    name="duel",
    title="Duel",
    chapter="linear",
    paper="none",
    module="tests.training.duel:Duel",
    encodings=("pixels",),
    task="turn-taking",
    objective="turns",
)
OBJECTIVE = Objective(
    name="turns",
    title="Cross-entropy",
    formula="−log softmax(f)_y",
    paper="none",
    tasks={"turn-taking": SmoothedWeighted},
    columns=("target",),
    outputs=("logits",),
    module="canon.objectives.classification:CrossEntropy",
)
