"""A text as the vectors of its words: the baseline that a network for texts must beat.

It stands where a pre-trained network does, so that pooling, dense layers and losses of `embed` go with it; with mean
pooling a text is the mean of its words' vectors. Words without a vector are zeros, of which a cosine knows nothing.
Shapes: N words of S texts end to end, D features.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from canon.nn.ragged import Layout


class WordBag(nn.Module):
    framing: ClassVar[str] = "words"
    limit = 0  # words of a text: any

    def __init__(self, vocab_size: int, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.embedding = nn.Embedding(vocab_size, dim)

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> list[Tensor]:
        return [self.embedding(token_N)]

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        return layout.mean(hidden_ND)
