"""The two players of a generative adversarial network as one module, so that one checkpoint and one wrapper hold both.

Goodfellow et al. 2014 (arXiv:1406.2661), algorithm 1: the turns are `GeneratorTurn` and `DiscriminatorTurn`, their
losses canon.objectives.adversarial, the game canon.tasks.generation. Deviations: none.
Shapes: B examples, Z length of the noise.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import TakesTurns
from canon.systems.settings import Positive


@settings
class Game:
    """Settings of the game itself, which both systems have."""

    latent: Positive = Field(default=100, description="length of the noise z")
    prior: Literal["uniform", "normal"] = Field(default="uniform", description="of z: uniform on −1 to 1, or N(0, 1)")
    discriminator_steps: Positive = Field(
        default=1, description="k, turns of the discriminator in a step, before the generator's one"
    )


class Players(nn.Module, TakesTurns):
    """`generator` makes samples [B, *shape] from noise [B, Z]; `discriminator` gives each a logit [B], data above 0."""

    generator: nn.Module
    discriminator: nn.Module

    def forward(self, z_BZ: Tensor) -> Tensor:
        """G(z)."""
        return self.generator(z_BZ)

    def turn(self, phase: str) -> nn.Module:
        return GeneratorTurn(self) if phase == "generator" else DiscriminatorTurn(self)


class GeneratorTurn(nn.Module):
    """What the generator learns from: the logit of D(G(z))."""

    def __init__(self, players: Players) -> None:
        super().__init__()
        self.players = players

    def forward(self, z_BZ: Tensor) -> Tensor:
        return self.players.discriminator(self.players(z_BZ))


class DiscriminatorTurn(GeneratorTurn):
    """What the discriminator learns from: the logits of D(x) and D(G(z))."""

    def forward(self, z_BZ: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        with torch.no_grad():  # only D learns here
            fake = self.players(z_BZ)
        # Two passes, not one over both: batch normalisation must not let D compare data with samples.
        return self.players.discriminator(real), self.players.discriminator(fake)
