"""DenseNet against torchvision's and timm's, from random weights: the same keys, logits and gradients."""

from __future__ import annotations

import pytest
import torch

from tests.parity.compare import assert_same, create
from tests.parity.torchvision_models import build, randomize, timm, torchvision_models


@pytest.mark.parametrize("depth", ["121", "169", "201"])
def test_torchvision(depth: str) -> None:
    theirs = build(getattr(torchvision_models(), f"densenet{depth}"))
    assert_same(create(f"densenet:{depth}"), theirs, size=64)


def test_timm() -> None:
    theirs = timm().create_model("densenet121", pretrained=False, num_classes=7)
    assert_same(create("densenet:121", num_classes=7), randomize(theirs), size=64)


@pytest.mark.parametrize("depth", ["121", "169", "201"])
def test_export_back(depth: str) -> None:
    """torchvision takes our state dict, strictly; shapes only."""
    with torch.device("meta"):
        theirs = getattr(torchvision_models(), f"densenet{depth}")(weights=None)
    theirs.load_state_dict(create(f"densenet:{depth}").state_dict(), strict=True, assign=True)
