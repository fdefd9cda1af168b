"""What Transformers that learn from running text have in common: embeddings, one stack, a head that names tokens.

BERT, RoBERTa, GPT-1 to 3, UniLM and ERNIE are this module with their choices written in their own short files: where
the norms stand, what a token sees, how embeddings are made, which heads there are. Tokens lie end to end, without
padding (canon.nn.ragged); logits are made only at the places asked for, and for losses never all at once
(canon.nn.token_loss). Shapes: N tokens of B sequences, M places, D features, V tokens of the vocabulary, T positions.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Attends, Directed, Encodes, GraphRecordable, TakesPrompts
from canon.errors import CanonError
from canon.nn.attention.block import ACTIVATIONS, Activation, Norm, NormPlace, Record, Sizes, TransformerEncoder
from canon.nn.attention.embedding import TokenEmbedding
from canon.nn.attention.prefix import WithPrefix
from canon.nn.dropout import Dropout
from canon.nn.packed import Linear
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.systems.settings import Depth, Positive, Share

Outputs = dict[str, Tensor]

_STD = 0.02  # of first weights, in all of these papers' code


@settings
class StackConfig:
    """The settings that all of them have."""

    vocab_size: Positive = Field(default=30522, description="tokens of the vocabulary; the data decides")
    dim: Positive = Field(default=768, description="features of a token")
    num_layers: Depth = Field(default=12, description="blocks")
    num_heads: Positive = Field(default=12, description="heads of each attention; dim must be a multiple of it")
    hidden: Positive = Field(default=3072, description="units inside the feed-forward networks")
    max_positions: Positive = Field(default=512, description="longest sequence")
    activation: Activation = Field(default="gelu", description="of the feed-forward networks")
    eps: Annotated[float, Field(gt=0)] = Field(default=1e-5, description="ε of the norms")
    dropout: Share = Field(default=0.1, description="share dropped of embeddings and of each sublayer's output")
    attention_dropout: Share = Field(default=0.1, description="share dropped of attention weights")


class Embeddings(nn.Module):
    """E_token + E_position (+ E_segment), then norm (where there is one) and dropout."""

    def __init__(self, config: StackConfig, segments: int = 0, norm: bool = False) -> None:
        super().__init__()
        self.limit = config.max_positions
        self.token = TokenEmbedding(config.vocab_size, config.dim, scale=1.0)
        self.position = nn.Embedding(config.max_positions, config.dim)
        self.segment = nn.Embedding(segments, config.dim) if segments else None
        self.norm = Norm(config.dim, config.eps) if norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        segment_N: Tensor | None = None,
        more_ND: Tensor | None = None,
        vectors_KD: Tensor | None = None,
    ) -> Tensor:
        """more_ND: what else is added to a token, before the norm. vectors_KD: what tokens from V on are."""
        if layout.max_length > self.limit:
            raise CanonError(
                f"A sequence has {layout.max_length:,} tokens, the network has {self.limit:,} positions; cut the text, "
                "or train with a larger system.max_positions."
            )
        places_ND = self.position(layout.positions)
        if self.segment is not None:
            # Without segments all is the first.
            more = self.segment.weight[0] if segment_N is None else self.segment(segment_N)
            places_ND = places_ND + more
        if more_ND is not None:
            places_ND = places_ND + more_ND
        return self.dropout(self.norm(self.token(token_N, places_ND, vectors_KD)))


class Transform(nn.Module):
    """BERT's way from a token's features to those that name it: dense, activation, norm; and the output's bias."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        self.dense = Linear(config.dim, config.dim)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = Norm(config.dim, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x_MD: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(x_MD)))


class Pretrained(nn.Module, TakesPrompts, Encodes, Attends, Directed, GraphRecordable):
    """One stack over one sequence of tokens each, and a head that names the tokens at some places."""

    framing: ClassVar[str] = "bert"  # canon.data.framing: where special tokens stand
    causal: ClassVar[bool] = False  # whether a token sees only those before it
    norm: ClassVar[NormPlace] = "post"
    segments: ClassVar[int] = 0  # kinds of segments that have embeddings
    embedding_norm: ClassVar[bool] = False
    transforms: ClassVar[bool] = False  # whether the head has BERT's transform
    records: bool = True  # a pass can be a CUDA graph: all of it works on tokens end to end

    def __init__(self, config: StackConfig, bands: list[int] | None = None) -> None:
        super().__init__()
        sizes = Sizes(
            config.dim,
            config.num_heads,
            config.hidden,
            config.dropout,
            config.attention_dropout,
            self.norm,
            config.activation,
            config.eps,
        )
        self.dim, self.limit = config.dim, config.max_positions
        self.embedding = Embeddings(config, self.segments, self.embedding_norm)
        self.layers = TransformerEncoder(sizes, bands or [0] * config.num_layers)
        self.head = Transform(config) if self.transforms else None

    def reset(self) -> None:
        """First weights: N(0, 0.02²), biases 0; called once all parts are made."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=_STD)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding | TokenEmbedding):
                nn.init.normal_(module.weight, std=_STD)

    def forward(
        self, token_N: Tensor, layout: Layout, *, segment_N: Tensor | None = None, places_M: Tensor | None = None
    ) -> Outputs:
        """What `logits` and `token_losses` read, and what a network predicts of whole sequences.

        | result | shape | when |
        | --- | --- | --- |
        | hidden | [M, D] features at `places_M`, at all places where it is None | always |
        | next | [B, 2] | where there is a head for it: follows, does not |
        """
        return self.predict(
            self.layers(self.embedding(token_N, layout, segment_N), layout, self.causal), layout, places_M
        )

    def predict(self, hidden_ND: Tensor, layout: Layout, places_M: Tensor | None) -> Outputs:
        return {"hidden": hidden_ND if places_M is None else hidden_ND.index_select(0, places_M)}

    def logits(self, hidden_MD: Tensor) -> Tensor:
        """Of each token of the vocabulary, [M, V]."""
        return self.embedding.token.logits(*self._named(hidden_MD))

    def token_losses(self, hidden_MD: Tensor, target_M: Tensor, share_M: Tensor | None = None) -> TokenLoss:
        """The losses of `target_M` under these logits, each `share_M` times in the sum."""
        x_MD, bias_V = self._named(hidden_MD)
        return self.embedding.token.token_losses(x_MD, target_M, bias_V, share_M)

    def prompted(
        self,
        token_N: Tensor,
        layout: Layout,
        segment_N: Tensor | None = None,
        *,
        vectors_KD: Tensor | None = None,
        prefix_LP2D: Tensor | None = None,
    ) -> Tensor:
        if prefix_LP2D is None:
            x_ND = self.embedding(token_N, layout, segment_N, vectors_KD=vectors_KD)
            return self.layers(x_ND, layout, self.causal)
        wide = WithPrefix(layout, prefix_LP2D.shape[1])
        segment_N = segment_N if segment_N is None else wide.widen(segment_N)
        x_ND = self.embedding(wide.widen(token_N), wide.layout, segment_N, vectors_KD=vectors_KD)
        return wide.narrow(self.layers(x_ND, wide.layout, self.causal, wide.of_layers(prefix_LP2D)))

    def naming(self, hidden_MD: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        features_MD, bias_V = self._named(hidden_MD)
        return features_MD, self.embedding.token.weight, bias_V

    def _named(self, hidden_MD: Tensor) -> tuple[Tensor, Tensor | None]:
        return (hidden_MD, None) if self.head is None else (self.head(hidden_MD), self.head.bias)

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> list[Tensor]:
        """The embeddings, then the output of each block, [N, D] each."""
        return self.layers.states(self.embedding(token_N, layout, segment_N), layout, self.causal)

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """One vector for each sequence: that of its first token."""
        return hidden_ND.index_select(0, layout.starts)

    @torch.no_grad()
    def attention(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> Record:
        """All weights [B, H, L, L], by layer."""
        return self.layers.attention(self.embedding(token_N, layout, segment_N), layout, self.causal)[0]
