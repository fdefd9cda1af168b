"""Trained keys and values before those of a layer's own tokens, in attention over tokens end to end.

Li and Liang 2021, Prefix-tuning (arXiv:2101.00190), equation 3; Liu et al. 2022, P-tuning v2 (arXiv:2110.07602). Each
sequence gets P more tokens at its beginning, whose keys and values are replaced at every layer: any kernel attends to
them as to tokens, all tokens see them, also where a token sees only those before it, and positions go on from P, as
after past keys and values in other people's code. What these places compute themselves is never read.
Deviations: none; the cost is that of P more tokens of a sequence.
Shapes: N tokens of B sequences, P places, Q = B·P, D features of all heads.
"""

# ruff: noqa: N815 (fields with shape suffixes)

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from canon.nn.ragged import Layout


class Prefix(NamedTuple):
    """Of one layer."""

    places_Q: Tensor
    rows_Q2D: Tensor  # keys, then values

    def put(self, qkv_NC: Tensor) -> Tensor:
        """Queries, keys and values of all tokens side by side, with these keys and values in their places."""
        query, key_value = qkv_NC.split([qkv_NC.shape[1] - self.rows_Q2D.shape[1], self.rows_Q2D.shape[1]], dim=1)
        return torch.cat([query, key_value.index_copy(0, self.places_Q, self.rows_Q2D.to(key_value.dtype))], dim=1)


class WithPrefix:
    """A layout with P more places at the beginning of each sequence."""

    def __init__(self, layout: Layout, count: int) -> None:
        seen = None if layout.prefix is None else layout.prefix + count
        self.layout = Layout(layout.lengths + count, layout.device, seen)
        positions = self.layout.positions
        self._first = layout.send(torch.arange(layout.size * count))  # of the more places, in order
        self._places_Q = self.layout.starts.repeat_interleave(count) + self._first % count
        self._own_N = layout.positions + count + self.layout.starts.index_select(0, layout.rows)
        self._total, self._batch = len(positions), layout.size

    def widen(self, x_N: Tensor) -> Tensor:
        """[N] with zeros at the more places."""
        return x_N.new_zeros(self._total).index_copy(0, self._own_N, x_N)

    def narrow(self, x_ND: Tensor) -> Tensor:
        return x_ND.index_select(0, self._own_N)

    def of_layers(self, prefix_LP2D: Tensor) -> list[Prefix]:
        return [Prefix(self._places_Q, rows_P2D.repeat(self._batch, 1)) for rows_P2D in prefix_LP2D]
