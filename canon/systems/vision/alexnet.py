"""AlexNet: five convolutions with overlapping max pooling, three dense layers, ReLU and dropout.

Krizhevsky, Sutskever and Hinton 2012, ImageNet classification with deep convolutional neural networks: section 3.5 is
the order of layers, 3.3 the response normalisation, 3.4 the pooling of 3×3 windows at every other place, 4.2 the
dropout. Preset paper has its widths as one tower
(62.4 M parameters); base is torchvision's narrower variant after Krizhevsky 2014 (arXiv:1404.5997), whose weights load
as they are.
Deviations: one tower on one GPU unless groups = 2; He's initialisation; stem = "auto" gives images with a side under
64 pixels a 3×3 first convolution, maps under 3 pixels are not pooled and the first dense layer shrinks with the maps.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.blocks import Stem, has_small_stem, pool_where_it_fits
from canon.nn.initialization import initialize
from canon.systems.settings import ImageConfig, Positive, Share

_SIDE = 6  # of the maps that the dense layers see, at 224 pixels and above


@settings
class Config(ImageConfig):
    widths: tuple[Positive, Positive, Positive, Positive, Positive] = Field(
        default=(64, 192, 384, 256, 256), description="channels of the five convolutions"
    )
    hidden: Positive = Field(default=4096, description="units of the two dense layers before the last")
    dropout: Share = Field(default=0.5, description="in front of each of these")
    groups: Literal[1, 2] = Field(default=1, description="2: convolutions 2, 4 and 5 in two towers, as on two GPUs")
    response_norm: bool = Field(default=False, description="local response normalisation after convolutions 1 and 2")
    stem: Stem = Field(
        default="auto", description="imagenet (11×11, stride 4), cifar (3×3, stride 1), or auto: cifar under 64 pixels"
    )


class AlexNet(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        small = has_small_stem(config.stem, config.shape)
        size, stride, padding = (3, 1, 1) if small else (11, 4, 2)
        w1, w2, w3, w4, w5 = config.widths
        groups = config.groups
        if any(width % groups for width in config.widths):
            raise CanonError("system.groups = 2 needs even numbers of channels in system.widths.")
        sides = [(side + 2 * padding - size) // stride + 1 for side in config.shape[1:]]
        if min(sides) < 1:
            raise CanonError(f"An image of {list(config.shape)} is too small for system.stem = {config.stem!r}.")
        self.features = nn.Sequential(
            nn.Conv2d(config.shape[0], w1, size, stride, padding),
            nn.ReLU(inplace=True),
            *_response_norm(config.response_norm),
            pool_where_it_fits(sides, 3),
            nn.Conv2d(w1, w2, 5, padding=2, groups=groups),
            nn.ReLU(inplace=True),
            *_response_norm(config.response_norm),
            pool_where_it_fits(sides, 3),
            nn.Conv2d(w2, w3, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(w3, w4, 3, padding=1, groups=groups),
            nn.ReLU(inplace=True),
            nn.Conv2d(w4, w5, 3, padding=1, groups=groups),
            nn.ReLU(inplace=True),
            pool_where_it_fits(sides, 3),
        )
        kept = [min(side, _SIDE) for side in sides]
        self.avgpool = nn.AdaptiveAvgPool2d((kept[0], kept[1]))
        self.classifier = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(w5 * kept[0] * kept[1], config.hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(config.dropout),
            nn.Linear(config.hidden, config.hidden),
            nn.ReLU(inplace=True),
            output := nn.Linear(config.hidden, config.num_classes),
        )
        initialize(self, "he-normal")
        nn.init.normal_(output.weight, std=0.01)  # all classes nearly equally likely at the start

    def forward(self, input_BCHW: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(input_BCHW)).flatten(1))


def _response_norm(wanted: bool) -> list[nn.Module]:
    """b = a / (k + α Σ a²)^β over n = 5 neighbours, k = 2, α = 1e-4, β = 0.75; torch divides its α by n."""
    return [nn.LocalResponseNorm(5, alpha=5 * 1e-4, beta=0.75, k=2.0)] if wanted else []
