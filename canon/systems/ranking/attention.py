"""The attentive ranker: documents of a query attend to each other, so that a score depends on all candidates.

Pobrotyn, Bartczak, Synowiec, Białobrzeski and Bojar 2020, Context-aware learning to rank with self-attention
(arXiv:2005.10084), figure 1: a dense layer, N encoder blocks of the Transformer without positions, a dense layer. The
blocks are those of canon/nn/attention/block.py, on lists end to end: no padding, no slate length.
Deviations: none without positions, which the paper uses for re-ranking only.
Shapes: N documents of B queries, F features, D features inside.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.attention.block import Activation, NormPlace, Sizes, TransformerEncoder
from canon.nn.ragged import Layout
from canon.systems.ranking.head import Head, Scorer
from canon.systems.settings import Depth, Positive, Share


@settings
class Config(Scorer):
    dim: Positive = Field(default=64, description="features of a document inside")
    num_layers: Depth = Field(default=2, description="blocks of attention")
    num_heads: Positive = Field(default=2, description="heads of each attention; dim must be a multiple of it")
    hidden: Positive = Field(default=128, description="units inside the feed-forward networks")
    norm: NormPlace = Field(default="pre", description="post: after each sum; pre: before each sublayer")
    activation: Activation = Field(default="relu", description="of the feed-forward networks: relu or gelu")
    dropout: Share = Field(default=0.1, description="share dropped of each sublayer's output")


class AttentionRanker(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        sizes = Sizes(
            config.dim,
            config.num_heads,
            config.hidden,
            dropout=config.dropout,
            norm=config.norm,
            activation=config.activation,
        )
        self.embed = nn.Linear(config.shape[0], config.dim)
        self.encoder = TransformerEncoder(sizes, [0] * config.num_layers)
        self.head = Head(config.dim, config)

    def forward(self, input_NF: Tensor, layout: Layout) -> Tensor:
        return self.head(self.encoder(self.embed(input_NF), layout))
