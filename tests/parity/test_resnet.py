"""ResNet against torchvision's and timm's, from random weights: the same keys, logits and gradients."""

from __future__ import annotations

import pytest
import torch

from tests.parity.compare import assert_same, create
from tests.parity.torchvision_models import build, randomize, timm, torchvision_models

ALL = ("18", "34", "50", "101", "152")


@pytest.mark.parametrize("depth", ALL)
def test_torchvision(depth: str) -> None:
    theirs = build(getattr(torchvision_models(), f"resnet{depth}"))
    assert_same(create(f"resnet:{depth}"), theirs, size=64)


@pytest.mark.parametrize("depth", ["18", "50"])
def test_timm(depth: str) -> None:
    theirs = timm().create_model(f"resnet{depth}", pretrained=False, num_classes=7)
    assert_same(create(f"resnet:{depth}", num_classes=7), randomize(theirs), size=64)


@pytest.mark.parametrize("depth", ALL)
def test_export_back(depth: str) -> None:
    """torchvision takes our state dict, strictly; shapes only."""
    with torch.device("meta"):
        theirs = getattr(torchvision_models(), f"resnet{depth}")(weights=None)
    theirs.load_state_dict(create(f"resnet:{depth}").state_dict(), strict=True, assign=True)
