"""The recurrent language model: the next token from all before it, through a state that is carried along.

Mikolov et al. 2010, Recurrent neural network based language model: kind = "rnn". Zaremba, Sutskever and Vinyals 2014,
Recurrent neural network regularization (arXiv:1409.2329): kind = "lstm", dropout only on connections between layers
(their equations in section 3.1), sizes and initial weights of section 4.1 in the presets.
`RNNLM.forward`: x_t = D(E w_t); h_t^l = cell(D(h_t^{l−1}), h_{t−1}^l); logits = W D(h_t^L) + b, with D dropout; cells
are in canon/nn/recurrence.py. Truncated backpropagation through time is the task's: it cuts the state off at windows.
Deviations: two biases per gate, as torch; the rest of the papers' (data, schedule, clipping) is the recipe's.
Shapes: B streams, T steps, D features of an embedding, H hidden units, V tokens of the vocabulary.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.errors import CanonError
from canon.nn.decoding import LanguageModel
from canon.nn.recurrence import Kind, Recurrent
from canon.nn.states import State
from canon.systems.settings import Depth, Positive, Share


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="tokens of the vocabulary; the data decides")
    kind: Kind = Field(default="lstm", description="recurrent cell: rnn, gru or lstm")
    dim: Positive = Field(default=200, description="features of an embedding")
    hidden: Positive = Field(default=200, description="units of a layer")
    num_layers: Depth = Field(default=2, description="layers on top of each other")
    dropout: Share = Field(default=0.0, description="share dropped of embeddings, between layers and before the output")
    tie: bool = Field(default=False, description="output weights are the embeddings; needs dim = hidden")
    init_scale: Annotated[float, Field(gt=0)] = Field(default=0.1, description="weights begin uniform in ± this")


class RNNLM(nn.Module, LanguageModel):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.recurrence = Recurrent(config.kind, config.dim, config.hidden, config.num_layers, dropout=config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, config.vocab_size)
        if config.tie:
            if config.dim != config.hidden:
                raise CanonError(
                    f"system.tie needs system.dim equal to system.hidden, got {config.dim} and {config.hidden}."
                )
            self.output.weight = self.embedding.weight
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.init_scale, config.init_scale)

    def forward(self, token_BT: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits [B, T, V] of each next token, and the state to carry on with; no state: a stream begins."""
        x_BTD = self.dropout(self.embedding(token_BT))
        out_BTH, after = self.recurrence(x_BTD, state)
        return self.output(self.dropout(out_BTH)), after

    def init_state(self, batch: int, device: torch.device | str | None = None) -> State:
        return self.recurrence.init_state(batch, device)

    def read(self, token_BT: Tensor, room: int = 0) -> State:
        """The state after a prompt, to go on with; it takes no room."""
        return self(token_BT)[1] if token_BT.shape[1] else self.init_state(len(token_BT), token_BT.device)

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of the next token, and the state after `token_B`."""
        x_BD = self.dropout(self.embedding(token_B))
        out_BH, after = self.recurrence.step(x_BD, state)
        return self.output(self.dropout(out_BH)), after
