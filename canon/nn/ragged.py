"""Sequences of unequal length end to end, without padding: x_ND holds all N tokens of B sequences.

Everything that treats tokens alone (embeddings, dense layers, norms, losses) works on x_ND as it is; what mixes tokens
(attention, recurrence) asks the layout for offsets, or for the padded grid and back.
Lengths live on the host, where the loader knows them, so nothing here waits for a GPU.
Shapes: N tokens, B sequences, L the longest, D features.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor


class Layout:
    """Which of N tokens belong to which sequence."""

    def __init__(self, lengths: Tensor, device: torch.device | str | None = None) -> None:
        self.lengths = lengths.to("cpu", torch.int64)  # [B], on the host
        self.device = torch.device(device) if device is not None else lengths.device
        self.size = len(self.lengths)  # B
        self.max_length = int(self.lengths.max()) if self.size else 0  # L
        self.total = int(self.lengths.sum())  # N

    @cached_property
    def device_lengths(self) -> Tensor:
        """The lengths, on the device."""
        return self._send(self.lengths)

    @cached_property
    def offsets(self) -> Tensor:
        """[B + 1] int32: sequence b is the tokens offsets[b] … offsets[b+1] − 1 (cu_seqlens)."""
        return self._send(torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32))

    @cached_property
    def positions(self) -> Tensor:
        """[N] the place of each token in its sequence, from 0."""
        starts = self.lengths.cumsum(0) - self.lengths
        return self._send(torch.arange(self.total) - starts.repeat_interleave(self.lengths))

    @cached_property
    def rows(self) -> Tensor:
        """[N] the sequence of each token."""
        return self._send(torch.arange(self.size).repeat_interleave(self.lengths))

    @cached_property
    def places(self) -> Tensor:
        """[N] where each token lies in the padded grid, counted b·L + t."""
        return self.rows * self.max_length + self.positions

    @cached_property
    def mask(self) -> Tensor:
        """[B, L] True where there is a token."""
        return torch.arange(self.max_length, device=self.device) < self.device_lengths[:, None]

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

    def _send(self, host: Tensor) -> Tensor:
        if self.device.type != "cuda":
            return host.to(self.device)
        return host.pin_memory().to(self.device, non_blocking=True)
