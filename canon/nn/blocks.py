"""Parts of convolutional classifiers: residual blocks and stages, convolution with norm and ReLU, stem and pooling.

Papers: He et al. 2016 (arXiv:1512.03385), equation 1 → `BasicBlock`, figure 5 right → `Bottleneck`, table 1's rows →
`residual_stage`; Ioffe & Szegedy 2015 (1502.03167) → `ConvNormReLU`.
Names of parameters are torchvision's, so its weights load as they are.
Deviations: a bottleneck strides in its 3×3 convolution, as torchvision's do; stride_at = "1x1" is the paper's.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn.convolution import PointwiseConv2d
from canon.nn.normalization import BatchNorm2d

Stem = Literal["auto", "imagenet", "cifar"]
Shortcut = Literal["A", "B", "C", "none"]
StrideAt = Literal["3x3", "1x1"]

_SMALL = 64


def has_small_stem(stem: Stem, shape: tuple[int, ...]) -> bool:
    """Whether a network begins at full resolution: asked for, or left to canon and a side is under 64 pixels.

    A stem made for 224×224 pixels shrinks an image fourfold or more before the first block: little is left of 32×32.
    """
    check_image(shape)
    return stem == "cifar" or (stem == "auto" and min(shape[1:]) < _SMALL)


def check_image(shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or min(shape) < 1:
        raise CanonError(f"system.shape must be channels, height and width of an image, got {list(shape)}.")


def pool_where_it_fits(sides: list[int], size: int, kind: str = "max", ceil: bool = False) -> nn.Module:
    """Windows of `size` at every other place, or nothing where maps are smaller; `sides` become those after it."""
    if min(sides) < size:
        return nn.Identity()
    sides[:] = [(side - size + ceil) // 2 + 1 for side in sides]  # ceil: a last window may be cut off
    return (nn.MaxPool2d if kind == "max" else nn.AvgPool2d)(size, stride=2, ceil_mode=ceil)


class ConvNormReLU(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(
        self, channels: int, out: int, size: int, stride: int = 1, padding: int = 0, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, size, stride, padding, bias=False)
        self.bn = BatchNorm2d(out, eps=eps)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x_BCHW)))


class ZeroPadShortcut(nn.Module):
    """Shortcut A: every `stride`-th place, and zeros for the channels that the input does not have."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self.new_channels, self.stride = new_channels, stride

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return F.pad(x_BCHW[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new_channels))

    def extra_repr(self) -> str:
        return f"new_channels={self.new_channels}, stride={self.stride}"


def shortcut_for(option: Shortcut, channels: int, out: int, stride: int) -> nn.Module | None:
    """s(x) of y = F(x) + s(x) by the paper's option: A zeros, B a 1×1 convolution where shapes differ, C everywhere."""
    if option == "none":
        return None
    same = channels == out and stride == 1
    if same and option != "C":
        return nn.Identity()
    if option == "A":
        return ZeroPadShortcut(out - channels, stride)
    return nn.Sequential(PointwiseConv2d(channels, out, stride, bias=False), BatchNorm2d(out))


class BasicBlock(nn.Module):
    """y = relu(F(x) + s(x)), F two 3×3 convolutions; without the sum where `downsample`, the shortcut s, is None."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, shortcut: Shortcut, stride_at: StrideAt) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.downsample = shortcut_for(shortcut, channels, width, stride)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        out_BCHW = F.relu(self.bn1(self.conv1(x_BCHW)))
        out_BCHW = self.bn2(self.conv2(out_BCHW))
        if self.downsample is not None:
            out_BCHW = out_BCHW + self.downsample(x_BCHW)
        return F.relu(out_BCHW)


class Bottleneck(nn.Module):
    """y = relu(F(x) + s(x)), F a 1×1, a 3×3 and a 1×1 convolution, the last to four times the width."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, shortcut: Shortcut, stride_at: StrideAt) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_at == "1x1" else (1, stride)
        self.conv1 = PointwiseConv2d(channels, width, first, bias=False)
        self.bn1 = BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, padding=1, bias=False)
        self.bn2 = BatchNorm2d(width)
        self.conv3 = PointwiseConv2d(width, self.expansion * width, bias=False)
        self.bn3 = BatchNorm2d(self.expansion * width)
        self.downsample = shortcut_for(shortcut, channels, self.expansion * width, stride)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        out_BCHW = F.relu(self.bn1(self.conv1(x_BCHW)))
        out_BCHW = F.relu(self.bn2(self.conv2(out_BCHW)))
        out_BCHW = self.bn3(self.conv3(out_BCHW))
        if self.downsample is not None:
            out_BCHW = out_BCHW + self.downsample(x_BCHW)
        return F.relu(out_BCHW)


BLOCKS: dict[str, type[BasicBlock] | type[Bottleneck]] = {"basic": BasicBlock, "bottleneck": Bottleneck}


def residual_stage(
    block: str, count: int, channels: int, width: int, stride: int, shortcut: Shortcut, stride_at: StrideAt = "3x3"
) -> nn.Sequential:
    """`count` blocks of one width; only the first has a stride and other channels at its input than at its output."""
    cls = BLOCKS[block]
    first = cls(channels, width, stride, shortcut, stride_at)
    rest = [cls(cls.expansion * width, width, 1, shortcut, stride_at) for _ in range(count - 1)]
    return nn.Sequential(first, *rest)
