"""DenseNet: published counts, and a small one against a functional version written by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import canon
from canon.nn import count_parameters, summarize

# 121, 169, 201: torchvision's table of models; the others: the paper's table 2 in millions (for C10), two digits.
PARAMETERS = {"121": 7_978_856, "169": 14_149_480, "201": 20_013_928}
PAPER_MILLIONS = {"40": 1.0, "bc-100": 0.8, "bc-250": 15.3, "bc-190": 25.6}


def on_meta(name: str, **changes: object) -> nn.Module:
    with torch.device("meta"):
        return canon.create(name, **changes)


@pytest.mark.parametrize("preset", PARAMETERS)
def test_published_parameters(preset: str) -> None:
    assert count_parameters(on_meta(f"densenet:{preset}")) == PARAMETERS[preset]


@pytest.mark.parametrize("preset", PAPER_MILLIONS)
def test_the_papers_cifar_sizes(preset: str) -> None:
    assert count_parameters(on_meta(f"densenet:{preset}")) / 1e6 == pytest.approx(PAPER_MILLIONS[preset], abs=0.05)


@pytest.mark.parametrize("preset", ["40", "bc-40", "bc-100", "bc-190", "bc-250"])
def test_depth_is_the_number_of_layers(preset: str) -> None:
    layers = [m for m in on_meta(f"densenet:{preset}").modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == int(preset.removeprefix("bc-"))


def test_published_multiply_adds() -> None:
    """2.83 · 10⁹ in torchvision's table for DenseNet-121 at 224×224."""
    cost = summarize(on_meta("densenet:121"), torch.zeros(1, 3, 224, 224)).multiply_adds
    assert cost == pytest.approx(2.834e9, rel=1e-3)


def norm(state: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """relu((x − μ)/√(σ² + ε)·γ + β) with the batch's own statistics."""
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
    x = (x - mean) / (var + 1e-5).sqrt()
    return (x * state[f"{name}.weight"][:, None, None] + state[f"{name}.bias"][:, None, None]).clamp(min=0)


def by_hand(state: dict[str, Tensor], images: Tensor, blocks: list[int], bottleneck: int, stem: str) -> Tensor:
    """Equation 2 literally: the list of all outputs so far, joined again for every layer."""
    weight = state["features.conv0.weight"]
    if stem == "cifar":
        x = F.conv2d(images, weight, padding=1)
    else:
        x = F.max_pool2d(norm(state, "features.norm0", F.conv2d(images, weight, stride=2, padding=3)), 3, 2, 1)
    for number, count in enumerate(blocks, start=1):
        outputs = [x]
        for index in range(1, count + 1):
            name = f"features.denseblock{number}.denselayer{index}"
            new = norm(state, f"{name}.norm1", torch.cat(outputs, 1))
            new = F.conv2d(new, state[f"{name}.conv1.weight"], padding=0 if bottleneck else 1)
            if bottleneck:
                new = F.conv2d(norm(state, f"{name}.norm2", new), state[f"{name}.conv2.weight"], padding=1)
            outputs.append(new)
        x = torch.cat(outputs, 1)
        if number < len(blocks):
            name = f"features.transition{number}"
            x = F.conv2d(norm(state, f"{name}.norm", x), state[f"{name}.conv.weight"])
            x = F.avg_pool2d(x, 2) if min(x.shape[2:]) > 1 else x
    x = norm(state, "features.norm5", x).mean((2, 3))
    return x @ state["classifier.weight"].T + state["classifier.bias"]


@pytest.mark.parametrize("bottleneck", [0, 2])
@pytest.mark.parametrize(("stem", "side"), [("cifar", 9), ("cifar", 2), ("imagenet", 33)])
def test_outputs_and_gradients_by_hand(bottleneck: int, stem: str, side: int) -> None:
    """With and without bottleneck and compression, in float64; at 2 pixels the second transition cannot pool."""
    torch.manual_seed(0)
    blocks, shape = [2, 1, 2], [2, side, side + 3]
    changes = {"growth": 3, "blocks": blocks, "width": 5, "bottleneck": bottleneck, "stem": stem, "shape": shape}
    compression = 0.6 if bottleneck else 1.0
    network = canon.create("densenet", **changes, compression=compression, num_classes=3).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    images = torch.randn(4, *shape, dtype=torch.float64)
    ours, theirs = network(images), by_hand(dict(network.named_parameters()), images, blocks, bottleneck, stem)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    target = torch.tensor([0, 2, 1, 1])
    actual = torch.autograd.grad(F.cross_entropy(ours, target), list(network.parameters()))
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), list(network.parameters()))
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 28, 28], [3, 32, 32], [3, 224, 224]], ids=str)
def test_any_size(shape: list[int]) -> None:
    network = on_meta("densenet:121", shape=shape, num_classes=5)
    rows = {row.name: row for row in summarize(network, torch.zeros(2, *shape)).rows}
    assert rows["classifier"].output_shape == (2, 5)
    assert rows["features.denseblock1.denselayer1.conv1"].output_shape[2] == (shape[1] if shape[1] < 64 else 56)


def test_dropout_acts_only_in_training() -> None:
    torch.manual_seed(0)
    network = canon.create("densenet:tiny", dropout=0.5)
    images = torch.randn(4, 1, 8, 8)
    assert not torch.equal(network(images), network(images))
    network.eval()
    assert torch.equal(network(images), network(images))
