"""What the recurrent encoder–decoders have in common: their settings, embeddings, encoder and output layer.

Papers and equations are in the systems: seq2seq.py, bahdanau.py, luong.py, local_attention.py, hard_attention.py.
Shapes: B sequences, N source tokens, D features of an embedding, H hidden units, L layers.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.initialization import initialize
from canon.nn.ragged import Layout
from canon.nn.recurrence import Recurrent, merge_directions
from canon.nn.states import State
from canon.systems.settings import Beam, Depth, Length, Penalty, Positive, Share

Gated = Literal["gru", "lstm"]
_EMBEDDING = 0.1  # of embeddings at the start: logits of tied ones are then of the order of one


@settings
class RecurrentConfig:
    """Settings of a recurrent network from one sequence to another."""

    source_vocab: Positive = Field(default=1000, description="tokens of the source's vocabulary; the data decides")
    target_vocab: Positive = Field(default=1000, description="tokens of the target's vocabulary; the data decides")
    shared_vocab: bool = Field(default=False, description="whether both are one vocabulary; the data decides")
    dim: Positive = Field(default=256, description="features of an embedding")
    hidden: Positive = Field(default=512, description="units of a layer")
    num_layers: Depth = Field(default=1, description="layers of the encoder, and of the decoder")
    dropout: Share = Field(default=0.0, description="share dropped of embeddings, between layers and before the output")
    tie: bool = Field(
        default=False, description="output weights are the target's embeddings, and the source's if they share words"
    )
    beam: Beam = Field(default=1, description="hypotheses kept open while decoding; 1: greedy")
    length_penalty: Penalty = Field(default=0.6, description="α of beam search; 0: none")
    max_length: Length = Field(default=0, description="most tokens of an output; 0: as the data says")


def embeddings(config: RecurrentConfig) -> tuple[nn.Embedding, nn.Embedding]:
    """The source's and the target's table: one and the same where weights are tied and words shared."""
    source = nn.Embedding(config.source_vocab, config.dim)
    if config.tie and config.shared_vocab:
        return source, source
    return source, nn.Embedding(config.target_vocab, config.dim)


def output_layer(config: RecurrentConfig, features: int, target: nn.Embedding) -> nn.Linear:
    """Logits from `features`, with the embeddings as weights where they are tied."""
    output = nn.Linear(features, config.target_vocab)
    if config.tie:
        if features != config.dim:
            raise CanonError(
                f"system.tie needs system.dim = {features}, the features before the output layer; got {config.dim}."
            )
        output.weight = target.weight
    return output


@torch.no_grad()
def begin(network: nn.Module) -> None:
    """Weights at the start: Glorot's, but recurrent ones of each gate orthogonal, which keep a state's length; no bias.

    The papers' uniform ranges and small Gaussians are meant for a thousand units and hardly move a network of few.
    """
    initialize(network, "xavier-uniform")
    for layer in network.modules():
        if isinstance(layer, Recurrent):
            for name, parameter in layer.network.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(parameter)
                    continue
                fill = nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_
                for gate in parameter.split(layer.hidden):
                    fill(gate)
    for layer in network.modules():  # last, since an output layer may have the same weights
        if isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, std=_EMBEDDING)


class RecurrentEncoder(nn.Module):
    """Embedded tokens to one annotation per token and the last state of each layer.

    Both directions together have `hidden` units, so that a decoder of that size can go on from their last states.
    """

    def __init__(self, kind: str, dim: int, hidden: int, num_layers: int, bidirectional: bool, dropout: float) -> None:
        super().__init__()
        if bidirectional and hidden % 2:
            raise CanonError(f"system.hidden must be even with system.bidirectional, got {hidden}.")
        self.recurrence = Recurrent(
            kind, dim, hidden // 2 if bidirectional else hidden, num_layers, bidirectional, dropout
        )
        self.bidirectional = bidirectional

    def forward(self, x_ND: Tensor, source: Layout) -> tuple[Tensor, State]:
        """[N, H] and the state, [B, L, H] each."""
        out_NH, state = self.recurrence.ragged(x_ND, source)
        return out_NH, merge_directions(state) if self.bidirectional else state


def alignment(weights_BTS: Tensor, target: Layout) -> State:
    """Weights to look at: those of padding are zero."""
    return {"alignment": (weights_BTS * target.mask[:, :, None])[:, None]}


def reversed_order(layout: Layout) -> Tensor:
    """[N] indices that turn each sequence around."""
    starts, ends = layout.offsets[:-1].long(), layout.offsets[1:].long() - 1
    return (starts + ends)[layout.rows] - torch.arange(layout.total, device=layout.device)
