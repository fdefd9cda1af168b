"""CPC: contrastive predictive coding, a recurrent summary of what came before that picks what comes next.

Van den Oord, Li and Vinyals 2018, Representation learning with contrastive predictive coding (arXiv:1807.03748),
section 2.2 and figure 1: z_t = g_enc(x_t) is `encode`, c_t = g_ar(z_{≤t}) is `context`, z_{t+k}ᵀ W_k c_t (equation 3)
is what `ahead` and canon/objectives/contrastive.py:FutureSteps compute. For text g_enc is a convolution over
embeddings, a rectifier and the mean over a sentence (section 3.3); for a series two dense layers.
Deviations: see the record.
Shapes: B strands, T steps, S = B·T steps in all, N tokens, D features of z, E of c, K steps ahead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.ragged import Layout
from canon.nn.recurrence import Recurrent
from canon.systems.settings import Natural, Positive


@settings
class Config:
    vocab_size: Natural = Field(default=0, description="tokens of the vocabulary; 0 for a series; the data decides")
    shape: tuple[Positive, ...] = Field(default=(), description="steps, numbers of a step; the data decides")
    dim: Positive = Field(default=256, description="features of z, and of a token's embedding")
    hidden: Positive = Field(default=512, description="units of the GRU: features of c")
    ahead: Positive = Field(default=3, description="K: how many steps ahead it looks")
    kernel: Positive = Field(default=3, description="tokens that the convolution sees; an odd number")


class Coded(NamedTuple):
    z_SD: Tensor  # noqa: N815
    c_SE: Tensor  # noqa: N815
    predicted_SKD: Tensor  # noqa: N815 (W_k c_t)


class CPC(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        if config.vocab_size:
            self.embedding = nn.Embedding(config.vocab_size, config.dim)
            self.convolution = nn.Conv1d(config.dim, config.dim, config.kernel, padding=config.kernel // 2)
        else:
            numbers = config.shape[-1] if config.shape else 1
            self.dense = nn.Sequential(
                nn.Linear(numbers, config.hidden), nn.ReLU(), nn.Linear(config.hidden, config.dim)
            )
        self.context = Recurrent("gru", config.dim, config.hidden)
        self.ahead = nn.Linear(config.hidden, config.ahead * config.dim, bias=False)

    def forward(self, x: Tensor, parts: Layout, sentences: Layout | None = None) -> Coded:
        """x: tokens [N] of sentences, or steps [S, numbers]. parts: how many steps each strand has."""
        z_SD = self.encode(x, sentences)
        c_SE = self.context.ragged(z_SD, parts)[0]
        return Coded(z_SD, c_SE, self.ahead(c_SE).view(len(c_SE), self.config.ahead, self.config.dim))

    def encode(self, x: Tensor, sentences: Layout | None) -> Tensor:
        if sentences is None:
            dense_SD: Tensor = self.dense(x)
            return dense_SD
        x_SDL = sentences.pad(self.embedding(x)).transpose(1, 2)
        hidden_SLD = torch.relu(self.convolution(x_SDL)).transpose(1, 2)
        return sentences.mean(sentences.unpad(hidden_SLD[:, : sentences.max_length].contiguous()))
