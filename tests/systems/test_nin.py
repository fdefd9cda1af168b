"""Network in network: the authors' sizes, and a small one against a perceptron that visits every place by a loop."""

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
    """The authors' Caffe models (that for ImageNet has 29 MB): Σ in·out·k² + out over their layers."""
    cifar = [(3, 192, 5), (192, 160, 1), (160, 96, 1), (96, 192, 5), (192, 192, 1), (192, 192, 1), (192, 192, 3)]
    cifar += [(192, 192, 1), (192, 10, 1)]
    imagenet = [(3, 96, 11), (96, 96, 1), (96, 96, 1), (96, 256, 5), (256, 256, 1), (256, 256, 1), (256, 384, 3)]
    imagenet += [(384, 384, 1), (384, 384, 1), (384, 1024, 3), (1024, 1024, 1), (1024, 1000, 1)]
    for name, layers, total in (("cifar", cifar, 966_986), ("imagenet", imagenet, 7_595_176)):
        assert sum(a * b * k * k + b for a, b, k in layers) == total
        assert count_parameters(on_meta(f"nin:{name}")) == total


def test_no_dense_layer() -> None:
    assert not any(isinstance(module, nn.Linear) for module in on_meta("nin:imagenet").modules())


def test_maps_of_the_authors_networks() -> None:
    """CIFAR-10: 32, 16, 8 pixels; ImageNet: 54, 27, 13, 6 after convolutions 1 to 4, for 224."""
    for name, shape, wanted in (("cifar", (3, 32, 32), [32, 16, 8]), ("imagenet", (3, 224, 224), [54, 27, 13, 6])):
        rows = summarize(on_meta(f"nin:{name}"), torch.zeros(1, *shape)).rows
        sides = [row.output_shape[2] for row in rows if row.kind == "Conv2d" and row.output_shape]
        assert sides[::3] == wanted


def perceptron(weights: list[Tensor], places: Tensor, last: bool) -> Tensor:
    """Three dense layers on the window around one place."""
    for index in range(0, 6, 2):
        places = places @ weights[index].flatten(1).T + weights[index + 1]
        if not (last and index == 4):
            places = places.clamp(min=0)
    return places


def test_outputs_and_gradients_by_hand() -> None:
    """CIFAR's form at 9×7 pixels, in float64."""
    torch.manual_seed(0)
    network = canon.create("nin:tiny", shape=[2, 9, 7], num_classes=3, width=0.03).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    weights = list(network.parameters())
    images = torch.randn(3, 2, 9, 7, dtype=torch.float64)
    x = images
    for block, (size, pool) in enumerate([(5, F.max_pool2d), (5, F.avg_pool2d), (3, None)]):
        own = weights[6 * block : 6 * block + 6]
        padded = F.pad(x, (size // 2,) * 4)
        out = torch.zeros(3, own[-1].shape[0], *x.shape[2:], dtype=torch.float64)
        for i in range(x.shape[2]):
            for j in range(x.shape[3]):
                out[:, :, i, j] = perceptron(own, padded[:, :, i : i + size, j : j + size].flatten(1), block == 2)
        x = pool(out, 3, 2, ceil_mode=True) if pool else out
    theirs = x.mean((2, 3))
    ours = network(images)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    target = torch.tensor([0, 2, 1])
    actual = torch.autograd.grad(F.cross_entropy(ours, target), weights)
    wanted = torch.autograd.grad(F.cross_entropy(theirs, target), weights)
    for own, other in zip(actual, wanted, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("shape", [[1, 8, 8], [1, 28, 28], [3, 32, 32], [3, 64, 64], [3, 224, 224]], ids=str)
def test_any_size(shape: list[int]) -> None:
    network = on_meta("nin", shape=shape, num_classes=5)
    assert network(torch.zeros(2, *shape, device="meta")).shape == (2, 5)
    assert network.features[0].weight.shape[2] == (5 if shape[1] < 64 else 11)


def test_too_small_an_image_is_one_sentence() -> None:
    with pytest.raises(CanonError, match="11 pixels and more"):
        canon.create("nin:imagenet", shape=[3, 8, 8])
