"""Sequence to sequence without attention: an encoder's last state is all that the decoder knows of the source.

Sutskever, Vinyals and Le 2014, Sequence to sequence learning with neural networks (arXiv:1409.3215): kind = "lstm",
stacked, `reverse_source`. Cho et al. 2014, Learning phrase representations using RNN encoder–decoder (arXiv:1406.1078):
kind = "gru" and `feed_context`, the last state c at every step.
`encode`: v = the state after the last source token. `forward`: p(y_t | v, y_1 … y_{t−1}) for all t in one call of the
recurrence, s_t = cell([E y_{t−1}; c], s_{t−1}), logits = W [s_t; c] + b; `step` is one t of it.
Deviations: Cho's maxout layer before the output is left out, and c reaches the gates by the same weights as the
embedding; the decoder begins at c itself, not at tanh(V c); weights begin as Glorot's, recurrent ones orthogonal. With
`bidirectional`, which neither paper has, each direction of the encoder has half of the units.
Shapes: B sequences, N source tokens, M target tokens, D features, H hidden units, V tokens of the target's vocabulary.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.decoding import EncoderDecoder
from canon.nn.ragged import Layout
from canon.nn.recurrence import Recurrent
from canon.nn.states import State
from canon.nn.without_dynamo import uncompiled
from canon.systems.sequence.recurrent_parts import (
    Gated,
    RecurrentConfig,
    RecurrentEncoder,
    begin,
    embeddings,
    output_layer,
    reversed_order,
)


@settings
class Config(RecurrentConfig):
    kind: Gated = Field(default="lstm", description="recurrent cell: gru or lstm")
    bidirectional: bool = Field(default=False, description="encoder reads both ways, each with half of the units")
    reverse_source: bool = Field(default=True, description="encoder reads the source from its end")
    feed_context: bool = Field(default=False, description="the encoder's last state is given at every step, as Cho's")


class Seq2Seq(nn.Module, EncoderDecoder):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.reverse_source, self.feed_context = config.reverse_source, config.feed_context
        self.source_embedding, self.target_embedding = embeddings(config)
        self.encoder = RecurrentEncoder(
            config.kind, config.dim, config.hidden, config.num_layers, config.bidirectional, config.dropout
        )
        context = config.hidden if config.feed_context else 0
        self.decoder = Recurrent(
            config.kind, config.dim + context, config.hidden, config.num_layers, dropout=config.dropout
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = output_layer(config, config.hidden + context, self.target_embedding)
        begin(self)

    def encode(self, source_N: Tensor, source: Layout) -> State:
        """The encoder's last state; its top layer is the context c."""
        if self.reverse_source:
            source_N = source_N.index_select(0, reversed_order(source))
        x_ND = self.dropout(self.source_embedding(source_N))
        return self.encoder(x_ND, source)[1]

    @uncompiled  # what takes time is one call of cuDNN or oneDNN, and every length would be compiled again
    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Tensor:
        """Logits [M, V] of what follows each target token."""
        state = self.init_state(self.encode(source_N, source), target.max_length)
        context_MH = state["memory_context"].index_select(0, target.rows) if self.feed_context else None
        out_MH, _ = self.decoder.ragged(self._with_context(self._embed(target_M), context_MH), target, state)
        return self._logits(out_MH, context_MH)

    def init_state(self, memory: State, capacity: int) -> State:
        """The decoder begins where the encoder ended."""
        return {**memory, "memory_context": memory["hidden"][:, -1]} if self.feed_context else memory

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of the next token, and the state after `token_B`."""
        context_BH = state["memory_context"] if self.feed_context else None
        out_BH, after = self.decoder.step(self._with_context(self._embed(token_B), context_BH), state)
        return self._logits(out_BH, context_BH), {**state, **after}

    def _embed(self, token: Tensor) -> Tensor:
        return self.dropout(self.target_embedding(token))

    def _logits(self, out_H: Tensor, context_H: Tensor | None) -> Tensor:
        return self.output(self._with_context(self.dropout(out_H), context_H))

    def _with_context(self, x: Tensor, context_H: Tensor | None) -> Tensor:
        return x if context_H is None else torch.cat([x, context_H], dim=-1)
