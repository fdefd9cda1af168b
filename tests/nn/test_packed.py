"""Packed dense layers against torch's own, and when they stand aside."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from canon.nn import packed
from canon.nn.packed import Linear, Packed, is_packed

pytestmark = pytest.mark.skipif(not packed._AVAILABLE, reason="this torch has no oneDNN")


@pytest.mark.parametrize("rows", [(1,), (4,), (33,), (2, 5), ()])
@pytest.mark.parametrize("bias", [True, False])
def test_the_same_product(rows: tuple[int, ...], bias: bool) -> None:
    layer, x = Linear(512, 1024, bias), torch.randn(*rows, 512)
    with torch.no_grad():
        assert is_packed(x, layer.weight)
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-4, atol=1e-5)


def test_changed_weights_are_packed_again() -> None:
    layer, x = Linear(512, 512), torch.randn(3, 512)

    def check() -> None:
        with torch.no_grad():
            torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-4, atol=1e-4)

    check()
    kept = layer.packed._copy
    check()
    assert kept is not None and layer.packed._copy is kept, "packed once"
    with torch.no_grad():
        layer.weight.mul_(2)
    check()
    layer.load_state_dict({"weight": torch.eye(512), "bias": torch.ones(512)})
    check()
    layer.weight.data = torch.randn(512, 512)
    check()
    for way in ("foreach", "fused"):  # torch counts no writes of the latter
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, **{way: True})  # type: ignore[arg-type]
        layer(x).square().sum().backward()
        optimizer.step()
        check()
    with torch.no_grad():
        other = copy.deepcopy(layer)
        assert other.packed._copy is None and other(x).equal(layer(x))


def test_elsewhere_it_is_a_plain_layer() -> None:
    torch.manual_seed(0)
    layer = Linear(512, 512)
    torch.manual_seed(0)
    plain = torch.nn.Linear(512, 512)
    x = torch.randn(3, 512)
    assert layer(x).equal(plain(x)) and layer(x).requires_grad, "with gradients"
    assert layer.state_dict().keys() == plain.state_dict().keys()
    with torch.no_grad():
        assert not is_packed(x[:, :16], Linear(16, 16).weight) and not is_packed(x.double(), layer.weight)
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        assert Packed()(x[:, :16], torch.eye(16)).equal(x[:, :16])
    with torch.inference_mode():
        assert not is_packed(x, Linear(512, 512).weight) and is_packed(x, layer.weight)
        torch.testing.assert_close(layer(x), plain(x), rtol=1e-4, atol=1e-5)
