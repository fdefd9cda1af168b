"""Sentence embeddings: a pre-trained network, pooled to one vector for each text.

Reimers and Gurevych 2019, Sentence-BERT (arXiv:1908.10084), section 3 and figure 1: W[u; v; |u − v|] is `head`, which
only softmax-nli trains; Gao, Yao and Chen 2021, SimCSE (2104.08821): pooling by cls-mlp. Vectors of a text are
`normalize(activation(W pool(states) + b))`, the dense layer and the scaling where they are asked for → `Embed.forward`.
Pooling is canon/nn/sentence_pooling.py, the losses are canon/objectives/sentences.py. The backbone is a system of the
registry with its own settings; what only pre-training uses is left out. Weights come by train.init.
Deviations: see the record.
Shapes: N tokens of S texts end to end, D features of a vector, K classes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Paced, ParameterPace, Suggests, TakesVocabulary
from canon.errors import CanonError
from canon.nn.activations import ACTIVATIONS
from canon.nn.attention.multihead import MultiHead
from canon.nn.ragged import Layout
from canon.nn.sentence_pooling import FIRST, POOLINGS, STATES, SentencePooling
from canon.systems.pretrained.finetune import (
    PRETRAINING_PARTS,
    backbone_paces,
    build_backbone,
    drop_part,
    num_states,
    suggested_rate,
)
from canon.systems.settings import Natural, Positive

_CLS_LAST = ("xlnet",)  # framings
_NO_CLS = ("gpt", "t5", "words")
_STD = 0.02
_VISITS = 60_000  # of rows, in all epochs; see `suggest`
_MOST_EPOCHS = 10


def _one(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Pooling = Literal[POOLINGS]  # type: ignore[valid-type]


@settings
class Config:
    backbone: str = Field(default="bert", description="the pre-trained system, as in bert or gpt2; train.init says")
    settings: dict[str, Any] = Field(default_factory=dict, description="the backbone's own settings; train.init says")
    vocab_size: Positive = Field(default=30522, description="tokens of its tokenizer; the data decides")
    pooling: Annotated[tuple[Pooling, ...], BeforeValidator(_one), Field(min_length=1)] = Field(
        default=("mean",),
        description=f"how a text's tokens become one vector, several side by side: {', '.join(POOLINGS)}",
    )
    dense: Natural = Field(default=0, description="features of a dense layer on top; 0: none")
    dense_activation: Literal["tanh", "identity", "relu", "gelu"] = Field(
        default="tanh", description="of the dense layer"
    )
    normalize: bool = Field(default=False, description="vectors of length 1")
    num_classes: Natural = Field(
        default=0, description="classes of two texts, which W of softmax-nli tells apart; the data decides"
    )
    prompts: dict[str, str] = Field(
        default_factory=dict, description='texts by name to put before others, as in { query = "query: " }'
    )
    prompt: str = Field(
        default="", description="the name of the prompt that is put before texts where none is asked for"
    )
    similarity: Literal["cosine", "dot"] = Field(
        default="cosine", description="by which vectors are compared in search"
    )


class Embed(nn.Module, TakesVocabulary, Paced, Suggests):
    @classmethod
    def suggest(cls, recipe: Any, schema: Any, size: int) -> dict[str, Any]:
        """A rate that falls as the network grows, as `finetune` has it; 1 to 10 epochs, the more the fewer the rows."""
        with torch.device("meta"):
            rate = suggested_rate(build_backbone(recipe.config)) * (1 if recipe.train.init else 3)
        epochs = min(max(round(_VISITS / size), 1), _MOST_EPOCHS)
        return {"optimizer.lr": float(f"{rate:.1e}"), "train.epochs": float(epochs)}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.backbone: Any = build_backbone(config)
        for name in (*PRETRAINING_PARTS, "pooler"):
            drop_part(self.backbone, name)
        framing = self.backbone.framing
        for way in config.pooling:
            if way in FIRST and framing in _NO_CLS:
                raise CanonError(f"system.pooling: {config.backbone} has no [CLS] token for {way}; use mean or last.")
            if way in STATES and num_states(self.backbone) < 2:
                raise CanonError(f"system.pooling: {config.backbone} has too few layers for {way}.")
        self.pooling = SentencePooling(config.pooling, self.backbone.dim, framing in _CLS_LAST)
        features = self.backbone.dim * len(config.pooling)
        self.dense = nn.Linear(features, config.dense) if config.dense else None
        self.activation = ACTIVATIONS[config.dense_activation]() if config.dense else None
        self.dim = config.dense or features
        self.head = nn.Linear(3 * self.dim, config.num_classes, bias=False) if config.num_classes else None
        for part in (self.pooling.mlp, self.dense, self.head):
            if part is not None:
                nn.init.normal_(part.weight, std=_STD)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)

    def take_vocabulary(self, vocabulary: Any) -> None:
        if isinstance(self.backbone, TakesVocabulary):
            self.backbone.take_vocabulary(vocabulary)

    def forward(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None) -> Tensor:
        """Vectors [S, D]."""
        vectors_SD = self.pooling(self.backbone.encode(token_N, layout, segment_N), layout)
        if self.dense is not None:
            assert self.activation is not None
            vectors_SD = self.activation(self.dense(vectors_SD))
        if self.config.normalize:
            vectors_SD = F.normalize(vectors_SD, dim=1)
        return vectors_SD

    def related(self, vectors_SD: Tensor) -> Tensor:
        """The outputs [S/2, K] for the classes of two texts, from the vectors of texts two by two."""
        assert self.head is not None
        u_PD, v_PD = vectors_SD.view(-1, 2, self.dim).unbind(1)
        # W[u; v; |u − v|]
        logits_PK: Tensor = self.head(torch.cat([u_PD, v_PD, (u_PD - v_PD).abs()], dim=1))
        return logits_PK

    @property
    def drops(self) -> bool:
        """Whether two passes of one text differ while it learns."""
        modules = list(self.modules())
        shares = [module.p for module in modules if isinstance(module, nn.Dropout)]
        return any(shares + [module.dropout for module in modules if isinstance(module, MultiHead)])

    def paces(self) -> dict[str, ParameterPace]:
        """Biases and the norms' numbers do not decay."""
        return backbone_paces(self, 1.0)
