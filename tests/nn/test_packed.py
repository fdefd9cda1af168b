"""Packed dense layers against torch's own, and when they stand aside. That no write is missed: tests/hostile."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn import packed
from canon.nn.frozen import frozen, is_frozen, once
from canon.nn.packed import Linear, Packed

pytestmark = pytest.mark.skipif(not packed._AVAILABLE, reason="this torch has no oneDNN")


def is_packed(layer: Linear, x: Tensor) -> bool:
    """Whether the layer's product does not go through F.linear."""
    with mock.patch.object(F, "linear", side_effect=F.linear) as plain:
        layer(x)
    return not plain.called


@torch.no_grad()
@pytest.mark.parametrize("rows", [(1,), (4,), (33,), (2, 5), ()])
@pytest.mark.parametrize("bias", [True, False])
def test_the_same_product(rows: tuple[int, ...], bias: bool) -> None:
    layer, x = Linear(512, 1024, bias), torch.randn(*rows, 512)
    with frozen(layer):
        assert is_packed(layer, x)
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-4, atol=1e-5)
    assert not is_packed(layer, x)


def test_elsewhere_it_is_a_plain_layer() -> None:
    torch.manual_seed(0)
    layer = Linear(512, 512)
    torch.manual_seed(0)
    plain = nn.Linear(512, 512)
    x = torch.randn(3, 512)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    with frozen(layer):
        assert layer(x).equal(plain(x)) and layer(x).requires_grad, "with gradients"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), frozen(layer):
        assert layer(x).dtype == torch.bfloat16
    for other, rows in ((Linear(16, 16), x[:, :16]), (Linear(512, 512).double(), x.double())):
        with torch.no_grad(), frozen(other):
            assert not is_packed(other, rows)
    with torch.inference_mode(), frozen(layer):
        assert is_packed(layer, x)
        torch.testing.assert_close(layer(x), plain(x), rtol=1e-4, atol=1e-5)


def test_what_is_made_once() -> None:
    """Within one context, a nested one included, and for the network that is named there alone."""
    network, other = nn.Sequential(Linear(4, 4)), Linear(4, 4)
    layer = network[0]
    with frozen(network):
        first = once(Packed, layer)
        with frozen(network[0]), frozen(other):
            assert once(Packed, layer) is first and is_frozen(other)
        assert once(Packed, layer) is first and not is_frozen(other)
        assert once(Packed, other) is not once(Packed, other)
    assert not is_frozen(layer) and once(Packed, layer) is not first
    with pytest.raises(ValueError, match="inside"), frozen(network):
        raise ValueError("inside")
    assert not is_frozen(layer)
