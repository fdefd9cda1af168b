"""The forms for tensor cores against nn.Conv2d, forward and backward, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from canon.nn.convolution import PointwiseConv2d, StemConv2d


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, x: torch.Tensor, layer: nn.Conv2d) -> None:
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    inputs = [x, *layer.parameters()]
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((theirs * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [6, 7])
@pytest.mark.parametrize("bias", [True, False])
def test_a_pointwise_convolution_is_a_dense_layer_per_pixel(stride: int, side: int, bias: bool) -> None:
    torch.manual_seed(0)
    layer = PointwiseConv2d(5, 7, stride, bias).double()
    x = torch.randn(2, 5, side, side + 1, dtype=torch.float64, requires_grad=True)
    assert_same(layer.as_product(x), layer(x), x, layer)
    assert {key: value.shape for key, value in layer.state_dict().items()} == {
        key: value.shape for key, value in nn.Conv2d(5, 7, 1, stride, bias=bias).state_dict().items()
    }


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_stem_as_blocks_is_the_7x7_convolution(channels: int) -> None:
    torch.manual_seed(0)
    layer = StemConv2d(channels, 6).double()
    x = torch.randn(2, channels, 20, 26, dtype=torch.float64, requires_grad=True)
    assert_same(layer.as_blocks(x), layer(x), x, layer)
