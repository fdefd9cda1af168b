"""VGG against torchvision's, from random weights: the same keys, logits and gradients."""

from __future__ import annotations

import pytest
import torch

from tests.parity.compare import assert_same, create
from tests.parity.torchvision_models import build, torchvision_models

ALL = ("11", "13", "16", "19", "11bn", "13bn", "16bn", "19bn")


def make(preset: str) -> object:
    return getattr(torchvision_models(), f"vgg{preset.replace('bn', '_bn')}")


@pytest.mark.parametrize("preset", ["11", "16", "13bn", "19bn"])
def test_torchvision(preset: str) -> None:
    """Of each depth one of its two forms: half a gigabyte of weights each. At 32 pixels: the classifier sees copies."""
    assert_same(create(f"vgg:{preset}", num_classes=7), build(make(preset), num_classes=7), size=32, batch=4)


@pytest.mark.parametrize("preset", ALL)
def test_export_back(preset: str) -> None:
    """torchvision takes our state dict, strictly; shapes only."""
    with torch.device("meta"):
        theirs = make(preset)(weights=None)  # type: ignore[operator]
    theirs.load_state_dict(create(f"vgg:{preset}").state_dict(), strict=True, assign=True)
