"""GPT-3 style: GPT-2 with every other layer looking only at a band, and shown examples instead of being fine-tuned.

Brown et al. 2020, Language models are few-shot learners (arXiv:2005.14165), section 2.1: the network of GPT-2 with
alternating dense and locally banded attention (canon/nn/attention/sparse.py), 2048 positions. Sizes: table 2.1.
Few-shot prompts (section 2): canon/use/scoring.py.
Deviations: the paper does not give the band's width; `window` is 256 here. Shapes: as in gpt.py.
"""

from __future__ import annotations

from pydantic import Field

from canon.config import settings
from canon.nn.attention.sparse import Sparse, windows
from canon.systems.pretrained import gpt2
from canon.systems.settings import Positive


@settings
class Config(gpt2.Config):
    max_positions: Positive = Field(default=2048, description="longest sequence")
    sparse: Sparse = Field(default="alternating", description="self-attention in a band: none, banded, alternating")
    window: Positive = Field(default=256, description="width of the band: tokens less than so far away are seen")


class GPT3(gpt2.GPT2):
    def __init__(self, config: Config) -> None:
        super().__init__(config, windows(config.sparse, config.num_layers, config.window))
