"""GoogLeNet against torchvision's, from random weights: the same keys, logits and gradients."""

from __future__ import annotations

import torch
from torch import nn

from tests.parity.compare import assert_close, assert_same, create
from tests.parity.torchvision_models import build, torchvision_models


def test_torchvision() -> None:
    theirs = build(torchvision_models().googlenet, aux_logits=False, init_weights=False)
    assert_same(create("googlenet"), theirs, size=64)


def test_torchvision_with_classifiers_on_the_side() -> None:
    theirs = build(torchvision_models().googlenet, aux_logits=True, init_weights=False, num_classes=7)
    ours = create("googlenet:aux", num_classes=7)
    ours.load_state_dict({key: tensor.clone() for key, tensor in theirs.state_dict().items()}, assign=True)
    for module in [*ours.modules(), *theirs.modules()]:
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert_close(ours.eval()(images), theirs.eval()(images), 1e-5, "evaluation")
    actual, wanted = ours.train()(images), theirs.train()(images)
    for one, two, name in zip(actual, wanted, ("logits", "aux2", "aux1"), strict=True):
        assert_close(one, two, 1e-5, name)
    mine = torch.autograd.grad(sum(part.square().sum() for part in actual), list(ours.parameters()))
    other = torch.autograd.grad(sum(part.square().sum() for part in wanted), list(theirs.parameters()))
    for (name, _), one, two in zip(theirs.named_parameters(), mine, other, strict=True):
        assert_close(one, two, 1e-5, name)


def test_export_back() -> None:
    """torchvision takes our state dict, strictly; shapes only."""
    with torch.device("meta"):
        theirs = torchvision_models().googlenet(weights=None, aux_logits=False, init_weights=False)
    theirs.load_state_dict(create("googlenet").state_dict(), strict=True, assign=True)
