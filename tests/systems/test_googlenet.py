"""GoogLeNet: published counts, a module against plain layers, and the losses of the classifiers on the side."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import canon
from canon.data.encodings.pixels import PixelSchema
from canon.data.targets import Class
from canon.nn import count_parameters, summarize
from canon.registry import find
from canon.systems.vision.googlenet import Inception
from canon.tasks import table as tasks
from canon.tasks.base import Turn


def on_meta(name: str, **changes: object) -> nn.Module:
    with torch.device("meta"):
        return canon.create(name, **changes)


def test_published_parameters() -> None:
    """torchvision's 6,624,904, and 13,004,888 with the classifiers on the side."""
    assert count_parameters(on_meta("googlenet")) == 6_624_904
    assert count_parameters(on_meta("googlenet:aux")) == 13_004_888


def test_the_papers_table() -> None:
    """Table 1's column params, in units of 1,024: 159, 380 and 437 for modules 3a, 3b and 4b, with 5×5."""
    network = on_meta("googlenet", large=5)
    for name, wanted in {"3a": 159, "3b": 380, "4b": 437}.items():
        weights = [m.weight for m in network.get_submodule(f"inception{name}").modules() if isinstance(m, nn.Conv2d)]
        assert sum(weight.numel() for weight in weights) / 1024 == pytest.approx(wanted, abs=1.1), name


def test_published_multiply_adds() -> None:
    """1.498 · 10⁹ in torchvision's table, at 224×224."""
    cost = summarize(on_meta("googlenet"), torch.zeros(1, 3, 224, 224)).multiply_adds
    assert cost == pytest.approx(1.498e9, rel=1e-3)


@pytest.mark.parametrize("large", [3, 5])
def test_module_by_hand(large: int) -> None:
    torch.manual_seed(0)
    module = Inception(6, [2, 3, 4, 2, 5, 3], large).double()
    x = torch.randn(3, 6, 7, 9, dtype=torch.float64)

    def unit(layer: nn.Module, x: torch.Tensor, padding: int = 0) -> torch.Tensor:
        x = F.conv2d(x, layer.conv.weight, padding=padding)
        mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
        return ((x - mean) / (var + 1e-3).sqrt()).clamp(min=0)

    wanted = [
        unit(module.branch1, x),
        unit(module.branch2[1], unit(module.branch2[0], x), 1),
        unit(module.branch3[1], unit(module.branch3[0], x), large // 2),
        unit(module.branch4[1], F.max_pool2d(x, 3, 1, 1)),
    ]
    actual = module(x)
    assert actual.shape == (3, 2 + 4 + 5 + 3, 7, 9)
    torch.testing.assert_close(actual, torch.cat(wanted, 1), rtol=1e-9, atol=1e-12)


def test_losses_on_the_side_are_added() -> None:
    """In training loss + 0.3 (loss₁ + loss₂), section 5; in evaluation only the logits."""
    torch.manual_seed(0)
    system, _ = find("googlenet")
    config = system.configure("tiny", {"aux": True})
    network = system.load()[1](config)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    schema = PixelSchema(Class(tuple("0123456789")), (1, 8, 8))
    task = tasks.create(system, config, schema)
    batch = {"input": torch.randn(8, 1, 8, 8), "target": torch.arange(8)}
    result = task.loss(network, batch, "all", Turn())
    logits, late, early = network(batch["input"])
    parts = [F.cross_entropy(part, batch["target"], reduction="sum") for part in (logits, late, early)]
    torch.testing.assert_close(result, parts[0] + 0.3 * (parts[1] + parts[2]))
    result.backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert network.eval()(batch["input"]).shape == (8, 10)


@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 28, 28], [3, 32, 32], [3, 64, 96], [3, 224, 224]], ids=str)
def test_any_size(shape: list[int]) -> None:
    network = on_meta("googlenet", shape=shape, num_classes=5)
    assert network(torch.zeros(2, *shape, device="meta")).shape == (2, 5)
    small = shape[1] < 64
    rows = {row.name: row for row in summarize(network, torch.zeros(2, *shape)).rows}
    assert rows["inception3a.branch1.conv"].output_shape[2] == (shape[1] if small else shape[1] // 8)
