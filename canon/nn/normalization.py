"""Batch normalisation over the global batch, and layer normalisation.

Papers: Ioffe & Szegedy 2015 (arXiv:1502.03167), algorithm 1 → `_GlobalBatchNorm`; Ba, Kiros & Hinton 2016 (1607.06450)
is torch's `nn.LayerNorm` as it is.
Deviations: as torch, the running variance is the unbiased one and running statistics move by `momentum` = 0.1.
State-dict keys and numbers are torch's, so foreign weights load.
Shapes: B batch, C channels, S every place after the channel, flattened.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["BatchNorm1d", "BatchNorm2d", "LayerNorm"]

LayerNorm = nn.LayerNorm


class _SumOverProcesses(torch.autograd.Function):
    """y = Σ over processes of x. Every process's loss depends on every x, so the gradient is summed likewise."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        total = x.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        total = grad.contiguous().clone()
        dist.all_reduce(total)
        return total


class _GlobalBatchNorm(nn.modules.batchnorm._BatchNorm):
    """torch's batch norm in one process; in several, training statistics are those of all processes' batches together.

    Two all-reduces of C numbers each way: first the mean, then the squares around it, which loses no digits when the
    mean is large. Processes may hold batches of different sizes.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return super().forward(input)
        self._check_input_dim(input)
        x_BCS = input.to(torch.promote_types(input.dtype, torch.float32)).reshape(*input.shape[:2], -1)
        local = x_BCS.new_tensor([x_BCS.shape[0] * x_BCS.shape[2]])
        totals = _SumOverProcesses.apply(torch.cat([x_BCS.sum((0, 2)), local]))
        count = totals[-1].detach()
        mean_C = totals[:-1] / count
        centered_BCS = x_BCS - mean_C[:, None]
        var_C = _SumOverProcesses.apply(centered_BCS.square().sum((0, 2))) / count
        self._track(mean_C.detach(), var_C.detach() * count / (count - 1))
        out_BCS = centered_BCS * (var_C + self.eps).rsqrt()[:, None]
        if self.affine:
            out_BCS = out_BCS * self.weight[:, None] + self.bias[:, None]
        return out_BCS.reshape(input.shape).to(input.dtype)

    def _track(self, mean_C: Tensor, unbiased_var_C: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        # momentum None: the plain average of all batches so far
        momentum = 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean_C.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased_var_C.to(self.running_var.dtype), momentum)


class BatchNorm1d(_GlobalBatchNorm, nn.BatchNorm1d):
    """[B, C] or [B, C, S]."""


class BatchNorm2d(_GlobalBatchNorm, nn.BatchNorm2d):
    """[B, C, H, W]."""
