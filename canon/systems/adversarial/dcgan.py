"""DCGAN: transposed convolutions make an image from noise, strided convolutions judge it; no pooling, no hidden layers.

Radford, Metz and Chintala 2016 (arXiv:1511.06434), section 3 and figure 1: `Generator` projects z to 4 × 4 maps and
doubles them with 5 × 5 transposed convolutions of stride 2, batch norm and ReLU between, tanh at the end;
`Discriminator` mirrors it with strided convolutions, batch norm (not on its first layer) and leaky ReLU 0.2. Weights
begin at N(0, 0.02²).
Deviations: images of other sizes than 64 × 64 have fewer or more doublings, from maps of 4 to 7 places a side.
Shapes: B images, Z length of the noise, C channels, H height, W width.
"""

from __future__ import annotations

from itertools import pairwise

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.normalization import BatchNorm2d
from canon.systems.adversarial.players import Game, Players
from canon.systems.settings import Positive, Shape

_STD = 0.02  # of the first weights
_KERNEL = 5
_SMALLEST, _LARGEST = 4, 7  # side of the maps that z is projected to


@settings
class Config(Game):
    shape: Shape = Field(default=(3, 64, 64), description="channels, height, width; the data decides")
    width: Positive = Field(default=128, description="maps next to the image; each halving of its side doubles them")


class DCGAN(Players):
    def __init__(self, config: Config) -> None:
        super().__init__()
        channels, height, width = config.shape
        doublings = count_doublings(height, width)
        small = (height >> doublings, width >> doublings)
        maps = [config.width << i for i in range(doublings)]  # 128, 256, 512, 1024 for 64 × 64
        self.generator = Generator(config.latent, small, [*maps[::-1], channels])
        self.discriminator = Discriminator([channels, *maps], small)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
                nn.init.normal_(layer.weight, std=_STD)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def count_doublings(height: int, width: int) -> int:
    """How often both sides can be halved until 4 to 7 places are left."""
    for doublings in range(1, 10):
        sides = [side >> doublings for side in (height, width) if side % (1 << doublings) == 0]
        if len(sides) == 2 and all(_SMALLEST <= side <= _LARGEST for side in sides):
            return doublings
    raise CanonError(
        f"dcgan doubles maps of {_SMALLEST} to {_LARGEST} places a side, so it makes images with sides of 8, 10, 12, "
        f"14, 16, 20, 24, 28, 32, 40, 48, 56, 64 … pixels, not {height} x {width}; resize a folder of images with "
        "data.size, as in data.size=[32, 32]."
    )


class Generator(nn.Module):
    def __init__(self, latent: int, small: tuple[int, int], maps: list[int]) -> None:
        super().__init__()
        # A bias before batch norm would be taken away again.
        self.project = nn.Linear(latent, maps[0] * small[0] * small[1], bias=False)
        self.layers = nn.Sequential(nn.Unflatten(1, (maps[0], *small)), BatchNorm2d(maps[0]), nn.ReLU())
        last = len(maps) - 2
        for i, (inputs, outputs) in enumerate(pairwise(maps)):
            doubled = nn.ConvTranspose2d(
                inputs, outputs, _KERNEL, stride=2, padding=_KERNEL // 2, output_padding=1, bias=i == last
            )
            self.layers.append(doubled)
            self.layers.extend([nn.Tanh()] if i == last else [BatchNorm2d(outputs), nn.ReLU()])

    def forward(self, z_BZ: Tensor) -> Tensor:
        return self.layers(self.project(z_BZ))


class Discriminator(nn.Module):
    def __init__(self, maps: list[int], small: tuple[int, int]) -> None:
        super().__init__()
        self.layers = nn.Sequential()
        for i, (inputs, outputs) in enumerate(pairwise(maps)):
            self.layers.append(nn.Conv2d(inputs, outputs, _KERNEL, stride=2, padding=_KERNEL // 2, bias=i == 0))
            self.layers.extend([nn.LeakyReLU(0.2)] if i == 0 else [BatchNorm2d(outputs), nn.LeakyReLU(0.2)])
        self.judge = nn.Linear(maps[-1] * small[0] * small[1], 1)

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.judge(self.layers(input_BCHW).flatten(1)).squeeze(1)
