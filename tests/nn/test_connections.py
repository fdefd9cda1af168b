"""Residual and dense connections against their equations."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from canon.errors import CanonError
from canon.nn.connections import DenseConnection, Residual


def test_residual_adds_the_identity_or_the_shortcut() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 5)
    body, wider, shortcut = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
    torch.testing.assert_close(Residual(body)(x), body(x) + x)
    torch.testing.assert_close(Residual(wider, shortcut)(x), wider(x) + shortcut(x))


def test_residual_gradient_has_the_identitys_one() -> None:
    body = nn.Linear(4, 4)
    nn.init.zeros_(body.weight)
    x = torch.randn(3, 4, requires_grad=True)
    Residual(body)(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 4))


def test_residual_refuses_to_broadcast() -> None:
    with pytest.raises(CanonError, match=r"equal shapes, got \(2, 1\)"):
        Residual(nn.Linear(4, 1))(torch.randn(2, 4))


def test_dense_connections_grow_by_the_growth_rate() -> None:
    """Three layers of growth 2 on 3 channels; x and each earlier layer are still there, unchanged."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 5)
    layers = [DenseConnection(nn.Conv2d(3 + 2 * n, 2, 1)) for n in range(3)]
    y = nn.Sequential(*layers)(x)
    first = layers[0].body(x)
    assert y.shape == (2, 9, 5, 5)
    assert torch.equal(y[:, :3], x) and torch.equal(y[:, 3:5], first)


def test_a_one_by_one_convolution_is_a_linear_layer_at_every_place() -> None:
    torch.manual_seed(0)
    x, conv = torch.randn(2, 3, 4, 5), nn.Conv2d(3, 6, 1)
    linear = torch.einsum("oi,bihw->bohw", conv.weight[:, :, 0, 0], x) + conv.bias[:, None, None]
    torch.testing.assert_close(conv(x), linear)
