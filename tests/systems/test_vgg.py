"""VGG: published counts, and small ones against a functional version written by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import canon
from canon.nn import count_parameters, summarize

# torchvision's table of models; the paper's table 2 says 133, 133, 138 and 144 million for A, B, D and E.
PARAMETERS = {
    "11": 132_863_336,
    "13": 133_047_848,
    "16": 138_357_544,
    "19": 143_667_240,
    "11bn": 132_868_840,
    "13bn": 133_053_736,
    "16bn": 138_365_992,
    "19bn": 143_678_248,
}
GIGA = {"11": 7.609, "13": 11.308, "16": 15.470, "19": 19.632}


def on_meta(name: str, **changes: object) -> nn.Module:
    with torch.device("meta"):
        return canon.create(name, **changes)


@pytest.mark.parametrize("preset", PARAMETERS)
def test_published_parameters(preset: str) -> None:
    network = on_meta(f"vgg:{preset}")
    assert count_parameters(network) == PARAMETERS[preset]
    weighted = [module for module in network.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert len(weighted) == int(preset.removesuffix("bn"))


@pytest.mark.parametrize("preset", GIGA)
def test_published_multiply_adds(preset: str) -> None:
    """torchvision's table, at 224×224."""
    cost = summarize(on_meta(f"vgg:{preset}"), torch.zeros(1, 3, 224, 224)).multiply_adds
    assert cost / 1e9 == pytest.approx(GIGA[preset], abs=6e-4)


def by_hand(weights: list[Tensor], images: Tensor, blocks: list[int]) -> Tensor:
    """Blocks of convolutions with padding, ReLU and pooling while there is something to pool; three dense layers."""
    left = iter(weights)
    x = images
    for count in blocks:
        for _ in range(count):
            x = F.conv2d(x, next(left), next(left), padding=1).clamp(min=0)
        x = F.max_pool2d(x, 2) if min(x.shape[2:]) > 1 else x
    x = F.adaptive_avg_pool2d(x, tuple(min(7, side) for side in x.shape[2:])).flatten(1)
    for last in (False, False, True):
        x = x @ next(left).T + next(left)
        x = x if last else x.clamp(min=0)
    return x


@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 28, 28], [2, 5, 9], [3, 72, 64]], ids=str)
def test_outputs_and_gradients_by_hand(shape: list[int]) -> None:
    torch.manual_seed(0)
    blocks = [1, 2, 1]
    network = canon.create("vgg:tiny", shape=shape, blocks=blocks, width=4, hidden=6, num_classes=3).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    images = torch.randn(3, *shape, dtype=torch.float64)
    ours, theirs = network(images), by_hand(list(network.parameters()), images, blocks)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    target = torch.tensor([0, 2, 1])
    actual = torch.autograd.grad(F.cross_entropy(ours, target), list(network.parameters()))
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), list(network.parameters()))
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "inputs"), [([1, 8, 8], 512), ([1, 28, 28], 512), ([3, 32, 32], 512), ([3, 448, 224], 25088)], ids=str
)
def test_first_dense_layer_follows_the_image(shape: list[int], inputs: int) -> None:
    network = on_meta("vgg:16", shape=shape)
    assert network.classifier[0].weight.shape == (4096, inputs)
    assert network(torch.zeros(2, *shape, device="meta")).shape == (2, 1000)
