"""GoogLeNet: nine inception modules, each joining convolutions of several sizes along the channels.

Szegedy, Liu, Jia et al. 2015, Going deeper with convolutions (arXiv:1409.4842): figure 2(b) is `Inception`, table 1 is
`_MODULES`, section 5's classifiers on the side are `Auxiliary` (their losses, times 0.3, are added by the task).
Names of parameters are torchvision's: its weights load as they are (with aux = true, those of a network built so).
Deviations: as torchvision, batch norm after every convolution (Ioffe & Szegedy 2015) in place of response
normalisation, and 3×3 in the branch of 5×5 unless large = 5; dropout 0.2 for the paper's 0.4, He's initialisation;
stem = "auto" begins at full resolution for images with a side under 64 pixels.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.blocks import ConvNormReLU, Stem, has_small_stem, pool_where_it_fits
from canon.nn.initialization import initialize
from canon.nn.pooling import global_mean
from canon.systems.settings import ImageConfig, Share, Times

# Table 1: channels of 1×1; 3×3's reduction and 3×3; 5×5's reduction and 5×5; 1×1 after the pooling.
_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_EPS = 1e-3  # of the norms, as in torchvision's weights


@settings
class Config(ImageConfig):
    width: Times = Field(default=1.0, description="channels of every layer, times table 1's")
    modules: tuple[Literal["3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"], ...] = Field(
        default=("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"),
        description="inception modules of table 1 to have; the others are left out",
    )
    large: Literal[3, 5] = Field(default=3, description="size of the third branch: 3 as torchvision, 5 as the paper")
    dropout: Share = Field(default=0.2, description="before the last layer")
    aux: bool = Field(default=False, description="two classifiers on the side while training (section 5)")
    stem: Stem = Field(
        default="auto",
        description="imagenet (7×7 and pooling to an eighth), cifar (3×3, none), or auto: cifar under 64 pixels",
    )


class Inception(nn.Module):
    """[1×1, 3×3 after 1×1, 5×5 after 1×1, 1×1 after 3×3 max pooling], joined along the channels."""

    def __init__(self, channels: int, widths: list[int], large: int) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pooled = widths
        self.branch1 = ConvNormReLU(channels, one, 1, eps=_EPS)
        self.branch2 = nn.Sequential(
            ConvNormReLU(channels, reduce3, 1, eps=_EPS), ConvNormReLU(reduce3, three, 3, padding=1, eps=_EPS)
        )
        self.branch3 = nn.Sequential(
            ConvNormReLU(channels, reduce5, 1, eps=_EPS),
            ConvNormReLU(reduce5, five, large, padding=large // 2, eps=_EPS),
        )
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), ConvNormReLU(channels, pooled, 1, eps=_EPS))
        self.out_channels = one + three + five + pooled

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return torch.cat([self.branch1(x_BCHW), self.branch2(x_BCHW), self.branch3(x_BCHW), self.branch4(x_BCHW)], 1)


class Auxiliary(nn.Module):
    """A classifier on the side: mean pooling to 4×4, 1×1 convolution, dense, dropout, dense."""

    def __init__(self, channels: int, width: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.conv = ConvNormReLU(channels, width, 1, eps=_EPS)
        self.fc1 = nn.Linear(16 * width, hidden)
        self.fc2 = nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(0.7)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        x_BF = self.conv(F.adaptive_avg_pool2d(x_BCHW, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x_BF))))


class GoogLeNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        small = has_small_stem(config.stem, config.shape)
        size, stride = (3, 1) if small else (7, 2)
        sides = [(side - 1) // stride + 1 for side in config.shape[1:]]

        def scaled(width: int) -> int:
            return max(1, round(config.width * width))

        self.conv1 = ConvNormReLU(config.shape[0], scaled(64), size, stride, size // 2, eps=_EPS)
        self.maxpool1 = nn.Identity() if small else pool_where_it_fits(sides, 3, ceil=True)
        self.conv2 = ConvNormReLU(scaled(64), scaled(64), 1, eps=_EPS)
        self.conv3 = ConvNormReLU(scaled(64), scaled(192), 3, padding=1, eps=_EPS)
        self.maxpool2 = nn.Identity() if small else pool_where_it_fits(sides, 3, ceil=True)
        channels = scaled(192)

        def inception(name: str) -> nn.Module:
            nonlocal channels
            if name not in config.modules:
                return nn.Identity()
            module = Inception(channels, [scaled(width) for width in _MODULES[name]], config.large)
            channels = module.out_channels
            return module

        self.inception3a = inception("3a")
        self.inception3b = inception("3b")
        self.maxpool3 = pool_where_it_fits(sides, 3, ceil=True)
        self.inception4a = inception("4a")
        early = channels
        self.inception4b = inception("4b")
        self.inception4c = inception("4c")
        self.inception4d = inception("4d")
        late = channels
        self.inception4e = inception("4e")
        self.maxpool4 = pool_where_it_fits(sides, 2, ceil=True)
        self.inception5a = inception("5a")
        self.inception5b = inception("5b")

        sizes = scaled(128), scaled(1024), config.num_classes
        self.aux1 = Auxiliary(early, *sizes) if config.aux else None
        self.aux2 = Auxiliary(late, *sizes) if config.aux else None
        self.dropout = nn.Dropout(config.dropout)
        self.fc = nn.Linear(channels, config.num_classes)
        initialize(self, "he-normal")
        nn.init.normal_(self.fc.weight, std=0.01)  # all classes nearly equally likely at the start

    def forward(self, input_BCHW: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Logits; in training with aux also those of the two classifiers on the side, which the task adds in."""
        x_BCHW = self.maxpool1(self.conv1(input_BCHW))
        x_BCHW = self.maxpool2(self.conv3(self.conv2(x_BCHW)))
        x_BCHW = self.maxpool3(self.inception3b(self.inception3a(x_BCHW)))
        early_BCHW = self.inception4a(x_BCHW)
        late_BCHW = self.inception4d(self.inception4c(self.inception4b(early_BCHW)))
        x_BCHW = self.maxpool4(self.inception4e(late_BCHW))
        x_BCHW = self.inception5b(self.inception5a(x_BCHW))
        logits_BC = self.fc(self.dropout(global_mean(x_BCHW)))
        if self.training and self.aux1 is not None and self.aux2 is not None:
            return logits_BC, self.aux2(late_BCHW), self.aux1(early_BCHW)
        return logits_BC
