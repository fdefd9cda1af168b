"""GPT-2: GPT with its norms before each sublayer, trained on more text to do tasks without being shown any.

Radford et al. 2019, Language models are unsupervised multitask learners, section 2.3: pre-norm, a norm after the last
block, residual projections divided by √N at the start (N residual layers, two in each block), 1024 positions, 50,257
byte-level tokens. Sizes (table 2): 124 M, 355 M, 774 M and 1.5 B; the paper's own counts for the first two are 117 M
and 345 M. Zero-shot scoring: `canon evaluate RUN --task`.
Deviations: none. Shapes: as in gpt.py.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field

from canon.config import settings
from canon.nn.attention.block import Activation
from canon.systems.pretrained.base import StackConfig
from canon.systems.pretrained.causal import CausalTransformer
from canon.systems.settings import Positive


@settings
class Config(StackConfig):
    vocab_size: Positive = Field(default=50257, description="tokens of the vocabulary; the data decides")
    max_positions: Positive = Field(default=1024, description="longest sequence")
    activation: Activation = Field(default="gelu-tanh", description="of the feed-forward networks")


class GPT2(CausalTransformer):
    norm = "pre"

    def __init__(self, config: Config, bands: list[int] | None = None) -> None:
        super().__init__(config, bands)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        super().reset()
        factor = 1 / math.sqrt(2 * len(self.layers.blocks))
        for block in self.layers.blocks:
            block.attention.output.weight.mul_(factor)  # type: ignore[union-attr, operator]
            block.feed_forward.outer.weight.mul_(factor)  # type: ignore[union-attr, operator]
