"""The two players of a generative adversarial network as one module, so that one checkpoint and one wrapper hold both.

Goodfellow et al. 2014 (arXiv:1406.2661), algorithm 1: the turns in `Players.forward`. The losses of the turns are in
canon.objectives.adversarial, the game in canon.tasks.generation. Deviations: none.
Shapes: B examples, Z length of the noise.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.systems.settings import Positive


@settings
class Game:
    """What both systems may be told of the game itself."""

    latent: Positive = Field(default=100, description="length of the noise z")
    prior: Literal["uniform", "normal"] = Field(default="uniform", description="of z: uniform on −1 to 1, or N(0, 1)")
    discriminator_steps: Positive = Field(
        default=1, description="k, turns of the discriminator in a step, before the generator's one"
    )


class Players(nn.Module):
    """`generator` makes samples [B, *shape] from noise [B, Z]; `discriminator` gives each a logit [B], data above 0."""

    generator: nn.Module
    discriminator: nn.Module

    def forward(self, z_BZ: Tensor, turn: str = "", real: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """G(z); in the generator's turn the logit of D(G(z)), in the discriminator's those of D(x) and D(G(z))."""
        if not turn:
            return self.generator(z_BZ)
        if turn == "generator":
            return self.discriminator(self.generator(z_BZ))
        with torch.no_grad():  # only D learns here
            fake = self.generator(z_BZ)
        # Two passes, not one over both: batch normalisation must not let D compare data with samples.
        return self.discriminator(real), self.discriminator(fake)
