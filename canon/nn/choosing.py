"""One token of each row of logits: the likeliest, or one that is drawn.

Fan, Lewis and Dauphin 2018 (arXiv:1805.04833): top-k; Holtzman et al. 2020 (arXiv:1904.09751): top-p, both in `drawn`.
Nothing here waits for the device, and the work depends on shapes alone: it can be part of a CUDA graph.
Deviations: none. Shapes: R rows, V tokens in the vocabulary, C candidates of a row.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from canon.kernels.cpu.threads import has_kernels, share
from canon.nn.limits import real, whole
from canon.nn.packed import is_plain

_BLOCK, _BLOCKS_FROM = 64, 1 << 15  # the largest of many numbers are looked for in blocks
_ROWS = 32  # that a thread of its own pays for
_COLDEST = 1e-4  # a temperature: with any lower one the likeliest token is sure, as temperature 0 says
_INFINITY = float("inf")


class Sampling:
    """How tokens are drawn: temperature, the k likeliest (0: all), the fewest that hold a share p."""

    def __init__(self, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> None:
        self.temperature = real("temperature", temperature, _COLDEST, 1 / _COLDEST)
        self.top_k = whole("top_k", top_k, 0, 1 << 31)
        self.top_p = real("top_p", top_p, 1e-9, 1)


def uniform(size: int, generator: torch.Generator | None) -> Tensor:
    """[B, 1] numbers in [0, 1), on the host, one for the next token of each row."""
    return torch.rand(size, 1, generator=generator, dtype=torch.float64)


def likeliest(logits_RV: Tensor, banned: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of the likeliest token of each row, and the token."""
    gain_R1, token_R1 = best(logits_RV, banned, 1)
    return gain_R1[:, 0], token_R1[:, 0]


def best(logits_RV: Tensor, banned: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The log-probabilities of the `count` likeliest tokens of each row, best first, and the tokens, [R, C]."""
    if logits_RV.numel() < _BLOCKS_FROM or not (has_kernels() and is_plain(logits_RV)):
        return largest(logits_RV.log_softmax(-1).index_fill_(1, banned, -_INFINITY), count)
    from canon.kernels.cpu import choosing as choosing_kernel

    rows, width = logits_RV.shape
    gain_RC, token_RC = np.empty((rows, count), np.float32), np.empty((rows, count), np.int64)
    given = (logits_RV.contiguous().numpy().reshape(-1), width, banned.numpy(), gain_RC, token_RC)
    share(lambda first, size: choosing_kernel.best(first, size, *given), rows, _ROWS)
    return torch.from_numpy(gain_RC), torch.from_numpy(token_RC)


def drawn(logits_RV: Tensor, banned: Tensor, uniform_R1: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """The log-probability (at temperature 1, of all tokens) of the token that a number in [0, 1) decides on, and it."""
    scaled_RC = (logits_RV / sampling.temperature).index_fill_(1, banned, -_INFINITY)
    token_RC = None
    if sampling.top_k or sampling.top_p < 1:
        width = scaled_RC.shape[1]
        scaled_RC, token_RC = largest(scaled_RC, min(sampling.top_k or width, width))
    share_RC = scaled_RC.double().softmax(-1)
    if sampling.top_p < 1:  # a token stays if those before it hold less than p
        share_RC = share_RC.masked_fill(share_RC.cumsum(-1) - share_RC >= sampling.top_p, 0.0)
    sums_RC = share_RC.cumsum(-1)
    whole_R1 = sums_RC[:, -1:]
    drawn_R1 = uniform_R1 * whole_R1
    # Below the whole, so that the first sum above it belongs to a token that has a share.
    drawn_R1 = drawn_R1.minimum(whole_R1.nextafter(torch.zeros_like(whole_R1)))
    place_R1 = torch.searchsorted(sums_RC, drawn_R1, right=True)
    token_R1 = place_R1 if token_RC is None else token_RC.gather(1, place_R1)
    return logits_RV.log_softmax(-1).gather(1, token_R1)[:, 0], token_R1[:, 0]


def largest(x_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row and their places, largest first.

    They lie in the `count` blocks with the largest maxima, and those are found by one vectorised pass. A GPU finds the
    largest of all in one kernel.
    """
    rows, width = x_RV.shape
    blocks = width // _BLOCK
    if x_RV.numel() < _BLOCKS_FROM or blocks < 4 * count or (count == 1 and x_RV.is_cuda):
        values_RC, places_RC = x_RV.max(1, keepdim=True) if count == 1 else x_RV.topk(count)
        return values_RC, places_RC
    inner_RSW = x_RV[:, : blocks * _BLOCK].unflatten(1, (blocks, _BLOCK))
    block_RC = inner_RSW.amax(-1).topk(count, sorted=False).indices
    candidates = inner_RSW.gather(1, block_RC[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    places = (block_RC[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=x_RV.device)).flatten(1)
    if width > blocks * _BLOCK:  # the rest is not a whole block
        rest = torch.arange(blocks * _BLOCK, width, device=x_RV.device).expand(rows, -1)
        candidates = torch.cat((candidates, x_RV[:, blocks * _BLOCK :]), 1)
        places = torch.cat((places, rest), 1)
    values_RC, which_RC = candidates.topk(count)
    return values_RC, places.gather(1, which_RC)
