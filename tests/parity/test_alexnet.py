"""AlexNet against torchvision's, from random weights: the same keys, logits and gradients."""

from __future__ import annotations

import torch

from tests.parity.compare import assert_same, create
from tests.parity.torchvision_models import build, torchvision_models


def test_torchvision() -> None:
    assert_same(create("alexnet"), build(torchvision_models().alexnet), size=64)


def test_export_back() -> None:
    """torchvision takes our state dict, strictly; shapes only."""
    with torch.device("meta"):
        theirs = torchvision_models().alexnet(weights=None)
    theirs.load_state_dict(create("alexnet").state_dict(), strict=True, assign=True)
