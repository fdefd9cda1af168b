"""The neural probabilistic language model: the next word from vectors of the n − 1 words before it.

Bengio, Ducharme, Vincent and Jauvin 2003, A neural probabilistic language model (JMLR 3), section 2:
  x = (C(w_{t−1}), …, C(w_{t−n+1}))     the rows of C for the last n − 1 words, newest first: `NNLM.context`
  y = b + W x + U tanh(d + H x)         P(w_t | …) = softmax(y): `NNLM.logits`; W only with `direct`
C(w) is the one-hot vector of w times C. Looking the row up is that product without its V − 1 zeros, in both directions:
the gradient of C is Σ_t onehot(w_t)ᵀ ∂L/∂C(w_t), which touches the rows that were looked up.
The state between windows is the last n − 2 words; where a stream begins, <bos> stands for words that are not there.
Deviations: dropout of x and of the tanh layer is a choice; the recipes train with Adam, the paper with plain gradient
descent, one word at a time over many processors; no mixture with the trigram model.
Shapes: B streams, T steps, S = n − 2 + T words in sight, D features of a word, H hidden units, V words.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.data.text.vocabularies import BOS
from canon.nn.decoding import LanguageModel
from canon.nn.initialization import initialize
from canon.nn.states import State
from canon.systems.settings import Positive, Share


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="words of the vocabulary; the data decides")
    order: Annotated[Positive, Field(ge=2)] = Field(
        default=5, description="n: a word is predicted from the n − 1 before it"
    )
    dim: Positive = Field(default=100, description="features of a word, the paper's m")
    hidden: Positive = Field(default=200, description="units of the tanh layer, the paper's h")
    direct: bool = Field(default=False, description="connections W from the words' features straight to the output")
    dropout: Share = Field(default=0.0, description="share dropped of the words' features and of the tanh layer")


class NNLM(nn.Module, LanguageModel):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.order = config.order
        features = (config.order - 1) * config.dim
        self.embedding = nn.Embedding(config.vocab_size, config.dim)  # C
        self.hidden = nn.Linear(features, config.hidden)  # H, d
        self.output = nn.Linear(config.hidden, config.vocab_size)  # U, b
        self.direct = nn.Linear(features, config.vocab_size, bias=False) if config.direct else None  # W
        self.dropout = nn.Dropout(config.dropout)
        initialize(self, "xavier-uniform")
        # Small, so that tanh begins where it is steep and the outputs near the uniform guess.
        nn.init.normal_(self.embedding.weight, std=0.1)
        for layer in filter(None, (self.output, self.direct)):
            nn.init.normal_(layer.weight, std=0.01)

    def forward(self, token_BT: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Logits [B, T, V] of each next word, and the state to carry on with; no state: a stream begins."""
        before = self.init_state(len(token_BT), token_BT.device) if state is None else state
        token_BS = torch.cat((before["context"], token_BT), dim=1)
        return self.logits(self.context(token_BS)), {"context": token_BS[:, token_BT.shape[1] :]}

    def context(self, token_BS: Tensor) -> Tensor:
        """x [B, T, (n − 1)·D]: for every word with n − 2 before it, their rows of C and its own, newest first."""
        token_BTN = token_BS.unfold(1, self.order - 1, 1).flip(2)
        return self.embedding(token_BTN).flatten(2)

    def logits(self, x_BTN: Tensor) -> Tensor:
        x_BTN = self.dropout(x_BTN)
        y_BTV = self.output(self.dropout(torch.tanh(self.hidden(x_BTN))))
        return y_BTV if self.direct is None else y_BTV + self.direct(x_BTN)

    def init_state(self, batch: int, device: torch.device | str | None = None) -> State:
        return {"context": torch.full((batch, self.order - 2), BOS, device=device)}

    def read(self, token_BT: Tensor, room: int = 0) -> State:
        """The state after a prompt, to go on with: its last words, and no room."""
        before = self.init_state(len(token_BT), token_BT.device)["context"]
        return {"context": torch.cat((before, token_BT), dim=1)[:, token_BT.shape[1] :]}

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits [B, V] of the next word, and the state after `token_B`."""
        logits_B1V, after = self(token_B[:, None], state)
        return logits_B1V[:, 0], after
