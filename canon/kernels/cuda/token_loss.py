"""The softmax of a block of logits as one Triton kernel: losses, the likeliest token, and the gradient in place.

Each program has one row: it reads the row for its maximum and the sum of exponentials (in float32, both at once, as
Milakov and Gimelshein 2018, 1805.02867), then once more, from the cache, to write softmax − one-hot over it.
Plain version: `_settle` of canon/nn/token_loss.py, equal in tests/kernels/test_cuda.py. Deviations: none.
Shapes: M tokens, V tokens of the vocabulary, or as many as fill up a row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_WIDTH = 2048  # logits that a program reads at a time


@triton.jit
def _kernel(logits, target, losses, right, size, width, LEARNS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    here = logits + row * width
    wanted = tl.load(target + row)
    counts = wanted >= 0
    place = tl.arange(0, WIDTH)
    score = tl.load(here + tl.where(counts, wanted, 0)).to(tl.float32)
    # Every lane has its own maximum, sum and count, which meet only at the end: meeting in each turn took longer than
    # reading the row.
    tops = tl.full((WIDTH,), -1e30, tl.float32)
    sums = tl.zeros((WIDTH,), tl.float32)
    ahead = tl.zeros((WIDTH,), tl.int32)  # tokens that are likelier than the target, or as likely and before it
    for start in range(0, size, WIDTH):
        inside = start + place < size
        x = tl.load(here + start + place, mask=inside, other=-float("inf")).to(tl.float32)
        fade = tl.exp(-tl.abs(x - tops))
        sums = tl.where(x > tops, sums * fade + 1.0, sums + fade)
        tops = tl.maximum(tops, x)
        ahead += ((x > score) | ((x == score) & (start + place < wanted))).to(tl.int32)
    top = tl.max(tops, 0)
    total = tl.sum(sums * tl.exp(tops - top), 0)
    tl.store(losses + row, tl.where(counts, top + tl.log(total) - score, 0.0))
    tl.store(right + row, (tl.sum(ahead, 0) == 0) & counts)
    if LEARNS:
        scale = tl.where(counts, 1.0 / total, 0.0)
        for start in range(0, width, WIDTH):  # after the vocabulary: 0
            inside = start + place < width
            x = tl.load(here + start + place, mask=start + place < size, other=-float("inf")).to(tl.float32)
            slope = tl.exp(x - top) * scale - tl.where((start + place == wanted) & counts, 1.0, 0.0)
            tl.store(here + start + place, slope.to(logits.dtype.element_ty), mask=inside)


def settle(logits_MV: Tensor, target_M: Tensor, vocabulary: int, learns: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """As canon.nn.token_loss asks: the logits are overwritten where their gradient is wanted."""
    rows, width = logits_MV.shape
    losses_M = torch.empty(rows, dtype=torch.float32, device=logits_MV.device)
    right_M = torch.empty(rows, dtype=torch.bool, device=logits_MV.device)
    _kernel[(rows,)](
        logits_MV, target_M, losses_M, right_M, vocabulary, width, LEARNS=learns, WIDTH=_WIDTH, num_warps=16
    )
    return losses_M, right_M, logits_MV if learns else None
