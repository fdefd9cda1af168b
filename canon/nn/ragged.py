"""Sequences of unequal length end to end, without padding: x_ND holds all N tokens of B sequences.

Everything that treats tokens alone (embeddings, dense layers, norms, losses) works on x_ND as it is; what mixes tokens
(attention, recurrence) asks the layout for offsets, or for the padded grid and back.
Lengths live on the host, where the loader knows them, so nothing here waits for a GPU.
Shapes: N tokens, B sequences, L the longest, D features.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

_ROUND = 128  # what the longest is rounded up to for kernels, so that there are few different ones


class Packing(NamedTuple):
    """What kernels for tokens end to end ask: offsets [B + 1] int32 on the device, a length that none exceeds, and
    whether all have that length and the device has a faster kernel for such."""

    offsets: Tensor
    bound: int
    even: bool = False


@cache
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9


class Layout:
    """Which of N tokens belong to which sequence."""

    def __init__(self, lengths: Tensor, device: torch.device | str | None = None, prefix: Tensor | None = None) -> None:
        """prefix [B]: so many first tokens of each sequence are seen by all of it, also where attention is causal."""
        self.prefix = prefix
        self.lengths = lengths.to("cpu", torch.int64)  # [B], on the host
        self.device = torch.device(device) if device is not None else lengths.device
        self.size = len(self.lengths)  # B
        self.max_length = int(self.lengths.max()) if self.size else 0  # L
        self.min_length = int(self.lengths.min()) if self.size else 0
        self.total = int(self.lengths.sum())  # N

    @cached_property
    def device_lengths(self) -> Tensor:
        """The lengths, on the device."""
        return self.send(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """[B + 1] int32: sequence b is the tokens offsets[b] … offsets[b+1] − 1 (cu_seqlens)."""
        return self.send(torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32))

    @cached_property
    def packing(self) -> Packing:
        short = max(16, 1 << (self.max_length - 1).bit_length())  # the next power of two
        bound = short if short <= _ROUND else -(-self.max_length // _ROUND) * _ROUND
        return Packing(self.offsets, bound, bound == self.max_length and self.is_full and _is_hopper(self.device))

    @cached_property
    def positions(self) -> Tensor:
        """[N] the place of each token in its sequence, from 0."""
        starts = self.lengths.cumsum(0) - self.lengths
        return self.send(torch.arange(self.total) - starts.repeat_interleave(self.lengths))

    @cached_property
    def rows(self) -> Tensor:
        """[N] the sequence of each token."""
        return self.send(torch.arange(self.size).repeat_interleave(self.lengths))

    @cached_property
    def places(self) -> Tensor:
        """[N] where each token lies in the padded grid, counted b·L + t."""
        return self.rows * self.max_length + self.positions

    @cached_property
    def mask(self) -> Tensor:
        """[B, L] True where there is a token."""
        return torch.arange(self.max_length, device=self.device) < self.device_lengths[:, None]

    @cached_property
    def starts(self) -> Tensor:
        """[B] where each sequence's first token lies."""
        return self.offsets[:-1].long()

    @cached_property
    def ends(self) -> Tensor:
        """[B] where each sequence's last token lies."""
        return self.offsets[1:].long() - 1

    @cached_property
    def prefix_mask(self) -> Tensor:
        """[B, 1, L, L] True where a query (third) may see a key: in the prefix, or not after itself."""
        assert self.prefix is not None
        place_L = torch.arange(self.max_length, device=self.device)
        seen = place_L < self.send(self.prefix.to("cpu", torch.int64))[:, None, None]
        return ((seen | (place_L <= place_L[:, None])) & self.mask[:, None])[:, None]

    @cached_property
    def is_full(self) -> bool:
        """Whether all sequences are equally long: then grid and tokens are the same memory."""
        return self.total == self.size * self.max_length

    def pad(self, x: Tensor, fill: float = 0) -> Tensor:
        """[N, …] to [B, L, …]."""
        if self.is_full:
            return x.reshape(self.size, self.max_length, *x.shape[1:])
        grid = x.new_full((self.size * self.max_length, *x.shape[1:]), fill)
        return grid.index_copy(0, self.places, x).view(self.size, self.max_length, *x.shape[1:])

    def unpad(self, grid: Tensor) -> Tensor:
        """[B, L, …] to [N, …]."""
        flat = grid.reshape(self.size * self.max_length, *grid.shape[2:])
        return flat if self.is_full else flat.index_select(0, self.places)

    def mean(self, x_ND: Tensor) -> Tensor:
        """[N, D] to [B, D]: the mean of each sequence's tokens; 0 of an empty one."""
        sums_BD = x_ND.new_zeros(self.size, x_ND.shape[1]).index_add(0, self.rows, x_ND)
        return sums_BD / self.device_lengths.clamp(min=1)[:, None].to(sums_BD.dtype)

    def send(self, host: Tensor) -> Tensor:
        """A tensor of the host on the device, without waiting."""
        if self.device.type != "cuda":
            return host.to(self.device)
        return host.pin_memory().to(self.device, non_blocking=True)


class FixedLayout(Layout):
    """A layout of fixed sizes in memory of its own, for CUDA graphs: `fill` writes other lengths into it.

    Tokens that no sequence has are given to sequences at the end, those that are left over are empty. Only what
    attention on tokens end to end and embeddings ask for is there: packing, offsets, positions, starts, ends.
    """

    def __init__(self, tokens: int, sequences: int, longest: int, device: torch.device | str) -> None:
        super().__init__(torch.full((1,), longest), device)
        self.__dict__["is_full"] = tokens == sequences * longest  # then no other lengths fit
        self.size, self.total = sequences, tokens
        self._longest = longest
        self.__dict__["offsets"] = torch.zeros(sequences + 1, dtype=torch.int32, device=device)
        self.__dict__["positions"] = torch.zeros(tokens, dtype=torch.int64, device=device)

    def fill(self, lengths: Tensor) -> None:
        """Takes over other lengths, [at most `sequences`], of at most `tokens` tokens."""
        rest = self.total - int(lengths.sum())
        more, last = divmod(rest, self._longest)
        filled = torch.zeros(self.size, dtype=torch.int64)
        filled[: len(lengths)] = lengths
        filled[len(lengths) : len(lengths) + more] = self._longest
        if last:
            filled[len(lengths) + more] = last
        whole = Layout(filled)
        self.offsets.copy_(self._pinned(whole.offsets), non_blocking=True)
        self.positions.copy_(self._pinned(whole.positions), non_blocking=True)

    # Computed from the offsets at each call; of empty sequences, any token.

    @property
    def starts(self) -> Tensor:
        return self.offsets[:-1].long().clamp(max=self.total - 1)

    @property
    def ends(self) -> Tensor:
        return (self.offsets[1:].long() - 1).clamp(min=0)

    def _pinned(self, host: Tensor) -> Tensor:
        return host.pin_memory() if self.device.type == "cuda" else host


def layout_of(batch: Mapping[str, Any], name: str = "input") -> Layout:
    """The layout of a batch's tokens: made of NAME_lengths, or the one that was put there as NAME_layout."""
    known = batch.get(f"{name}_layout")
    return known if known is not None else Layout(batch[f"{name}_lengths"], batch[name].device)
