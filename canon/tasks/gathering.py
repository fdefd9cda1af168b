"""Rows of the global batch on every process, with gradients that go back to where each row came from."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from canon.data.batching.loader import shares


def gathered(rows: Tensor, share: tuple[int, int, int]) -> Tensor:
    """The rows of all processes in the order of the global batch; `share` is [start, stop) of total."""
    start, stop, total = share
    if stop - start == total:
        return rows
    gathered_N: Tensor = _GatherRows.apply(rows, total)
    return gathered_N


class _GatherRows(torch.autograd.Function):
    """Every process's loss depends on every row, so the gradients of a row are summed. A process without rows of its
    own (fewer rows than processes) gives none, and its row gets no gradient."""

    @staticmethod
    def forward(ctx, rows: Tensor, total: int) -> Tensor:  # type: ignore[no-untyped-def]
        bounds = shares(total, dist.get_world_size())
        start, stop = bounds[dist.get_rank()]
        ctx.start, ctx.count, ctx.size = start, stop - start, len(rows)
        padded = rows.new_zeros((max(stop - start for start, stop in bounds), *rows.shape[1:]))
        padded[: ctx.count] = rows[: ctx.count]
        parts = [torch.empty_like(padded) for _ in bounds]
        dist.all_gather(parts, padded)
        return torch.cat([part[: stop - start] for part, (start, stop) in zip(parts, bounds, strict=True)])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        summed = grad.contiguous().clone()
        dist.all_reduce(summed)
        gradient = summed.new_zeros((ctx.size, *summed.shape[1:]))
        gradient[: ctx.count] = summed[ctx.start : ctx.start + ctx.count]
        return gradient, None
