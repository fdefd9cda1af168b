"""Two networks with the same weights: equal keys, equal logits, equal gradients, in evaluation and in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import canon


def create(name: str, **changes: object) -> nn.Module:
    """canon's network without numbers, to take those of another."""
    with torch.device("meta"):
        return canon.create(name, **changes)


def assert_same(
    ours: nn.Module, theirs: nn.Module, size: int, batch: int = 2, training: bool = True, atol: float = 1e-5
) -> None:
    """`theirs` hands its state dict over as it is (strict); no dropout, so that training is comparable.

    Gradients are compared at the scale of the largest number of their own tensor.
    """
    state = {key: tensor.clone() for key, tensor in theirs.state_dict().items()}
    ours.load_state_dict(state, strict=True, assign=True)
    for network in (ours, theirs):
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    torch.manual_seed(1)
    images_BCHW = torch.randn(batch, 3, size, size)
    with torch.no_grad():
        actual, wanted = ours.eval()(images_BCHW), theirs.eval()(images_BCHW)
    assert_close(actual, wanted, atol, "logits")
    if training:
        ours.train(), theirs.train()
    ours_BC, theirs_BC = ours(images_BCHW), theirs(images_BCHW)
    assert_close(ours_BC, theirs_BC, atol, "logits in training")
    upstream_BC = torch.randn_like(ours_BC)
    mine = torch.autograd.grad(ours_BC, list(ours.parameters()), upstream_BC)
    other = torch.autograd.grad(theirs_BC, list(theirs.parameters()), upstream_BC)
    names = [name for name, _ in theirs.named_parameters()]
    assert names == [name for name, _ in ours.named_parameters()]
    for name, one, two in zip(names, mine, other, strict=True):
        assert_close(one, two, atol, name)
    # The running statistics moved alike.
    for (name, one), (_, two) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert_close(one.float(), two.float(), atol, name)


def assert_close(actual: Tensor, wanted: Tensor, atol: float, name: str) -> None:
    scale = max(1e-12, wanted.abs().max().item())
    worst = (actual - wanted).abs().max().item() / scale
    assert actual.shape == wanted.shape and worst <= atol, f"{name}: {worst:.1e} of {scale:.1e}"
