"""The generative adversarial network: two perceptrons, one making samples from noise, one telling them from data.

Goodfellow et al. 2014 (arXiv:1406.2661). Equation 1, min_G max_D E log D(x) + E log(1 − D(G(z))), is the loss
(canon.objectives.adversarial); algorithm 1, k turns of D and one of G, is the task (canon.tasks.generation).
Deviations: D has leaky rectifiers, not maxout with dropout; G ends in tanh for images, whose pixels are brought to
−1 … 1, and in a linear layer for tables. Shapes: B examples, Z length of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from pydantic import Field
from torch import nn

from canon.config import settings
from canon.nn.initialization import initialize
from canon.systems.adversarial.players import Game, Players
from canon.systems.settings import Shape, Units


@settings
class Config(Game):
    shape: Shape = Field(default=(1, 28, 28), description="of one example; the data decides")
    generator_hidden: Units = Field(default=(256, 256), description="units of each hidden layer of G")
    discriminator_hidden: Units = Field(default=(256, 256), description="units of each hidden layer of D")


class GAN(Players):
    def __init__(self, config: Config) -> None:
        super().__init__()
        size, is_image = math.prod(config.shape), len(config.shape) == 3
        self.generator = nn.Sequential(
            *_layers((config.latent, *config.generator_hidden, size), nn.ReLU),
            *([nn.Tanh()] if is_image else []),
            nn.Unflatten(1, config.shape),
        )
        self.discriminator = nn.Sequential(
            nn.Flatten(),
            *_layers((size, *config.discriminator_hidden, 1), lambda: nn.LeakyReLU(0.2)),
            nn.Flatten(0),
        )
        initialize(self, "he-uniform")


def _layers(sizes: tuple[int, ...], activation: Callable[[], nn.Module]) -> list[nn.Module]:
    """Linear layers of these sizes with the activation between them."""
    layers: list[nn.Module] = []
    for inputs, units in pairwise(sizes):
        layers += [nn.Linear(inputs, units), activation()]
    return layers[:-1]
