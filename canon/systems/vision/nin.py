"""Network in network: each convolution is followed by two of size 1×1, and the class scores are means of the last maps.

Lin, Chen and Yan 2014, Network in network (arXiv:1312.4400): section 3.1, equation 2 is `mlpconv`, section 3.2 the
global mean pooling. The form cifar is the authors' network for CIFAR-10, imagenet the one for ImageNet which they
published with Caffe.
Deviations: no ReLU on the class maps, where it can switch a class off for ever; He's initialisation; form = "auto" is
cifar for images with a side under 64 pixels; maps under 3 pixels are not pooled.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.blocks import Stem, has_small_stem, pool_where_it_fits
from canon.nn.initialization import initialize
from canon.nn.pooling import global_mean
from canon.systems.settings import ImageConfig, Share, Times


class NiNBlock(NamedTuple):
    widths: tuple[int, int, int]  # of its three layers; the last of all is the number of classes instead
    size: int
    stride: int = 1
    padding: int = 0
    pooling: Literal["", "max", "mean"] = ""  # 3×3 with stride 2
    dropout: bool = False  # after it


_FORMS = {
    "imagenet": (
        NiNBlock((96, 96, 96), 11, stride=4, pooling="max"),
        NiNBlock((256, 256, 256), 5, padding=2, pooling="max"),
        NiNBlock((384, 384, 384), 3, padding=1, pooling="max", dropout=True),
        NiNBlock((1024, 1024, 0), 3, padding=1),
    ),
    "cifar": (
        NiNBlock((192, 160, 96), 5, padding=2, pooling="max", dropout=True),
        NiNBlock((192, 192, 192), 5, padding=2, pooling="mean", dropout=True),
        NiNBlock((192, 192, 0), 3, padding=1),
    ),
}


@settings
class Config(ImageConfig):
    form: Stem = Field(
        default="auto",
        description="the authors' network for imagenet or cifar; auto: cifar if a side is under 64 pixels",
    )
    width: Times = Field(default=1.0, description="channels of every layer, times the paper's")
    dropout: Share = Field(default=0.5, description="between blocks")


def mlpconv(channels: int, widths: list[int], block: NiNBlock) -> list[nn.Module]:
    """f = relu(W₃ relu(W₂ relu(W₁ x))): a perceptron with two hidden layers that slides over the image."""
    first, second, third = widths
    return [
        nn.Conv2d(channels, first, block.size, block.stride, block.padding),
        nn.ReLU(inplace=True),
        nn.Conv2d(first, second, 1),
        nn.ReLU(inplace=True),
        nn.Conv2d(second, third, 1),
        nn.ReLU(inplace=True),
    ]


class NiN(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        form = "cifar" if has_small_stem(config.form, config.shape) else "imagenet"
        channels, *sides = config.shape
        layers: list[nn.Module] = []
        for block in _FORMS[form]:
            sides = [(side + 2 * block.padding - block.size) // block.stride + 1 for side in sides]
            if min(sides) < 1:
                raise CanonError(f'system.form = "imagenet" is for images of 11 pixels and more, got {config.shape}.')
            widths = [max(1, round(config.width * width)) if width else config.num_classes for width in block.widths]
            layers += mlpconv(channels, widths, block)
            channels = widths[-1]
            if block.pooling:
                layers.append(pool_where_it_fits(sides, 3, block.pooling, ceil=True))
            if block.dropout:
                layers.append(nn.Dropout(config.dropout))
        self.features = nn.Sequential(*layers[:-1])  # without the ReLU on the class maps
        initialize(self, "he-normal")

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return global_mean(self.features(input_BCHW))
