"""GPT-1: a left-to-right Transformer trained on running text, then fine-tuned.

Radford et al. 2018, Improving language understanding by generative pre-training. The decoder of the Transformer without
its cross-attention, post-norm, GELU (by tanh, as in the authors' code), learned positions, 12 blocks of 768 with 12
heads; the output is tied to the embeddings. Fine-tuning adds λ · the language model's loss: canon's `finetune` system.
`CausalTransformer` is what GPT-2 and GPT-3 share with it: reading a prompt and going on token by token.
Deviations: none. Shapes: N tokens of B sequences, T tokens of a prompt, D features, H heads of d, L layers, C places
of the cache, V tokens of the vocabulary.
"""

from __future__ import annotations

from pydantic import Field

from canon.config import settings
from canon.nn.attention.block import Activation
from canon.systems.pretrained.base import StackConfig
from canon.systems.pretrained.causal import CausalTransformer
from canon.systems.settings import Positive


@settings
class Config(StackConfig):
    vocab_size: Positive = Field(default=40478, description="tokens of the vocabulary; the data decides")
    activation: Activation = Field(default="gelu-tanh", description="of the feed-forward networks")


class GPT(CausalTransformer):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.reset()
