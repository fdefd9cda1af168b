"""Luong's global attention: the decoder's new state looks at all source positions, and both together predict the word.

Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation (arXiv:1508.04025).
`align`: α_t = softmax(score(h_t, h̄_s)), equation 7, with the scores of section 3.1 in canon/nn/attention/scores.py;
`attend`: c_t = Σ_s α_ts h̄_s and h̃_t = tanh(W [c_t; h_t]), equation 5; the logits W_s h̃_t, equation 6, are `output`.
Without input feeding (section 3.3) no state depends on an h̃: the decoder runs over all targets in one call and all
of them look at the source at once. With it, the decoder's input is [E y_{t−1}; h̃_{t−1}] and it goes step by step.
W c_t = Σ_s α_ts (W h̄_s): the product is taken once of the source, not at every step.
Deviations: input feeding is a choice, off by default; `location` scores, which do not look at the source, are left out;
the output layer has a bias; weights begin as Glorot's, recurrent ones orthogonal; with `bidirectional`, which the paper
has not, each direction has half of the units. Recurrence and attention are not autocast.
Shapes: B sequences, N source tokens, M target tokens, Q queries (T target positions, or 1), S the longest source,
D features, H hidden units, G = gates × H, V tokens of the target's vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

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
from canon.nn.recurrence import Recurrent, full_precision
from canon.nn.states import POSITION, State
from canon.nn.without_dynamo import uncompiled
from canon.systems.sequence.recurrent_parts import (
    Gated,
    RecurrentConfig,
    RecurrentEncoder,
    alignment,
    begin,
    embeddings,
    output_layer,
)

Choose = Callable[[Tensor], Tensor]  # of weights α [B, Q, S], those that the source is read by


@settings
class Attentive(RecurrentConfig):
    """Settings of all networks whose new state looks at the source."""

    kind: Gated = Field(default="lstm", description="recurrent cell: gru or lstm")
    bidirectional: bool = Field(default=False, description="encoder reads both ways, each with half of the units")
    score: Literal["dot", "general", "concat"] = Field(
        default="general", description="how well h_t fits h̄_s: h·h̄, h·W h̄ or v·tanh(W [h; h̄])"
    )


@settings
class Config(Attentive):
    input_feeding: bool = Field(default=False, description="h̃ is an input of the next step; slower: step by step")


class Luong(nn.Module, EncoderDecoder, Attends):
    def __init__(self, config: Attentive) -> None:
        super().__init__()
        self.dim, self.hidden = config.dim, config.hidden
        self.input_feeding = isinstance(config, Config) and config.input_feeding
        self.source_embedding, self.target_embedding = embeddings(config)
        self.encoder = RecurrentEncoder(
            config.kind, config.dim, config.hidden, config.num_layers, config.bidirectional, config.dropout
        )
        self.decoder = Recurrent(
            config.kind,
            config.dim + (config.hidden if self.input_feeding else 0),
            config.hidden,
            config.num_layers,
            dropout=config.dropout,
        )
        self.score = Scores(config.score, config.hidden, config.hidden)
        self.combine = nn.Linear(2 * config.hidden, config.hidden, bias=False)  # W of [c; h]
        self.dropout = nn.Dropout(config.dropout)
        self.output = output_layer(config, config.hidden, self.target_embedding)
        begin(self)

    def encode(self, source_N: Tensor, source: Layout) -> State:
        """The encoder's last state, keys to compare with, W h̄ to read, and which of them there are."""
        x_ND = self.dropout(self.source_embedding(source_N))
        with full_precision(x_ND):
            annotations_NH, last = self.encoder(x_ND, source)
            annotations_NH = self.dropout(annotations_NH)
            values_NH = F.linear(annotations_NH, self.combine.weight[:, : self.hidden])
            return {
                **last,
                "memory_keys": source.pad(self.score.prepare(annotations_NH)),
                "memory_values": source.pad(values_NH),
                "memory_mask": source.mask,
            }

    @uncompiled  # as many steps as the longest target has: every length would be compiled again
    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Tensor:
        """Logits [M, V] of what follows each target token."""
        return self.output(self.dropout(self._decode(source_N, source, target_M, target)[0]))

    def init_state(self, memory: State, capacity: int) -> State:
        """The decoder begins where the encoder ended."""
        state = {**memory, POSITION: torch.zeros((), dtype=torch.int64)}
        return {**state, "fed": torch.zeros_like(memory["hidden"][:, 0])} if self.input_feeding else state

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of the next token, and the state after `token_B`."""
        y_BD = self.dropout(self.target_embedding(token_B))
        with full_precision(y_BD):
            projected_BG = self.decoder.project(y_BD, slice(0, self.dim))
            out_BH, _, after = self._advance(projected_BG, state)
        return self.output(self.dropout(out_BH)), after

    def attention(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> State:
        """α: "alignment" [B, 1, T, S]."""
        return alignment(self._decode(source_N, source, target_M, target)[1], target)

    def align(self, hidden_BQH: Tensor, state: State) -> Tensor:
        """α [B, Q, S] of queries that stand at state["position"] and the places after it."""
        scores_BQS = self.score.compare(hidden_BQH, state["memory_keys"])
        return masked_softmax(scores_BQS, state["memory_mask"][:, None])

    def choose(self, weights_BQS: Tensor) -> Tensor:
        """What of the source is read, given α: here the mean by α itself."""
        return weights_BQS

    def attend(self, hidden_BQH: Tensor, state: State, choose: Choose | None = None) -> tuple[Tensor, Tensor]:
        """h̃ [B, Q, H] and α [B, Q, S]."""
        weights_BQS = self.align(hidden_BQH, state)
        context_BQH = torch.bmm((choose or self.choose)(weights_BQS), state["memory_values"])
        return torch.tanh(context_BQH + F.linear(hidden_BQH, self.combine.weight[:, self.hidden :])), weights_BQS

    def _decode(
        self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout, choose: Choose | None = None
    ) -> tuple[Tensor, Tensor]:
        """h̃ [M, H] and α [B, T, S]."""
        state = self.init_state(self.encode(source_N, source), target.max_length)
        y_MD = self.dropout(self.target_embedding(target_M))
        with full_precision(y_MD):
            if not self.input_feeding:
                hidden_BTH, _ = self.decoder(target.pad(y_MD), state)
                out_BTH, weights_BTS = self.attend(self.dropout(hidden_BTH), state, choose)
                return target.unpad(out_BTH), weights_BTS
            outs, weights = [], []
            for projected_BG in target.pad(self.decoder.project(y_MD, slice(0, self.dim))).unbind(1):
                out_BH, weights_BS, state = self._advance(projected_BG, state)
                outs.append(out_BH)
                weights.append(weights_BS)
            return target.unpad(torch.stack(outs, dim=1)), torch.stack(weights, dim=1)

    def _advance(self, projected_BG: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """h̃_t, α_t and the state after it, from E y_{t−1} as the gates see it."""
        if self.input_feeding:
            projected_BG = projected_BG + self.decoder.project(state["fed"], slice(self.dim, None), bias=False)
        carried = self.decoder.advance(projected_BG, self.decoder.split(state))
        out_B1H, weights_B1S = self.attend(self.dropout(carried[-1][0])[:, None], state)
        after = {**state, **self.decoder.join(carried), POSITION: state[POSITION] + 1}
        if self.input_feeding:
            after["fed"] = out_B1H[:, 0]
        return out_B1H[:, 0], weights_B1S[:, 0], after
