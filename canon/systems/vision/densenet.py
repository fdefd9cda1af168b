"""DenseNet: every layer of a block reads the outputs of all layers before it.

Huang, Liu, van der Maaten and Weinberger 2017, Densely connected convolutional networks (arXiv:1608.06993).
Equation 2, x_l = H_l([x_0, …, x_(l−1)]), is `DenseLayer`; DenseNet-B's bottleneck is its 1×1 convolution; -C's
compression θ is `Transition`; table 1 (ImageNet) and section 4.1 (CIFAR) are the presets.
Names of parameters are torchvision's: its weights load as they are into 121, 169 and 201.
Deviations: stem = "auto" gives images with a side under 64 pixels the CIFAR stem (one 3×3 convolution); maps of one
pixel are not pooled.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.blocks import Stem, has_small_stem, pool_where_it_fits
from canon.nn.convolution import PointwiseConv2d, StemConv2d
from canon.nn.initialization import initialize
from canon.nn.normalization import BatchNorm2d
from canon.nn.pooling import global_mean
from canon.systems.settings import Depth, ImageConfig, Natural, Positive, Share


@settings
class Config(ImageConfig):
    growth: Positive = Field(default=32, description="k, channels that every layer adds")
    blocks: Annotated[tuple[Depth, ...], Field(min_length=1, max_length=20)] = Field(
        default=(6, 12, 24, 16), description="layers in each dense block"
    )
    width: Positive = Field(default=64, description="channels of the first convolution")
    bottleneck: Natural = Field(
        default=4, description="DenseNet-B: channels of the 1×1 convolution, in units of k; 0: none"
    )
    compression: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.5, description="θ, share of the channels that a transition keeps; below 1 is DenseNet-C"
    )
    dropout: Share = Field(default=0.0, description="after every layer; the paper's 0.2")
    stem: Stem = Field(
        default="auto",
        description="imagenet (7×7, stride 2, max pool), cifar (3×3), or auto: cifar if a side is under 64 pixels",
    )


class DenseLayer(nn.Module):
    """y = [x, H(x)]; H is norm, ReLU, 3×3 convolution, after norm, ReLU, 1×1 convolution with a bottleneck."""

    def __init__(self, channels: int, growth: int, bottleneck: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = BatchNorm2d(channels)
        self.dropout = dropout
        if bottleneck:
            self.conv1: nn.Conv2d = PointwiseConv2d(channels, bottleneck * growth, bias=False)
            self.norm2 = BatchNorm2d(bottleneck * growth)
            self.conv2 = nn.Conv2d(bottleneck * growth, growth, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, growth, 3, padding=1, bias=False)
        self.narrows = bool(bottleneck)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        new_BCHW = self.conv1(F.relu(self.norm1(x_BCHW)))
        if self.narrows:
            new_BCHW = self.conv2(F.relu(self.norm2(new_BCHW)))
        if self.dropout:
            new_BCHW = F.dropout(new_BCHW, self.dropout, self.training)
        return torch.cat([x_BCHW, new_BCHW], 1)


class DenseBlock(nn.Sequential):
    """`count` layers; the l-th has channels + (l − 1)·k channels at its input."""

    def __init__(self, count: int, channels: int, growth: int, bottleneck: int, dropout: float) -> None:
        layers = (DenseLayer(channels + index * growth, growth, bottleneck, dropout) for index in range(count))
        super().__init__(OrderedDict((f"denselayer{number}", layer) for number, layer in enumerate(layers, start=1)))


class Transition(nn.Sequential):
    """Norm, ReLU, 1×1 convolution to ⌊θC⌋ channels, 2×2 mean pooling."""

    def __init__(self, channels: int, out: int, sides: list[int]) -> None:
        super().__init__()
        self.norm = BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.conv = PointwiseConv2d(channels, out, bias=False)
        self.pool = pool_where_it_fits(sides, 2, "mean")


class DenseNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        channels, sides = config.width, list(config.shape[1:])
        if has_small_stem(config.stem, config.shape):
            layers["conv0"] = nn.Conv2d(config.shape[0], channels, 3, padding=1, bias=False)
        else:
            layers["conv0"] = StemConv2d(config.shape[0], channels)
            layers["norm0"] = BatchNorm2d(channels)
            layers["relu0"] = nn.ReLU()
            layers["pool0"] = nn.MaxPool2d(3, 2, padding=1)
            sides = [(side + 3) // 4 for side in sides]
        for number, count in enumerate(config.blocks, start=1):
            block = DenseBlock(count, channels, config.growth, config.bottleneck, config.dropout)
            layers[f"denseblock{number}"] = block
            channels += count * config.growth
            if number < len(config.blocks):
                kept = int(channels * config.compression)
                layers[f"transition{number}"] = Transition(channels, kept, sides)
                channels = kept
        layers["norm5"] = BatchNorm2d(channels)
        self.features = nn.Sequential(layers)
        self.classifier = nn.Linear(channels, config.num_classes)
        initialize(self, "he-normal")
        nn.init.normal_(self.classifier.weight, std=0.01)  # all classes nearly equally likely at the start

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.classifier(global_mean(F.relu(self.features(input_BCHW))))
