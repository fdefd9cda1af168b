"""ResNet: stages of blocks that add what they learn to their input.

He, Zhang, Ren and Sun 2016, Deep residual learning for image recognition (arXiv:1512.03385). Equations 1 and 2 are
`BasicBlock` and `Bottleneck` in canon/nn/blocks.py; table 1 (ImageNet) and section 4.2 (CIFAR) are the presets.
Names of parameters are torchvision's: its weights load as they are into 18, 34, 50, 101 and 152.
Deviations: stem = "auto" gives images with a side under 64 pixels the CIFAR stem (3×3 convolution, no pooling);
bottlenecks stride in the 3×3 convolution, as torchvision's, unless stride_at = "1x1".
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.blocks import BLOCKS, Shortcut, Stem, StrideAt, has_small_stem, residual_stage
from canon.nn.convolution import StemConv2d
from canon.nn.initialization import initialize
from canon.nn.normalization import BatchNorm2d
from canon.nn.pooling import global_mean
from canon.systems.settings import Depth, ImageConfig, Positive


@settings
class ResidualConfig(ImageConfig):
    """What a residual network and its plain twin have in common."""

    block: Literal["basic", "bottleneck"] = Field(default="basic", description="two 3×3 convolutions, or 1×1, 3×3, 1×1")
    stages: Annotated[tuple[Depth, ...], Field(min_length=1, max_length=20)] = Field(
        default=(2, 2, 2, 2), description="blocks in each stage; every stage halves the side and doubles the width"
    )
    width: Positive = Field(
        default=64, description="channels of the first stage; bottlenecks have four times as many outputs"
    )
    stem: Stem = Field(
        default="auto",
        description="imagenet (7×7, stride 2, max pool), cifar (3×3), or auto: cifar if a side is under 64 pixels",
    )
    stride_at: StrideAt = Field(
        default="3x3", description="convolution of a bottleneck that strides: 3x3 as torchvision, 1x1 as the paper"
    )


@settings
class Config(ResidualConfig):
    shortcut: Shortcut = Field(
        default="B",
        description="where shapes differ: A zero padding, B 1×1 convolution; C 1×1 everywhere; none: plain",
    )


class ResNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        small = has_small_stem(config.stem, config.shape)
        if small:
            self.conv1: nn.Conv2d = nn.Conv2d(config.shape[0], config.width, 3, padding=1, bias=False)
        else:
            self.conv1 = StemConv2d(config.shape[0], config.width)
        self.bn1 = BatchNorm2d(config.width)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        self._stages = [f"layer{number}" for number in range(1, len(config.stages) + 1)]
        channels = config.width
        for index, (name, count) in enumerate(zip(self._stages, config.stages, strict=True)):
            width, stride = config.width << index, 1 if index == 0 else 2
            stage = residual_stage(config.block, count, channels, width, stride, config.shortcut, config.stride_at)
            self.add_module(name, stage)
            channels = width * BLOCKS[config.block].expansion
        self.fc = nn.Linear(channels, config.num_classes)
        initialize(self, "he-normal")
        nn.init.normal_(self.fc.weight, std=0.01)  # all classes nearly equally likely at the start

    def features(self, input_BCHW: Tensor) -> Tensor:
        """What the last layer sees: [B, C]."""
        x_BCHW = self.maxpool(F.relu(self.bn1(self.conv1(input_BCHW))))
        for name in self._stages:
            x_BCHW = getattr(self, name)(x_BCHW)
        return global_mean(x_BCHW)

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.fc(self.features(input_BCHW))
