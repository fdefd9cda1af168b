"""Convolutions written as the products that tensor cores do best; same parameters, names and sums as nn.Conv2d.

The other forms are used only in compiled CUDA code, where the reshapes around them cost nothing (one H200, ResNet-50,
bf16, channels-last, one run of each in a row: about +5 % for the stem, +2 % for the 1×1 convolutions). Everywhere
else these are nn.Conv2d itself.
Shapes: B images, C channels, H height, W width, O outputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PointwiseConv2d(nn.Conv2d):
    """A 1×1 convolution without padding: a dense layer at every pixel, so a matrix product of pixels and channels."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1, bias: bool = True) -> None:
        super().__init__(in_channels, out_channels, 1, stride=stride, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        if not _compiled_for_cuda(input):
            return super().forward(input)
        return self.as_product(input)

    def as_product(self, x_BCHW: Tensor) -> Tensor:
        if self.stride[0] > 1:
            x_BCHW = x_BCHW[:, :, :: self.stride[0], :: self.stride[1]]
        B, C, H, W = x_BCHW.shape
        out = F.linear(x_BCHW.permute(0, 2, 3, 1).reshape(-1, C), self.weight.flatten(1), self.bias)
        return out.view(B, H, W, -1).permute(0, 3, 1, 2)


class StemConv2d(nn.Conv2d):
    """The 7×7 stride-2 convolution of an image: too few channels for tensor cores, so 2×2 pixels become channels.

    With one zero row and column in front the kernel is 8×8, and steps of two pixels are steps of one 2×2 block: a 4×4
    convolution of 4·C channels (filled up to a multiple of eight with zeros) has the same sums.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 7, stride=2, padding=3, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        if not _compiled_for_cuda(input) or input.shape[2] % 2 or input.shape[3] % 2:
            return super().forward(input)
        return self.as_blocks(input)

    def as_blocks(self, x_BCHW: Tensor) -> Tensor:
        C = x_BCHW.shape[1]
        spare = -4 * C % 8
        blocks = _blocks(F.pad(x_BCHW, (4, 2, 4, 2)))
        blocks = F.pad(blocks, (0, 0, 0, 0, 0, spare)).contiguous(memory_format=torch.channels_last)
        kernel = F.pad(_blocks(F.pad(self.weight, (1, 0, 1, 0))), (0, 0, 0, 0, 0, spare))
        return F.conv2d(blocks, kernel)


def _blocks(x_BCHW: Tensor) -> Tensor:
    """[B, C, H, W] to [B, 4C, H/2, W/2]: every 2×2 pixels side by side as channels."""
    B, C, H, W = x_BCHW.shape
    return x_BCHW.view(B, C, H // 2, 2, W // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(B, 4 * C, H // 2, W // 2)


def _compiled_for_cuda(x: Tensor) -> bool:
    return x.is_cuda and torch.compiler.is_compiling()
