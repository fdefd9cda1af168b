"""BERT: a Transformer that sees both sides, trained to fill in hidden words and to say whether two sentences follow.

Devlin et al. 2019, BERT: pre-training of deep bidirectional Transformers (arXiv:1810.04805). Input (section 3, figure
2): token + segment + position embeddings, then a norm → `Embeddings`; blocks are post-norm with GELU. Masked words
(section 3.1, task 1): the objective, head `Transform` tied to the embeddings. Next sentence (task 2): tanh(W h_CLS) →
`pool`, two classes → `next`. Sizes: base L=12 D=768 H=12, large L=24 D=1024 H=16. First weights N(0, 0.02²).
objective.masking = "word" hides whole words (the authors' later release; for Chinese with data.segmenter), "span"
ERNIE's phrases (Sun et al. 2019, 1904.09223).
Deviations: masks are new at every visit, not once for ten copies of the text; sequence lengths are the data's
from the first step, not 128 and then 512. Shapes: N tokens of B sequences, D features.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from canon.config import settings
from canon.nn.packed import Linear
from canon.nn.ragged import Layout
from canon.systems.pretrained.base import Outputs, Pretrained, StackConfig


@settings
class Config(StackConfig):
    eps: float = Field(default=1e-12, description="ε of the norms", gt=0)
    next_sentence: bool = Field(
        default=True, description="a head that says whether two texts follow each other; the objective decides"
    )


class Bert(Pretrained):
    segments = 2
    embedding_norm = True
    transforms = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.pooler = Linear(config.dim, config.dim)
        self.next = Linear(config.dim, 2) if config.next_sentence else None
        self.reset()

    def predict(self, hidden_ND: Tensor, layout: Layout, places_M: Tensor | None) -> Outputs:
        outputs = super().predict(hidden_ND, layout, places_M)
        return outputs if self.next is None else outputs | {"next": self.next(self.pool(hidden_ND, layout))}

    def pool(self, hidden_ND: Tensor, layout: Layout) -> Tensor:
        """tanh(W h + b) of the first token."""
        return torch.tanh(self.pooler(super().pool(hidden_ND, layout)))
