"""LeNet-5 against a functional version written out by hand, and against the paper's counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import canon
from canon.registry import find


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def by_hand(network: nn.Module, images: Tensor, phi: Callable[[Tensor], Tensor], pool: Callable[..., Tensor]) -> Tensor:
    """C1 and S2, C3 and S4, C5, F6, output, on an image padded by zeros to 32 × 32 if it is smaller."""
    conv1, bias1, conv2, bias2, *dense = network.parameters()
    height, width = images.shape[2:]
    rows, columns = (max(0, -(-(32 - side) // 2)) for side in (height, width))
    field = F.pad(images, (columns, columns, rows, rows))
    maps = pool(phi(F.conv2d(field, conv1, bias1)), 2)
    maps = pool(phi(F.conv2d(maps, conv2, bias2)), 2)
    hidden = maps.reshape(len(images), -1)
    for weight, bias in zip(dense[0:4:2], dense[1:4:2], strict=True):
        hidden = phi(hidden @ weight.T + bias)
    return hidden @ dense[4].T + dense[5]


def test_the_papers_size() -> None:
    """61,706 at 28 × 28, grey, ten classes: per layer as in section II.B, but C3 seeing all maps."""
    network = canon.create("lenet")
    assert parameters(network) == 61_706
    layers = [parameters(layer) for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    assert layers == [6 * 26, 16 * (6 * 25 + 1), 120 * (400 + 1), 84 * 121, 10 * 85]


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (1, 8, 8), (3, 32, 32), (1, 27, 31), (3, 40, 33)], ids=lambda s: "x".join(map(str, s))
)
@pytest.mark.parametrize("preset", ["base", "relu"])
def test_outputs_and_gradients_by_hand(preset: str, shape: tuple[int, int, int]) -> None:
    """The form of the paper (tanh, mean pooling) and the modern one (ReLU, max pooling), in float64."""
    torch.manual_seed(0)
    network = canon.create(f"lenet:{preset}", shape=shape, num_classes=7).double()
    with torch.no_grad():  # biases begin at zero, where a mistake in them would not show
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    images = torch.randn(4, *shape, dtype=torch.float64)
    target = torch.tensor([0, 3, 6, 2])
    forms = {
        "base": (lambda x: 1 - 2 / (1 + torch.exp(2 * x)), F.avg_pool2d),
        "relu": (lambda x: x.clamp(min=0), F.max_pool2d),
    }
    phi, pool = forms[preset]
    ours, theirs = network(images), by_hand(network, images, phi, pool)
    assert ours.shape == (4, 7)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), list(network.parameters()))
    actual = torch.autograd.grad(F.cross_entropy(ours, target), list(network.parameters()))
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 8, 8), 61_706),  # padded to the same field
        ((1, 32, 32), 61_706),
        ((3, 32, 32), 61_706 + 2 * 6 * 25),  # two more channels into C1
        ((1, 40, 40), 61_706 + 120 * 16 * (49 - 25)),  # maps of 7 × 7 into C5
    ],
)
def test_other_sizes(shape: tuple[int, int, int], count: int) -> None:
    assert parameters(canon.create("lenet", shape=shape)) == count


def test_presets_are_the_two_forms() -> None:
    kinds = {}
    for name in ("lenet", "lenet:base", "lenet:relu", "lenet:tiny"):
        network = canon.create(name)
        kinds[name] = {type(module).__name__ for module in network.features} - {"Conv2d"}
    assert kinds["lenet"] == kinds["lenet:base"] == {"Tanh", "AvgPool2d"}
    assert kinds["lenet:relu"] == kinds["lenet:tiny"] == {"ReLU", "MaxPool2d"}
    assert set(find("lenet")[0].presets) == {"tiny", "base", "relu"}


def test_the_first_weights_are_xaviers() -> None:
    """Uniform in ±√(6/(fan_in + fan_out)), biases zero."""
    torch.manual_seed(0)
    for layer in canon.create("lenet").modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            area = layer.weight[0, 0].numel()
            bound = (6 / (area * (layer.weight.shape[0] + layer.weight.shape[1]))) ** 0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound
            assert layer.bias.abs().max() == 0
