"""The chunked loss of tokens against torch's cross-entropy: values, gradients, and what is never held."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from canon.nn import token_loss as module
from canon.nn.token_loss import token_loss


def inputs(rows: int, size: int, biased: bool, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    x_MD = torch.randn(rows, 7, dtype=dtype, requires_grad=True)
    weight_VD = torch.randn(size, 7, dtype=dtype, requires_grad=True)
    bias_V = torch.randn(size, dtype=dtype, requires_grad=True) if biased else None
    return x_MD, weight_VD, bias_V, torch.randint(size, (rows,))  # type: ignore[return-value]


@pytest.mark.parametrize("block", [1, 97 * 3, 97 * 4 + 5, 1 << 28])
@pytest.mark.parametrize("biased", [False, True])
def test_values_and_gradients(block: int, biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """11 rows of 97 tokens in blocks of 1, 3, 4 and all rows; the upstream gradient is not 1."""
    monkeypatch.setattr(module, "_BLOCK", block)
    x_MD, weight_VD, bias_V, target_M = inputs(11, 97, biased)
    leaves = [x_MD, weight_VD, *([bias_V] if biased else [])]
    actual = token_loss(x_MD, weight_VD, bias_V, target_M)
    logits = F.linear(x_MD, weight_VD, bias_V)
    wanted = F.cross_entropy(logits, target_M, reduction="none")
    torch.testing.assert_close(actual.losses, wanted.detach())
    torch.testing.assert_close(actual.total, wanted.sum())
    assert torch.equal(actual.right, logits.argmax(1) == target_M)
    mine, other = (torch.autograd.grad(total * 0.37, leaves) for total in (actual.total, wanted.sum()))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("block", [97 * 3, 1 << 28])
def test_shares(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses that count so many times, against torch's: the total and its gradients; each loss is reported as it is."""
    monkeypatch.setattr(module, "_BLOCK", block)
    x_MD, weight_VD, bias_V, target_M = inputs(11, 97, True)
    target_M[3] = -1
    share_M = torch.rand(11, dtype=torch.float64)
    actual = token_loss(x_MD, weight_VD, bias_V, target_M, share_M)
    wanted = F.cross_entropy(F.linear(x_MD, weight_VD, bias_V), target_M, reduction="none", ignore_index=-1)
    torch.testing.assert_close(actual.losses, wanted.detach())
    torch.testing.assert_close(actual.total, (wanted * share_M).sum())
    leaves = (x_MD, weight_VD, bias_V)
    mine, other = (torch.autograd.grad(total, leaves) for total in (actual.total, (wanted * share_M).sum()))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two)


def test_gradients_by_differences() -> None:
    x_MD, weight_VD, bias_V, target_M = inputs(3, 5, True)
    total = lambda *leaves: token_loss(*leaves, target_M).total  # noqa: E731
    assert torch.autograd.gradcheck(total, (x_MD, weight_VD, bias_V))


def test_only_the_total_has_a_gradient() -> None:
    result = token_loss(*inputs(4, 9, True))
    assert result.total.requires_grad and not result.losses.requires_grad and not result.right.requires_grad


def test_large_logits_and_no_rows() -> None:
    """Logits of ±1000 give neither infinity nor nan; no places give a loss of 0."""
    x_MD, weight_VD, _, target_M = inputs(4, 9, False, torch.float32)
    result = token_loss(1000 * x_MD, weight_VD, None, target_M)
    torch.testing.assert_close(result.losses, F.cross_entropy(1000 * x_MD @ weight_VD.T, target_M, reduction="none"))
    assert torch.autograd.grad(result.total, weight_VD)[0].isfinite().all()
    empty = token_loss(x_MD[:0], weight_VD, None, target_M[:0])
    assert empty.total == 0 and empty.losses.shape == (0,)
    assert torch.autograd.grad(empty.total, weight_VD)[0].abs().sum() == 0


def test_without_learning_the_same_losses() -> None:
    x_MD, weight_VD, bias_V, target_M = inputs(6, 9, True)
    with torch.no_grad():
        result = token_loss(x_MD, weight_VD, bias_V, target_M)
    torch.testing.assert_close(result.losses, token_loss(x_MD, weight_VD, bias_V, target_M).losses)
    assert not result.total.requires_grad


def test_half_precision_on_the_cpu() -> None:
    """Under autocast the products are in bfloat16, losses and the gradients of weights in float32."""
    x_MD, weight_VD, bias_V, target_M = inputs(16, 33, True, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        actual = token_loss(x_MD, weight_VD, bias_V, target_M)
    wanted = F.cross_entropy(F.linear(x_MD, weight_VD, bias_V), target_M, reduction="none")
    assert actual.losses.dtype == torch.float32
    torch.testing.assert_close(actual.losses, wanted.detach(), rtol=0.03, atol=0.03)
    mine = torch.autograd.grad(actual.total, (x_MD, weight_VD, bias_V))
    other = torch.autograd.grad(wanted.sum(), (x_MD, weight_VD, bias_V))
    for one, two in zip(mine, other, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, two, rtol=0.1, atol=0.1)


class Largest(TorchDispatchMode):
    """The most numbers that one result of an operator has."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for result in out if isinstance(out, tuple | list) else (out,):
            if isinstance(result, Tensor) and not func.is_view:
                self.most = max(self.most, result.numel())
        return out


def test_all_logits_are_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of 500 logits nothing is larger, of 64 × 50 in all; forward and backward."""
    monkeypatch.setattr(module, "_BLOCK", 500)
    x_MD, weight_VD, bias_V, target_M = inputs(64, 50, True)
    with Largest() as largest:
        token_loss(x_MD, weight_VD, bias_V, target_M).total.backward()
    assert largest.most == 500
