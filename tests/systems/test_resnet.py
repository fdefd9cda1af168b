"""ResNet and its plain twins: published counts, and small networks against functional versions written by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import canon
from canon.errors import CanonError
from canon.nn import count_parameters, summarize
from canon.registry import find

# Parameters: torchvision's table of models (ImageNet), and 0.27/0.46/0.66/0.85/1.7/19.4 M of the paper's table 6.
# Multiply-adds at 224×224 of convolutions and the dense layer; the paper's table 1 in 10⁹, with stride_at = "1x1".
PARAMETERS = {
    "18": 11_689_512,
    "34": 21_797_672,
    "50": 25_557_032,
    "101": 44_549_160,
    "152": 60_192_808,
    "20": 269_722,
    "32": 464_154,
    "44": 658_586,
    "56": 853_018,
    "110": 1_727_962,
    "1202": 19_421_274,
}
PAPER_GIGA = {"18": 1.8, "34": 3.6, "50": 3.8, "101": 7.6, "152": 11.3}


def on_meta(name: str, **changes: object) -> nn.Module:
    with torch.device("meta"):
        return canon.create(name, **changes)


@pytest.mark.parametrize("preset", PARAMETERS)
def test_published_parameters(preset: str) -> None:
    assert count_parameters(on_meta(f"resnet:{preset}")) == PARAMETERS[preset]


@pytest.mark.parametrize("preset", PAPER_GIGA)
def test_published_multiply_adds(preset: str) -> None:
    network = on_meta(f"resnet:{preset}", stride_at="1x1")
    giga = summarize(network, torch.zeros(1, 3, 224, 224)).multiply_adds / 1e9
    assert giga == pytest.approx(PAPER_GIGA[preset], abs=0.07)  # 34: 3.66, which the paper cuts to 3.6


def test_torchvisions_stride_costs_more() -> None:
    """4.089 in torchvision's table for ResNet-50, which strides in the 3×3 convolution."""
    network = on_meta("resnet:50")
    assert summarize(network, torch.zeros(1, 3, 224, 224)).multiply_adds == pytest.approx(4.089e9, rel=1e-3)


def shift_statistics(network: nn.Module) -> nn.Module:
    """Norms away from the identity, so that a mistake in them shows."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point():
                tensor.add_(0.1 * torch.randn_like(tensor))
    return network


def convolve(state: dict[str, Tensor], conv: str, norm: str, x: Tensor, stride: int, padding: int) -> Tensor:
    """Convolution, then (x − μ)/√(σ² + ε)·γ + β with the running statistics."""
    x = F.conv2d(x, state[f"{conv}.weight"], stride=stride, padding=padding)
    mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
    weight, bias = state[f"{norm}.weight"], state[f"{norm}.bias"]
    return (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt() * weight[:, None, None] + bias[:, None, None]


def by_hand(state: dict[str, Tensor], x: Tensor, stages: list[int], block: str, shortcut: str, stem: str) -> Tensor:
    size, stride = (3, 1) if stem == "cifar" else (7, 2)
    x = convolve(state, "conv1", "bn1", x, stride, size // 2).clamp(min=0)
    if stem != "cifar":
        x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(stages, start=1):
        for index in range(count):
            name, stride = f"layer{stage}.{index}", 2 if stage > 1 and index == 0 else 1
            if block == "basic":
                out = convolve(state, f"{name}.conv1", f"{name}.bn1", x, stride, 1).clamp(min=0)
                out = convolve(state, f"{name}.conv2", f"{name}.bn2", out, 1, 1)
            else:
                out = convolve(state, f"{name}.conv1", f"{name}.bn1", x, 1, 0).clamp(min=0)
                out = convolve(state, f"{name}.conv2", f"{name}.bn2", out, stride, 1).clamp(min=0)
                out = convolve(state, f"{name}.conv3", f"{name}.bn3", out, 1, 0)
            if shortcut != "none":
                skipped = x
                differs = out.shape != x.shape
                if shortcut == "C" or (shortcut == "B" and differs):
                    skipped = convolve(state, f"{name}.downsample.0", f"{name}.downsample.1", x, stride, 0)
                elif differs:
                    skipped = torch.zeros_like(out)
                    skipped[:, : x.shape[1]] = x[:, :, ::stride, ::stride]
                out = out + skipped
            x = out.clamp(min=0)
    return x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]


@pytest.mark.parametrize("shortcut", ["A", "B", "C", "none"])
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_outputs_and_gradients_by_hand(stem: str, block: str, shortcut: str) -> None:
    """Every block with every shortcut in float64, at a size that does not halve evenly."""
    torch.manual_seed(0)
    sizes = {"stages": [2, 1, 1], "width": 4, "shape": [2, 19, 22], "num_classes": 3}
    network = canon.create("resnet", **sizes, block=block, shortcut=shortcut, stem=stem).double()
    shift_statistics(network).eval()
    state = dict(network.named_parameters()) | dict(network.named_buffers())
    images = torch.randn(3, 2, 19, 22, dtype=torch.float64)
    ours, theirs = network(images), by_hand(state, images, [2, 1, 1], block, shortcut, stem)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    target = torch.tensor([0, 2, 1])
    actual = torch.autograd.grad(F.cross_entropy(ours, target), list(network.parameters()))
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), list(network.parameters()))
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-12)


def convolutions(network: nn.Module) -> list[tuple[str, torch.Size]]:
    """Those on the main path."""
    named = network.named_modules()
    return [(n, m.weight.shape) for n, m in named if isinstance(m, nn.Conv2d) and "downsample" not in n]


@pytest.mark.parametrize("preset", ["18", "34", "20", "56", "tiny"])
def test_plain_twin(preset: str) -> None:
    """The same convolutions under the same names; nothing of a shortcut."""
    plain, residual = on_meta(f"plain:{preset}"), on_meta(f"resnet:{preset}")
    assert convolutions(plain) == convolutions(residual)
    assert not any("downsample" in name for name, _ in plain.named_modules())
    # With shortcuts that have no parameters, the two cost the same.
    bare = on_meta(f"resnet:{preset}", shortcut="A")
    assert count_parameters(plain) == count_parameters(bare)
    weighted = 2 + len([name for name, _ in convolutions(plain)]) - 1
    assert preset == "tiny" or weighted == int(preset)  # the number in the name is that of layers with weights


def test_plain_outputs_by_hand() -> None:
    """The system plain, not only resnet with shortcut none; in training its gradients reach the first layer."""
    torch.manual_seed(0)
    network = shift_statistics(canon.create("plain:tiny").double()).eval()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    state = dict(network.named_parameters()) | dict(network.named_buffers())
    torch.testing.assert_close(network(images), by_hand(state, images, [1, 1, 1], "basic", "none", "cifar"))


@pytest.mark.parametrize(
    ("shape", "stem", "small"),
    [
        ([1, 8, 8], "auto", True),
        ([1, 28, 28], "auto", True),
        ([3, 32, 32], "auto", True),
        ([3, 63, 200], "auto", True),
        ([3, 64, 64], "auto", False),
        ([3, 224, 224], "auto", False),
        ([3, 32, 32], "imagenet", False),
        ([3, 224, 224], "cifar", True),
    ],
)
def test_stem_by_size(shape: list[int], stem: str, small: bool) -> None:
    """3×3 at full resolution under 64 pixels; the rest at a quarter of it."""
    network = on_meta("resnet:18", shape=shape, stem=stem, num_classes=5)
    assert network.conv1.weight.shape[2:] == ((3, 3) if small else (7, 7))
    rows = {row.name: row for row in summarize(network, torch.zeros(2, *shape)).rows}
    side = shape[1] if small else -(-shape[1] // 4)
    assert rows["layer1.0.conv1"].output_shape[2] == side
    assert rows["fc"].output_shape == (2, 5)


def test_wrong_shape_is_one_sentence() -> None:
    with pytest.raises(CanonError, match="channels, height and width"):
        canon.create("resnet:18", shape=[64])
    with pytest.raises(CanonError, match=r"system\.shortcut must be one of"):
        find("resnet")[0].configure("18", {"shortcut": "D"})


def test_begins_near_equal_classes() -> None:
    torch.manual_seed(0)
    network = canon.create("resnet:20").train()
    loss = F.cross_entropy(network(torch.randn(16, 3, 32, 32)), torch.arange(16) % 10)
    assert loss.item() == pytest.approx(2.303, abs=0.1)
