"""A pre-trained network with a new head: one class or number of a text, tags of its words, an answer in it, a choice.

Devlin et al. 2019 (arXiv:1810.04805), section 4 and figure 4: a class is softmax(W C), C the pooled vector of the
sequence (4.1); a span is the pair i ≤ j with the greatest S·T_i + E·T_j (4.2); a choice is the softmax over V·C of its
sequences (4.4); a tag is softmax(W T_i) of a word's first piece (5.3) → `FineTune.forward`. Feature extraction (5.3):
`frozen`, any `layers` side by side, a BiLSTM on them (`lstm`); `mix` is ELMo's Σ s_j h_j of all layers (Peters et al.
2018, equation 1). Rates that fall with depth (`layer_decay`): Howard and Ruder 2018 (1801.06146), section 3.2, in
`paces`. GPT-1's auxiliary objective (Radford et al. 2018, equation 5): the loss of next tokens, in `language`. The
backbone is a system of the registry with its own settings, so that a run has all that is needed to build it again; what
only pre-training uses (heads, decoder) is left out. Weights come by train.init.
Deviations: with `pooling` = "mean", and where `layers`, `mix` or `lstm` change what the head reads, the vector of a
sequence is the mean over its tokens; the backbone's own pooling is for its last layer alone.
Shapes: N tokens of S sequences, P places, D features of the backbone, F features that the head reads, C outputs.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from canon import registry
from canon.config import settings
from canon.contracts import (
    Directed,
    Encodes,
    GraphRecordable,
    KeepsVectors,
    Paced,
    ParameterPace,
    Suggests,
    TakesVocabulary,
)
from canon.data.targets import TARGETS, Choice, Class, Number, Span, Tags, Target
from canon.errors import CanonError
from canon.nn.mix import ScalarMix
from canon.nn.packed import Linear
from canon.nn.ragged import Layout
from canon.nn.recurrence import Recurrent
from canon.systems.settings import Natural, Positive, Share
from canon.systems.words.bag import WordBag

Kind = Literal["", "class", "number", "tags", "span", "choice"]

# Parts of a backbone that only pre-training uses, and the one that only pooling does.
PRETRAINING_PARTS = ("head", "next", "decoder", "softmax", "embedding.query")
_POOLING = "pooler"
_STD = 0.02  # of the head's first weights
_RATE, _SIZE = 3e-5, 768 * 12  # of BERT-base
_LARGEST_RATE = 5e-4
_VISITS = 20_000  # of examples, in all epochs; see `suggest`
_NO_TARGET = -1  # nothing follows a sequence's last token
_BLOCK = re.compile(r"\.(?:blocks|layers)\.(\d+)\.")
_EMBEDDING = re.compile(r"backbone\.(?:embedding|words)\b")


@settings
class Config:
    backbone: str = Field(default="bert", description="the pre-trained system, as in bert or gpt2; train.init says")
    settings: dict[str, Any] = Field(default_factory=dict, description="the backbone's own settings; train.init says")
    vocab_size: Positive = Field(default=30522, description="tokens of its tokenizer; the data decides")
    kind: Kind = Field(default="", description="what is asked: class, number, tags, span or choice; the data decides")
    num_classes: Positive = Field(default=2, description="classes or tags; the data decides")
    dropout: Share = Field(default=0.1, description="share dropped of what the head reads")
    layers: tuple[Annotated[int, Field(ge=-1000, le=1000)], ...] = Field(
        default=(-1,), description="what the head reads, side by side: 0 the embeddings, −1 the last layer"
    )
    mix: bool = Field(default=False, description="a learned mix of all layers in place of these")
    pooling: Literal["own", "mean"] = Field(
        default="own", description="the vector of a sequence: the backbone's own, or the mean over its tokens"
    )
    lstm: Natural = Field(default=0, description="units of a BiLSTM on top, in each direction; 0: none")
    frozen: bool = Field(default=False, description="the backbone stays as it is: only what is on top learns")
    layer_decay: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0, description="rate of each layer, as a share of that of the layer above it"
    )
    auxiliary: Annotated[float, Field(ge=0)] = Field(
        default=0.0,
        description="λ of GPT-1, which needs a backbone that reads from left to right; the objective decides",
    )
    null_threshold: float = Field(
        default=0.0, description="an answer must score so much more than that there is none; where there may be none"
    )
    max_answer: Positive = Field(default=30, description="tokens of an answer, at most")


class Tuned(NamedTuple):
    """What a fine-tuned network says."""

    outputs: Tensor  # [S, C] of sequences, [P, C] at the places of words, or [N, 2] of all tokens for spans
    hidden: Tensor  # [N, D] the last hidden states, which `language` reads


class LanguageLoss(NamedTuple):
    """Losses of the next tokens of sequences, as a language model has them."""

    total: Tensor  # [] Σ share_s ℓ_s, with a gradient
    losses: Tensor  # [S] ℓ_s, to look at


class FineTune(nn.Module, TakesVocabulary, Paced, Suggests, GraphRecordable):
    @classmethod
    def suggest(cls, recipe: Any, schema: Any, size: int) -> dict[str, Any]:
        """A rate that falls as the network grows in width and depth, and the more epochs the fewer the examples.

        3e-5 for BERT-base (Devlin et al. 2019, appendix A.3, has 2e-5 to 5e-5), 1e-4 for a network of 6 layers by 384,
        1e-5 for BERT-large, at most 5e-4; three times as much for weights that nothing was learned with, and 1e-3 for
        what is put on top of a frozen backbone.
        """
        with torch.device("meta"):
            backbone = build_backbone(recipe.config)
        rate = suggested_rate(backbone)
        if recipe.config.frozen:
            rate = 1e-3
        elif not recipe.train.init:
            rate *= 3
        epochs = min(max(round(_VISITS / size), 3), 20)
        return {"optimizer.lr": float(f"{rate:.1e}"), "train.epochs": float(epochs)}

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.asked = asked(config)
        self.backbone: Any = build_backbone(config)
        self.layers, self.layer_decay, self.frozen = config.layers, config.layer_decay, config.frozen
        alone = self.layers == (-1,) and not config.lstm and not config.mix
        self.pools = alone and config.pooling == "own"  # by the backbone's own way
        self.whole = self.asked in (Class, Number, Choice)  # one vector of a sequence is asked for
        for name in (*PRETRAINING_PARTS, *(() if self.pools and self.whole else (_POOLING,))):
            drop_part(self.backbone, name)
        features = self.backbone.dim * (1 if config.mix else len(self.layers))
        self.records = self.pools and isinstance(self.backbone, GraphRecordable) and self.backbone.records
        self.mix = ScalarMix(num_states(self.backbone)) if config.mix else None
        self.lstm = Recurrent("lstm", features, config.lstm, bidirectional=True) if config.lstm else None
        self.dropout = nn.Dropout(config.dropout)
        outputs = {Class: config.num_classes, Tags: config.num_classes, Span: 2}.get(self.asked, 1)
        self.head = Linear(2 * config.lstm or features, outputs)
        nn.init.normal_(self.head.weight, std=_STD)
        nn.init.zeros_(self.head.bias)
        self._check(config)
        if config.frozen:
            self.backbone.requires_grad_(False)

    def take_vocabulary(self, vocabulary: Any) -> None:
        """For a backbone that spells its words."""
        if isinstance(self.backbone, TakesVocabulary):
            self.backbone.take_vocabulary(vocabulary)

    def _check(self, config: Config) -> None:
        states = num_states(self.backbone)
        for layer in self.layers:
            if not -states <= layer < states:
                raise CanonError(
                    f"system.layers: the backbone has layers 0 (its embeddings) to {states - 1}, or −{states} to −1; "
                    f"got {layer}."
                )
        last = max((layer % states for layer in self.layers), default=-1) == states - 1
        if not (last or self.mix is not None or self.frozen):
            raise CanonError(
                f"system.layers = {list(self.layers)} leaves out the last layer, which then cannot learn: set "
                "system.frozen = true too."
            )
        directed = isinstance(self.backbone, Directed) and self.backbone.causal
        if config.auxiliary and not directed:
            raise CanonError(
                f"objective.auxiliary is for networks that read from left to right, as gpt does and {config.backbone} "
                "does not: leave it out."
            )
        if config.auxiliary and self.frozen:
            raise CanonError(
                "objective.auxiliary teaches the backbone, which system.frozen keeps as it is: leave one out."
            )

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        segment_N: Tensor | None = None,
        places_P: Tensor | None = None,
    ) -> Tuned:
        hidden = self.backbone.encode(token_N, layout, segment_N)
        if self.mix is not None:
            x_NF = self.mix(hidden)
        elif len(self.layers) == 1:
            x_NF = hidden[self.layers[0]]
        else:
            x_NF = torch.cat([hidden[layer] for layer in self.layers], dim=1)
        if self.lstm is not None:
            x_NF = self.lstm.ragged(x_NF, layout)[0]
        if self.whole:
            x_NF = self.backbone.pool(x_NF, layout) if self.pools else layout.mean(x_NF)
        elif self.asked is Tags and places_P is not None:
            x_NF = x_NF.index_select(0, places_P)
        return Tuned(self.head(self.dropout(x_NF)).float(), hidden[-1])

    def language(self, token_N: Tensor, hidden_ND: Tensor, layout: Layout, share_S: Tensor) -> LanguageLoss:
        """ℓ_s = (1/(T_s − 1)) Σ_t −log p(u_t given u_1 … u_{t−1}), t from 2 to T_s; the output is the embeddings'."""
        target_N = token_N.roll(-1).index_fill(0, layout.ends, _NO_TARGET)
        count_S = (layout.device_lengths - 1).clamp(min=1)
        share_N = (share_S / count_S).index_select(0, layout.rows)
        losses = self.backbone.token_losses(hidden_ND, target_N, share_N)
        sums_S = losses.losses.new_zeros(layout.size).index_add(0, layout.rows, losses.losses)
        return LanguageLoss(losses.total, sums_S / count_S)

    def paces(self) -> dict[str, ParameterPace]:
        """Of each parameter the share of the rate that it learns with, and whether it decays.

        layer_decay^(L + 1) for embeddings, layer_decay^(L − i) for block i of L, 1 for what is above them. Biases and
        the norms' numbers do not decay.
        """
        return backbone_paces(self, self.layer_decay)


def suggested_rate(backbone: Any) -> float:
    """A rate that falls as a network grows in width and depth: see `FineTune.suggest`."""
    return min(_RATE * _SIZE / (backbone.dim * max(num_states(backbone) - 1, 1)), _LARGEST_RATE)


def backbone_paces(network: Any, decay: float) -> dict[str, ParameterPace]:
    """Of each parameter of a network with a `backbone` its share of the rate, and whether it decays."""
    blocks = num_states(network.backbone) - 1
    paces = {}
    for name, parameter in network.named_parameters():
        depth = 0
        if name.startswith("backbone."):
            block = _BLOCK.search(name)
            depth = blocks - int(block[1]) if block else blocks + 1 if _EMBEDDING.match(name) else 0
        paces[name] = ParameterPace(decay**depth, parameter.dim() > 1)
    return paces


def asked(config: Config) -> type[Target]:
    """What the head predicts: a class, unless the data or the recipe says otherwise."""
    return TARGETS[config.kind] if config.kind else Class


class HasBackbone(Protocol):
    """The settings of what stands on a pre-trained network."""

    @property
    def backbone(self) -> str: ...
    @property
    def settings(self) -> dict[str, Any]: ...
    @property
    def vocab_size(self) -> int: ...


def build_backbone(config: HasBackbone) -> Any:
    """The pre-trained system with its settings, of word vectors a bag of them; without weights of its own."""
    if issubclass(registry.find(config.backbone)[0].load()[1], KeepsVectors):
        if not {"vocab_size", "dim"} <= config.settings.keys():
            raise CanonError(f"system.backbone: {config.backbone} needs a run with its vectors, --set from=RUN.")
        return WordBag(config.settings["vocab_size"], config.settings["dim"])
    system, own = backbone_config(config)
    return system.load()[1](own)


def backbone_config(config: HasBackbone) -> tuple[registry.System, Any]:
    """The pre-trained system, and all its settings."""
    system, preset = registry.find(config.backbone)
    _, cls = system.load()
    if not issubclass(cls, Encodes):
        raise CanonError(f"system.backbone: {system.name} cannot be fine-tuned; pre-trained networks can, as bert.")
    return system, system.configure(preset, {"vocab_size": config.vocab_size, **config.settings})


def num_states(backbone: nn.Module) -> int:
    """The embeddings and each block's output."""
    blocks = {int(block[1]) for name, _ in backbone.named_parameters() if (block := _BLOCK.search(f".{name}"))}
    return len(blocks) + 1


def drop_part(network: nn.Module, name: str) -> None:
    """Leaves out a module or a parameter, where the network has one of that name."""
    path, _, last = name.rpartition(".")
    owner = dict(network.named_modules()).get(path)
    if owner is not None and last in {**dict(owner.named_children()), **dict(owner.named_parameters(recurse=False))}:
        setattr(owner, last, None)
