"""XLNet: predicts the tokens of a text in any order, each from those before it in that order, at its own place.

Yang et al. 2019, XLNet: generalized autoregressive pretraining for language understanding (arXiv:1906.08237). Section
2.3: content and query stream → canon/nn/attention/two_stream.py; `XLNetBlock` puts both through the same weights.
Partial prediction: the query stream runs only at the places that are predicted. Section 2.4: the memory of
Transformer-XL, for the content stream of texts that are read in segments. Section 2.5: relative segment encodings.
The output's matrix is that of the embeddings, with a bias. Weights begin at N(0, 0.02²), as in the authors' code.
For fine-tuning the content stream is used alone, and every token sees all others → `encode`.
Deviations: where nothing can be seen, nothing is attended to (two_stream.py); segments of memory are all the first.
Shapes: N tokens of B sequences, M of them predicted, D features, H heads of d, V tokens of the vocabulary, T places of
memory.
"""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Encodes, NamesTokens
from canon.nn.attention.block import ACTIVATIONS, Activation, Norm
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.two_stream import Sight, TwoStreamAttention, look
from canon.nn.packed import Linear
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.systems.settings import Depth, Natural, Positive, Share

_STD = 0.02


@settings
class Config:
    vocab_size: Positive = Field(default=32_000, description="tokens of the vocabulary; the data decides")
    dim: Positive = Field(default=768, description="features of a token")
    num_layers: Depth = Field(default=12, description="blocks")
    num_heads: Positive = Field(default=12, description="heads of each attention; dim must be a multiple of it")
    hidden: Positive = Field(default=3072, description="units inside the feed-forward networks")
    activation: Activation = Field(default="gelu", description="of the feed-forward networks")
    memory: Natural = Field(default=0, description="tokens before a segment that every layer sees; 0: none")
    eps: Annotated[float, Field(gt=0)] = Field(default=1e-12, description="ε of the norms")
    dropout: Share = Field(default=0.1, description="share dropped of embeddings, inner units and sublayers' outputs")
    attention_dropout: Share = Field(default=0.1, description="share dropped of attention weights")


class XLNetFeedForward(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.inner = Linear(config.dim, config.hidden)
        self.outer = Linear(config.hidden, config.dim)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x))))


class XLNetBlock(nn.Module):
    """Attention and the feed-forward network for both streams, each norm(x + f(x))."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = TwoStreamAttention(config.dim, config.num_heads, config.attention_dropout)
        self.attention_norm = Norm(config.dim, config.eps)
        self.feed_forward = XLNetFeedForward(config)
        self.feed_forward_norm = Norm(config.dim, config.eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, h_ND: Tensor, g_MD: Tensor | None, sight: Sight, memory_BTD: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        attended_ND, attended_MD = self.attention(h_ND, g_MD, sight, memory_BTD)
        h_ND = self._rest(h_ND, attended_ND)
        return h_ND, None if g_MD is None or attended_MD is None else self._rest(g_MD, attended_MD)

    def _rest(self, x: Tensor, attended: Tensor) -> Tensor:
        x = self.attention_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class XLNetEmbeddings(nn.Module):
    """A vector per token, and one that all queries begin with."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.token = TokenEmbedding(config.vocab_size, config.dim, scale=1.0)
        self.query = nn.Parameter(torch.empty(config.dim))

    def forward(self, token_N: Tensor) -> Tensor:
        return self.token(token_N)


class XLNetLayers(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(XLNetBlock(config) for _ in range(config.num_layers))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, h_ND: Tensor, g_MD: Tensor | None, sight: Sight, memory_BLTD: Tensor | None
    ) -> tuple[list[Tensor], Tensor | None]:
        """The content stream before and after each block, and the query stream's end."""
        sight = Sight(sight.content, sight.query, self.dropout(sight.waves))
        states = [self.dropout(h_ND)]
        g_MD = None if g_MD is None else self.dropout(g_MD)
        for i, block in enumerate(self.blocks):
            h_ND, g_MD = block(states[-1], g_MD, sight, None if memory_BLTD is None else memory_BLTD[:, i])
            states.append(h_ND)
        return [*states[:-1], self.dropout(states[-1])], None if g_MD is None else self.dropout(g_MD)


class XLNet(nn.Module, NamesTokens, Encodes):
    framing = "xlnet"
    limit = 0

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dim, self.memory = config.dim, config.memory
        self.embedding = XLNetEmbeddings(config)
        self.layers = XLNetLayers(config)
        self.head = nn.ParameterDict({"bias": torch.zeros(config.vocab_size)})
        for name, parameter in self.named_parameters():
            if name.endswith((".weight", "_bias", ".segment", ".query")) and "norm" not in name:
                nn.init.normal_(parameter, std=_STD)
            elif name.endswith(".bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        *,
        segment_N: Tensor | None = None,
        rank_N: Tensor | None = None,
        places_M: Tensor | None = None,
        places_lengths: Tensor | None = None,
        memory: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """What `logits` and `token_losses` read at `places_M` (in order; all places where it is None).

        A token is predicted from those of lower rank. Without ranks: from all that are not asked for, or, where all
        are, from those to the left. places_lengths [B], on the host, says how many places each sequence has; without
        it, the device is waited for.

        | result | shape | when |
        | --- | --- | --- |
        | hidden | [M, D] | always |
        | memory | [B, layers, T, D] | with system.memory, where sequences are equally long: for what comes next |
        """
        asked = _asked(layout, places_M, places_lengths)
        if rank_N is None:
            rank_N = layout.positions if places_M is None else torch.zeros_like(token_N).index_fill(0, places_M, 1)
        sight = look(layout, self.dim, rank_N, asked, segment_N, 0 if memory is None else memory.shape[2])
        g_MD = self.embedding.query.repeat(len(asked[0]), 1)
        states, x_MD = self.layers(self.embedding(token_N), g_MD, sight, memory)
        outputs = {"hidden": x_MD}
        if self.memory and layout.is_full:
            outputs["memory"] = self._newest(memory, states[:-1], layout)
        return outputs

    def logits(self, hidden_MD: Tensor) -> Tensor:
        """Of each token of the vocabulary, [M, V]."""
        return self.embedding.token.logits(hidden_MD, self.head["bias"])

    def token_losses(self, hidden_MD: Tensor, target_M: Tensor) -> TokenLoss:
        return self.embedding.token.token_losses(hidden_MD, target_M, self.head["bias"])

    def _newest(self, memory_BLTD: Tensor | None, states: list[Tensor], layout: Layout) -> Tensor:
        """The last inputs of each layer, without their history."""
        held = torch.stack([layout.pad(state.detach()) for state in states], 1)
        held = held if memory_BLTD is None else torch.cat([memory_BLTD, held], 2)
        return held[:, :, max(held.shape[2] - self.memory, 0) :]

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> list[Tensor]:
        """The embeddings, then the output of each block, [N, D] each: the content stream, seeing everything."""
        return self.layers(self.embedding(token_N), None, look(layout, self.dim, segment_N=segment_N), None)[0]

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """[B, D]: the last token's, which is <cls>."""
        return hidden_ND.index_select(0, layout.ends)


def _asked(layout: Layout, places_M: Tensor | None, places_lengths: Tensor | None) -> tuple[Tensor, Layout]:
    """The places asked for, and how they lie in the sequences."""
    if places_M is None:
        return torch.arange(layout.total, device=layout.device), layout
    if places_lengths is None:
        places_lengths = torch.bincount(layout.rows[places_M], minlength=layout.size)
    return places_M, Layout(places_lengths, layout.device)
