"""VGG: blocks of 3×3 convolutions that end in 2×2 max pooling, then three dense layers.

Simonyan and Zisserman 2015, Very deep convolutional networks for large-scale image recognition (arXiv:1409.1556),
table 1: columns A, B, D and E are the presets 11, 13, 16 and 19; 11bn to 19bn have batch norm after every convolution.
Names of parameters are torchvision's: its weights load as they are.
Deviations: He's initialisation in place of pre-training the shallow net; maps of one pixel are not pooled, and images
under 224 pixels make the first dense layer smaller.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.blocks import check_image, pool_where_it_fits
from canon.nn.initialization import initialize
from canon.nn.normalization import BatchNorm2d
from canon.systems.settings import Depth, ImageConfig, Positive, Share

_SIDE = 7  # of the maps that the dense layers see, at 224 pixels and above


@settings
class Config(ImageConfig):
    blocks: Annotated[tuple[Depth, ...], Field(min_length=1, max_length=20)] = Field(
        default=(1, 1, 2, 2, 2), description="convolutions in each block"
    )
    width: Positive = Field(default=64, description="channels of the first block; each next has twice, at most 8 times")
    hidden: Positive = Field(default=4096, description="units of the two dense layers before the last")
    dropout: Share = Field(default=0.5, description="after each of these")
    batch_norm: bool = Field(default=False, description="batch norm after every convolution")


def vgg_block(count: int, channels: int, out: int, batch_norm: bool, sides: list[int]) -> list[nn.Module]:
    """`count` times 3×3 convolution (norm) ReLU, then 2×2 max pooling; a list, to number all layers through."""
    layers: list[nn.Module] = []
    for index in range(count):
        layers.append(nn.Conv2d(out if index else channels, out, 3, padding=1))
        layers += [BatchNorm2d(out)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
    return [*layers, pool_where_it_fits(sides, 2)]


class VGG(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        check_image(config.shape)
        channels, *sides = config.shape
        layers: list[nn.Module] = []
        for index, count in enumerate(config.blocks):
            out = config.width * min(2**index, 8)
            layers += vgg_block(count, channels, out, config.batch_norm, sides)
            channels = out
        self.features = nn.Sequential(*layers)
        kept = [min(side, _SIDE) for side in sides]
        self.avgpool = nn.AdaptiveAvgPool2d((kept[0], kept[1]))
        self.classifier = nn.Sequential(
            nn.Linear(channels * kept[0] * kept[1], config.hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(config.dropout),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(config.dropout),
            output := nn.Linear(config.hidden, config.num_classes),
        )
        initialize(self, "he-normal")
        nn.init.normal_(output.weight, std=0.01)  # all classes nearly equally likely at the start

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(input_BCHW)).flatten(1))
