"""Cross-entropy of tokens from features and the vocabulary's matrix, without ever holding all logits.

−log softmax(x Wᵀ + b)[target], in blocks of rows: the logits of a block become its gradient with respect to them in
place, which is multiplied into the gradients of x, W and b at once; backward only hands these on. So the three products
are those of the usual way, and memory is that of one block instead of rows × vocabulary, twice.
Deviations: none; blocks only change the order of sums. On CUDA in half precision, a block's softmax is one kernel
(canon/kernels/cuda/token_loss.py), and the gradient of W is summed in float32; with CANON_KERNELS=off it is `_settle`.
Shapes: M tokens, D features, V tokens of the vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from canon.kernels import enabled

_BLOCK = 1 << 28  # logits of a block, at most
_EVEN = 64  # what rows of logits are a multiple of on tensor cores


class TokenLoss(NamedTuple):
    """`total` has a gradient; the others are to look at."""

    total: Tensor  # [] the sum of all losses
    losses: Tensor  # [M]
    right: Tensor  # [M] whether the target was the likeliest


def token_loss(
    x_MD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_M: Tensor, share_M: Tensor | None = None
) -> TokenLoss:
    """The losses of `target_M` where the logits are x Wᵀ + b; targets below 0 count for nothing.

    share_M: what each loss is multiplied by in the total; None: 1.
    """
    kind = x_MD.device.type
    if kind != "meta" and torch.is_autocast_enabled(kind):
        x_MD = x_MD.to(torch.get_autocast_dtype(kind))
    return TokenLoss(*_TokenLoss.apply(x_MD, weight_VD, bias_V, target_M, share_M))


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_MD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_M: Tensor, share_M: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        learns = any(ctx.needs_input_grad[:3])
        vocabulary = len(weight_VD)
        fused = enabled() and x_MD.is_cuda and x_MD.dtype in (torch.bfloat16, torch.float16)
        # Tensor cores want rows of logits that begin at even addresses: GPT-2's 50,257 would take six times as long.
        more = -vocabulary % _EVEN if fused else 0
        weight = torch.nn.functional.pad(weight_VD.to(x_MD.dtype), (0, 0, 0, more))
        bias = None if bias_V is None else torch.nn.functional.pad(bias_V.to(x_MD.dtype), (0, more))
        losses_M = torch.empty(len(x_MD), dtype=torch.float32, device=x_MD.device)
        right_M = torch.empty(len(x_MD), dtype=torch.bool, device=x_MD.device)
        if x_MD.dtype == torch.float64:
            losses_M = losses_M.double()
        gradient_MD = torch.empty_like(x_MD) if learns else None
        gradient_VD = torch.zeros(weight.shape, dtype=weight_VD.dtype, device=weight.device) if learns else None
        gradient_V = torch.zeros(len(weight), dtype=bias_V.dtype, device=weight.device) if bias_V is not None else None
        rows = max(_BLOCK // len(weight), 1)
        for start in range(0, len(x_MD), rows):
            part = slice(start, start + rows)
            logits = torch.nn.functional.linear(x_MD[part], weight, bias)
            settle = _settle_fused if fused else _settle
            losses_M[part], right_M[part], slope = settle(logits, target_M[part], vocabulary, learns)
            if slope is None or gradient_MD is None or gradient_VD is None:
                continue
            if share_M is not None:
                slope.mul_(share_M[part, None])
            torch.mm(slope, weight, out=gradient_MD[part])
            if slope.dtype == gradient_VD.dtype:
                gradient_VD.addmm_(slope.T, x_MD[part])
            elif fused:
                torch.addmm(gradient_VD, slope.T, x_MD[part], out_dtype=torch.float32, out=gradient_VD)
            else:
                gradient_VD += slope.T @ x_MD[part]
            if gradient_V is not None:
                gradient_V += slope.sum(0, dtype=gradient_V.dtype)
        if learns:
            whole = (None if known is None else known[:vocabulary] for known in (gradient_VD, gradient_V))
            ctx.save_for_backward(gradient_MD, *whole)
        ctx.mark_non_differentiable(losses_M, right_M)
        return (losses_M if share_M is None else losses_M * share_M).sum(), losses_M, right_M

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        factor = upstream[0]
        gradients = (None if known is None else known * factor.to(known.dtype) for known in ctx.saved_tensors)
        gradient_MD, gradient_VD, gradient_V = gradients
        return gradient_MD, gradient_VD, gradient_V, None, None


def _settle(logits_MV: Tensor, target_M: Tensor, vocabulary: int, learns: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Losses, whether each was the likeliest, and softmax − one-hot, for which the logits' memory is used unless they
    are in half precision, whose sums are in float32."""
    wide_MV = logits_MV.to(torch.promote_types(logits_MV.dtype, torch.float32))
    counts_M1 = target_M[:, None] >= 0
    index = target_M[:, None].clamp(min=0)
    right_M = wide_MV.argmax(1) == target_M
    total = wide_MV.logsumexp(1, keepdim=True)
    losses_M = ((total - wide_MV.gather(1, index)) * counts_M1)[:, 0]
    if not learns:
        return losses_M, right_M, None
    slope = wide_MV.sub_(total).exp_()
    slope.scatter_add_(1, index, slope.new_full((1, 1), -1.0).expand_as(index))
    return losses_M, right_M, slope.mul_(counts_M1).to(logits_MV.dtype)


def _settle_fused(
    logits_MV: Tensor, target_M: Tensor, vocabulary: int, learns: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """`_settle` where rows may be longer than the vocabulary."""
    from canon.kernels.cuda.token_loss import settle

    return settle(logits_MV, target_M, vocabulary, learns)
