"""RNNsearch: before each word the decoder weighs all source positions by its own state, and reads their mean.

Bahdanau, Cho and Bengio 2015, Neural machine translation by jointly learning to align and translate (arXiv:1409.0473).
Appendix A, with annotations h_j = [→h_j; ←h_j] of a bidirectional GRU and s_0 = tanh(W_s ←h_1), all in `encode`:
    e_tj = v·tanh(W_a s_{t−1} + U_a h_j); α_t = softmax(e_t); c_t = Σ_j α_tj h_j; s_t = GRU([E y_{t−1}; c_t], s_{t−1})
in `_advance`, and the logits W_o tanh(U [s_t; E y_{t−1}; c_t]) in `_readout` and `output`.
All that a context does is linear in it (inputs of gates, readout), so these products are taken once of the annotations,
and each step weighs products: Σ_j α_tj (W h_j) in place of W (Σ_j α_tj h_j). The loop over time has the whole batch.
Deviations: tanh in place of the maxout readout, from s_t in place of s_{t−1}; Cho's GRU in torch's form (reset after
the product, and z keeps the old state where the paper's takes the new one); weights begin as Glorot's, recurrent ones
orthogonal; `num_layers` > 1 stacks what the paper has one of. Recurrence and attention are not autocast.
Shapes: B sequences, N source tokens, M target tokens, T and S the longest target and source, D features, H hidden
units, G = gates × H, V tokens of the target's vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Attends
from canon.nn.attention.scores import Scores
from canon.nn.attention.softmax import masked_softmax
from canon.nn.decoding import EncoderDecoder
from canon.nn.ragged import Layout
from canon.nn.recurrence import Carried, Recurrent, full_precision
from canon.nn.states import State
from canon.nn.without_dynamo import uncompiled
from canon.systems.sequence.recurrent_parts import (
    RecurrentConfig,
    alignment,
    begin,
    embeddings,
    output_layer,
)
from canon.systems.settings import Positive


@settings
class Config(RecurrentConfig):
    align: Positive = Field(default=256, description="units of the alignment network, n′ of the paper")


class Bahdanau(nn.Module, EncoderDecoder, Attends):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim, self.hidden = config.dim, config.hidden
        self.source_embedding, self.target_embedding = embeddings(config)
        sizes = (config.hidden, config.num_layers)
        self.encoder = Recurrent("gru", config.dim, *sizes, bidirectional=True, dropout=config.dropout)
        self.bridge = nn.Linear(config.hidden, config.hidden)
        self.score = Scores("additive", config.hidden, 2 * config.hidden, config.align)
        self.decoder = Recurrent("gru", config.dim + 2 * config.hidden, *sizes, dropout=config.dropout)
        self.readout = nn.Linear(config.hidden + config.dim + 2 * config.hidden, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.output = output_layer(config, config.dim, self.target_embedding)
        begin(self)

    def encode(self, source_N: Tensor, source: Layout) -> State:
        """U_a h_j, the products of h_j that contexts are made of, which of them there are, and s_0."""
        x_ND = self.dropout(self.source_embedding(source_N))
        with full_precision(x_ND):
            annotations_NH, last = self.encoder.ragged(x_ND, source)
            annotations_NH = self.dropout(annotations_NH)
            backward_BLH = last["hidden"][:, 1::2]
            return {
                "hidden": torch.tanh(self.bridge(backward_BLH)),
                "memory_keys": source.pad(self.score.prepare(annotations_NH)),
                "memory_values": source.pad(F.linear(annotations_NH, self._context_weight())),
                "memory_mask": source.mask,
            }

    @uncompiled  # as many steps as the longest target has: every length would be compiled again
    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Tensor:
        """Logits [M, V] of what follows each target token."""
        return self._decode(source_N, source, target_M, target)[0]

    def init_state(self, memory: State, capacity: int) -> State:
        return memory

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of the next token, and the state after `token_B`."""
        y_BD = self.dropout(self.target_embedding(token_B))
        with full_precision(y_BD):
            projected_BG = self.decoder.project(y_BD, slice(0, self.dim))
            carried, read_BD, _ = self._advance(projected_BG, self.decoder.split(state), state, state["memory_mask"])
            out_BD = self._readout(carried[-1][0], y_BD, read_BD)
        return self.output(out_BD), {**state, **self.decoder.join(carried)}

    def attention(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> State:
        """α: "alignment" [B, 1, T, S]."""
        return alignment(self._decode(source_N, source, target_M, target)[1], target)

    def _decode(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> tuple[Tensor, Tensor]:
        """Logits [M, V] and α [B, T, S]."""
        memory = self.encode(source_N, source)
        mask_BS = None if source.is_full else memory["memory_mask"]
        y_MD = self.dropout(self.target_embedding(target_M))
        with full_precision(y_MD):
            projected_BTG = target.pad(self.decoder.project(y_MD, slice(0, self.dim)))
            carried = self.decoder.split(memory)
            hiddens, reads, weights = [], [], []
            for projected_BG in projected_BTG.unbind(1):
                carried, read_BD, weights_BS = self._advance(projected_BG, carried, memory, mask_BS)
                hiddens.append(carried[-1][0])
                reads.append(read_BD)
                weights.append(weights_BS)
            hidden_MH, read_MD = (target.unpad(torch.stack(parts, dim=1)) for parts in (hiddens, reads))
            out_MD = self._readout(hidden_MH, y_MD, read_MD)
        return self.output(out_MD), torch.stack(weights, dim=1)

    def _advance(
        self, projected_BG: Tensor, carried: list[Carried], memory: State, mask_BS: Tensor | None
    ) -> tuple[list[Carried], Tensor, Tensor]:
        """s_t, the context's part of the readout, and α_t."""
        scores_B1S = self.score.compare(carried[-1][0][:, None], memory["memory_keys"])
        weights_B1S = masked_softmax(scores_B1S, None if mask_BS is None else mask_BS[:, None])
        context = torch.bmm(weights_B1S, memory["memory_values"])[:, 0]
        context_BG, read_BD = context.split([3 * self.hidden, self.dim], dim=-1)
        return self.decoder.advance(projected_BG + context_BG, carried), read_BD, weights_B1S[:, 0]

    def _readout(self, hidden_H: Tensor, y_D: Tensor, read_D: Tensor) -> Tensor:
        """tanh(U [s; E y; c]), the context's part given."""
        weight_DX = self.readout.weight[:, : self.hidden + self.dim]
        own_D = F.linear(torch.cat([hidden_H, y_D], dim=-1), weight_DX, self.readout.bias)
        return self.dropout(torch.tanh(own_D + read_D))

    def _context_weight(self) -> Tensor:
        """What a context is multiplied with: [G + D, 2 H], the gates' columns over the readout's."""
        gates_GX = self.decoder.input_weight[:, self.dim :]
        return torch.cat([gates_GX, self.readout.weight[:, self.hidden + self.dim :]])
