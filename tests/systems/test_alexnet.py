"""AlexNet: published counts, and small ones against a functional version written by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import canon
from canon.errors import CanonError
from canon.nn import count_parameters, summarize


def on_meta(name: str, **changes: object) -> nn.Module:
    with torch.device("meta"):
        return canon.create(name, **changes)


def test_published_parameters() -> None:
    """torchvision's variant, the paper's widths in one tower, and its two towers (60 million in its abstract)."""
    assert count_parameters(on_meta("alexnet")) == 61_100_840
    assert count_parameters(on_meta("alexnet:paper")) == 62_378_344
    assert count_parameters(on_meta("alexnet:paper", groups=2)) == 60_965_224


def test_published_multiply_adds() -> None:
    """0.714 · 10⁹ in torchvision's table, at 224×224; maps of 55, 27, 13 pixels in the paper's figure 2."""
    summary = summarize(on_meta("alexnet:paper"), torch.zeros(1, 3, 224, 224))
    sides = [row.output_shape[2] for row in summary.rows if row.kind == "Conv2d" and row.output_shape]
    assert sides == [55, 27, 13, 13, 13]
    cost = summarize(on_meta("alexnet"), torch.zeros(1, 3, 224, 224)).multiply_adds
    assert cost == pytest.approx(0.714e9, rel=1e-3)


def response_norm(a: Tensor) -> Tensor:
    """b_i = a_i / (2 + 10⁻⁴ Σ_j a_j²)^0.75, j from i − 2 to i + 2: section 3.3, term by term."""
    b = torch.empty_like(a)
    for i in range(a.shape[1]):
        near = a[:, max(0, i - 2) : i + 3].square().sum(1)
        b[:, i] = a[:, i] / (2 + 1e-4 * near) ** 0.75
    return b


def by_hand(weights: list[Tensor], images: Tensor, groups: int, norm: bool, small: bool) -> Tensor:
    left = iter(weights)
    x = images
    strides, paddings = (1 if small else 4, 1, 1, 1, 1), (1 if small else 2, 2, 1, 1, 1)
    for layer, (stride, padding) in enumerate(zip(strides, paddings, strict=True)):
        towers = groups if layer in (1, 3, 4) else 1
        weight, bias = next(left), next(left)
        parts = zip(x.chunk(towers, 1), weight.chunk(towers), bias.chunk(towers), strict=True)
        x = torch.cat([F.conv2d(part, w, b, stride=stride, padding=padding) for part, w, b in parts], 1).clamp(min=0)
        if layer in (0, 1) and norm:
            x = response_norm(x)
        if layer in (0, 1, 4) and min(x.shape[2:]) >= 3:
            x = F.max_pool2d(x, 3, 2)
    x = F.adaptive_avg_pool2d(x, tuple(min(6, side) for side in x.shape[2:])).flatten(1)
    for last in (False, False, True):
        x = x @ next(left).T + next(left)
        x = x if last else x.clamp(min=0)
    return x


@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 28, 28], [3, 32, 40], [3, 64, 100]], ids=str)
@pytest.mark.parametrize(("groups", "norm"), [(1, False), (2, True)])
def test_outputs_and_gradients_by_hand(shape: list[int], groups: int, norm: bool) -> None:
    torch.manual_seed(0)
    changes = {"widths": [4, 6, 8, 6, 4], "hidden": 5, "groups": groups, "response_norm": norm}
    network = canon.create("alexnet", shape=shape, num_classes=3, dropout=0.0, **changes).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    images = 3 * torch.randn(3, *shape, dtype=torch.float64)
    small = min(shape[1:]) < 64
    ours, theirs = network(images), by_hand(list(network.parameters()), images, groups, norm, small)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    target = torch.tensor([0, 2, 1])
    actual = torch.autograd.grad(F.cross_entropy(ours, target), list(network.parameters()))
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), list(network.parameters()))
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-12)


def test_too_small_an_image_is_one_sentence() -> None:
    with pytest.raises(CanonError, match=r"too small for system\.stem"):
        canon.create("alexnet:tiny", stem="imagenet", shape=[1, 6, 6])
    with pytest.raises(CanonError, match="even numbers of channels"):
        canon.create("alexnet:tiny", groups=2, widths=[4, 5, 4, 4, 4])
