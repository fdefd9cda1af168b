"""Recurrent layers over whole sequences and one step at a time: plain RNN, GRU and LSTM, stacked, in both directions.

Papers: Elman 1990 → `rnn_cell` · Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000 → `lstm_cell`
· Cho et al. 2014 (arXiv:1406.1078) → `gru_cell`. With φ = tanh and W the weights of all gates side by side,
    h_t = cell(x_t W_x + b_x, h_{t−1} W_h + b_h, h_{t−1}).
Whole sequences go through torch.nn.RNN, GRU or LSTM (cuDNN and oneDNN underneath); `step` and `advance` are the
equations below with the same weights, which for a single token is cheaper than a call of the module.
Deviations: two biases per gate, as torch; the GRU's reset gate works after the product, r ⊙ (h W_h + b_h), as torch
and as the third version of the paper, where the first has (r ⊙ h) W_h. Arithmetic is in the weights' precision also
under autocast, since a rounded state would be rounded again at every step.
Shapes: B sequences, T steps, N tokens of all sequences, D input features, H hidden units, L layers × directions,
G = gates × H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from canon.errors import unknown
from canon.nn.ragged import Layout
from canon.nn.states import State
from canon.nn.without_dynamo import uncompiled

Kind = Literal["rnn", "gru", "lstm"]
Carried = tuple[Tensor, ...]  # by one layer from step to step: (h,), or (h, c) of an LSTM, each [B, H]


def rnn_cell(input_BH: Tensor, recurrent_BH: Tensor, carried: Carried) -> Carried:
    """h = tanh(x W_x + h W_h + b)."""
    return (torch.tanh(input_BH + recurrent_BH),)


def gru_cell(input_BG: Tensor, recurrent_BG: Tensor, carried: Carried) -> Carried:
    """r, z = σ(x W_rz + h U_rz + b); n = tanh(x W_n + b_n + r ⊙ (h U_n + c_n)); h = (1 − z) ⊙ n + z ⊙ h."""
    (hidden_BH,) = carried
    sizes = [2 * hidden_BH.shape[-1], hidden_BH.shape[-1]]
    input_B2H, input_BH = input_BG.split(sizes, dim=-1)
    recurrent_B2H, recurrent_BH = recurrent_BG.split(sizes, dim=-1)
    reset_BH, update_BH = torch.sigmoid(input_B2H + recurrent_B2H).chunk(2, dim=-1)
    new_BH = torch.tanh(torch.addcmul(input_BH, reset_BH, recurrent_BH))
    return (torch.lerp(new_BH, hidden_BH, update_BH),)


def lstm_cell(input_BG: Tensor, recurrent_BG: Tensor, carried: Carried) -> Carried:
    """i, f, o = σ(x W_ifo + h U_ifo + b); g = tanh(x W_g + h U_g + b); c = f ⊙ c + i ⊙ g; h = o ⊙ tanh(c)."""
    _, cell_BH = carried
    input_BH, forget_BH, new_BH, output_BH = (input_BG + recurrent_BG).chunk(4, dim=-1)
    kept_BH = torch.sigmoid(forget_BH) * cell_BH
    cell_BH = torch.addcmul(kept_BH, torch.sigmoid(input_BH), torch.tanh(new_BH))
    return torch.sigmoid(output_BH) * torch.tanh(cell_BH), cell_BH


CELLS: dict[str, Callable[[Tensor, Tensor, Carried], Carried]] = {"rnn": rnn_cell, "gru": gru_cell, "lstm": lstm_cell}
_NETWORKS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def full_precision(x: Tensor) -> torch.autocast:
    """Arithmetic as precise as the operands, also where autocast is on."""
    return torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False)


class Recurrent(nn.Module):
    """Stacked recurrence; dropout between layers. The parameters are torch's, under `network`.

    Its state has "hidden" and, of an LSTM, "cell": [B, L, H].
    """

    def __init__(
        self,
        kind: str,
        input_dim: int,
        hidden: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in CELLS:
            raise unknown("recurrent layer", kind, CELLS)
        self.kind, self.hidden, self.num_layers = kind, hidden, num_layers
        self.directions = 2 if bidirectional else 1
        self.dropout = dropout if num_layers > 1 else 0.0
        self.network = _NETWORKS[kind](
            input_dim, hidden, num_layers, batch_first=True, dropout=self.dropout, bidirectional=bidirectional
        )
        self._cell = CELLS[kind]
        self._seen: list[list[Carried]] | None = None  # see `watched`

    @property
    def names(self) -> tuple[str, ...]:
        """The entries of the state."""
        return ("hidden", "cell") if self.kind == "lstm" else ("hidden",)

    def init_state(self, batch: int, device: torch.device | str | None = None) -> State:
        """Zeros."""
        weight = self._weight("weight_hh", 0)
        shape = (batch, self.num_layers * self.directions, self.hidden)
        return {name: torch.zeros(shape, device=device or weight.device, dtype=weight.dtype) for name in self.names}

    @uncompiled  # torch runs these as one kernel of cuDNN or oneDNN: tracing them would take them apart
    def forward(self, x_BTD: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Outputs of the last layer [B, T, H × directions], and the state after the last step."""
        with full_precision(x_BTD):
            out_BTH, carried = self.network(x_BTD.to(self._weight("weight_hh", 0).dtype), self._given(state))
        return out_BTH, self._batch_first(carried)

    @uncompiled
    def ragged(self, x_ND: Tensor, layout: Layout, state: State | None = None) -> tuple[Tensor, State]:
        """The same over sequences of unequal length: outputs [N, H × directions], states after each one's last token.

        Nothing is computed for padding: tokens go in ordered by time, those of longer sequences first.
        """
        if layout.is_full:
            out_BTH, carried_state = self(layout.pad(x_ND), state)
            return layout.unpad(out_BTH), carried_state
        order, sizes, longest, back = _by_time(layout)
        x_ND = x_ND.to(self._weight("weight_hh", 0).dtype).index_select(0, order)
        with full_precision(x_ND):
            packed, carried = self.network(PackedSequence(x_ND, sizes, longest, back), self._given(state))
        return torch.zeros_like(packed.data).index_copy(0, order, packed.data), self._batch_first(carried)

    def step(self, x_BD: Tensor, state: State) -> tuple[Tensor, State]:
        """One token of each sequence: output [B, H] and the state after it. Forward direction only."""
        with full_precision(x_BD):
            carried = self.advance(self.project(x_BD), self.split(state))
        return carried[-1][0], self.join(carried)

    # For loops over time, where what does not depend on the state is worth computing before the loop.

    @property
    def input_weight(self) -> Tensor:
        """W_x of the first layer, [G, D]."""
        return self._weight("weight_ih", 0)

    def project(self, x_D: Tensor, columns: slice = slice(None), bias: bool = True) -> Tensor:
        """x W_x + b_x of the first layer, […, D] to […, G]; `columns` chooses a part of the input's features."""
        weight_GD = self.input_weight[:, columns]
        return F.linear(x_D.to(weight_GD.dtype), weight_GD, self._weight("bias_ih", 0) if bias else None)

    def advance(self, projected_BG: Tensor, carried: list[Carried]) -> list[Carried]:
        """One step of all layers, from the first one's projected input."""
        assert self.directions == 1, "a backward direction cannot be stepped"
        after: list[Carried] = []
        for layer, before in enumerate(carried):
            if layer:
                x_BH = F.dropout(after[-1][0], self.dropout, self.training)
                projected_BG = F.linear(x_BH, self._weight("weight_ih", layer), self._weight("bias_ih", layer))
            recurrent_BG = F.linear(before[0], self._weight("weight_hh", layer), self._weight("bias_hh", layer))
            after.append(self._cell(projected_BG, recurrent_BG, before))
        if self._seen is not None:
            self._seen.append(after)
        return after

    @contextmanager
    def watched(self) -> Iterator[list[list[Carried]]]:
        """What every layer carries after each step inside, as the tensors that the rest is computed from."""
        self._seen = []
        try:
            yield self._seen
        finally:
            self._seen = None

    def split(self, state: State) -> list[Carried]:
        """What each layer carries, from a state."""
        return list(zip(*(state[name].unbind(1) for name in self.names), strict=True))

    def join(self, carried: list[Carried]) -> State:
        """The state, from what each layer carries."""
        return {
            name: torch.stack(parts, dim=1) for name, parts in zip(self.names, zip(*carried, strict=True), strict=True)
        }

    def _weight(self, name: str, layer: int) -> Tensor:
        return getattr(self.network, f"{name}_l{layer}")

    def _given(self, state: State | None) -> Tensor | tuple[Tensor, ...] | None:
        """torch's form of a state: [L, B, H], of an LSTM two of them."""
        if state is None:
            return None
        dtype = self._weight("weight_hh", 0).dtype
        tensors = tuple(state[name].to(dtype).transpose(0, 1).contiguous() for name in self.names)
        return tensors if self.kind == "lstm" else tensors[0]

    def _batch_first(self, carried: Tensor | tuple[Tensor, ...]) -> State:
        tensors = carried if isinstance(carried, tuple) else (carried,)
        return {name: tensor.transpose(0, 1) for name, tensor in zip(self.names, tensors, strict=True)}


def merge_directions(state: State) -> State:
    """Per layer, the two directions' states side by side: [B, 2 L, H] to [B, L, 2 H]."""
    return {name: tensor.reshape(tensor.shape[0], -1, 2 * tensor.shape[2]) for name, tensor in state.items()}


def _by_time(layout: Layout) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens in the order of a PackedSequence: their indices, how many at each step, the sequences by falling length
    and back. On the host, where the lengths are, and then sent."""
    lengths, longest = layout.lengths.sort(descending=True, stable=True)
    steps = torch.arange(layout.max_length)
    alive_TB = steps[:, None] < lengths  # by falling length, so that each row is a run of True from the left
    starts = (layout.lengths.cumsum(0) - layout.lengths)[longest]
    order = (steps[:, None] + starts)[alive_TB]
    back = torch.empty_like(longest).scatter_(0, longest, torch.arange(layout.size))
    together = layout.send(torch.cat([order, longest, back]))  # one transfer
    order, longest, back = together.split([layout.total, layout.size, layout.size])
    return order, alive_TB.sum(1), longest, back
