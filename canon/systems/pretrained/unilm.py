"""UniLM: one network that reads both ways, left to right, or one text after another, by its masks alone.

Dong et al. 2019, Unified language model pre-training (arXiv:1905.03197), section 2.3 and figure 1: bidirectional,
unidirectional and sequence-to-sequence objectives on BERT's network, which differ in what a token may see: the first
`prefix` tokens of a sequence see each other, every token sees all before it (prefix = length: both ways, 0: left to
right). Hidden tokens are filled in under each mask, as in the paper.
Deviations: right to left (a sixth of the paper's mixture) is the left-to-right mask on the reversed text. Each kind of
mask has its own segment ids, as in the paper. Shapes: as in bert.py.
"""

from __future__ import annotations

from torch import Tensor

from canon.nn.ragged import Layout
from canon.systems.pretrained.base import Outputs
from canon.systems.pretrained.bert import Bert, Config

__all__ = ["Config", "UniLM"]


class UniLM(Bert):
    causal = True  # but for each sequence's prefix
    segments = 6
    records = False  # a prefix is seen through a mask on a grid

    def forward(
        self, token_N: Tensor, layout: Layout, *, prefix_lengths: Tensor | None = None, **options: Tensor | None
    ) -> Outputs:
        """prefix_lengths [B]: None for all of each sequence."""
        seen = Layout(layout.lengths, layout.device, layout.lengths if prefix_lengths is None else prefix_lengths)
        return super().forward(token_N, seen, **options)

    def encode(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> list[Tensor]:
        return super().encode(token_N, Layout(layout.lengths, layout.device, layout.lengths), segment_N)

    def prompted(
        self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None, **given: Tensor | None
    ) -> Tensor:
        return super().prompted(token_N, Layout(layout.lengths, layout.device, layout.lengths), segment_N, **given)
