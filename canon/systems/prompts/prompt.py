"""Prompts: a class is what a pre-trained network puts into the slots of a template, read by a verbaliser.

Schick and Schütze 2021, Exploiting cloze questions for few-shot text classification (arXiv:2001.07676), section 3:
q(l given x) = softmax over l of the scores of l's words at the mask → `Prompt.forward`, `verbalisers.py`. Trained
vectors in the template and before each layer: `vectors.py`; `frozen` says whether they are trained alone or with the
whole network. Networks that read from left to right predict what follows the prompt, T5 what its decoder writes for
<extra_id_0>, both by the chain rule. Stepwise prediction (arXiv:2009.07118, section 3): of several masks the most
confident is filled first, then the others are asked again → `stepwise_scores`.
Deviations: all tokens of a prompt are of segment 0. A frozen network has no dropout.
Shapes: N tokens of sequences, B examples, R draws of demonstrations, S slots of an example, D features, C classes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.contracts import Borrows, StartsFromBackbone, Suggests, TakesPrompts
from canon.data.text.label_words import Filling, filling_of, slots_of
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.systems.pretrained.finetune import FineTune, build_backbone, drop_part
from canon.systems.pretrained.t5 import T5, T5SelfAttention
from canon.systems.prompts.vectors import PrefixVectors, SoftTokens
from canon.systems.prompts.verbalisers import Average, HeadVerbaliser, SoftVerbaliser, WordVerbaliser
from canon.systems.settings import Natural, Positive, Share

Verbaliser = Literal["words", "soft", "head"]
Token = Annotated[int, Field(ge=-1, le=2**31 - 1)]
Tokens = tuple[Token, ...]
Words = tuple[tuple[Tokens, ...], ...]

_UNUSED = ("next", "heads", "pooler", "embedding.query")  # parts of a backbone that prompts do not use
_STD = 0.02


@settings
class PromptConfig:
    """Settings of every prompt; its template and words depend on the data."""

    backbone: str = Field(default="bert", description="the pre-trained system, as in bert or gpt2; train.init says")
    settings: dict[str, Any] = Field(default_factory=dict, description="the backbone's own settings; train.init says")
    sha256: str = Field(default="", description="of a frozen backbone's weights; train.init says")
    vocab_size: Positive = Field(default=30522, description="tokens of its tokenizer; the data decides")
    num_classes: Positive = Field(default=2, description="the data decides")
    words: Words = Field(default=(((0,),), ((1,),)), description="tokens of the label words by class; the data decides")
    masks: Natural = Field(default=0, description="masks of a slot; 0: as many as a word has tokens; the data decides")
    soft: Tokens = Field(default=(), description="tokens that soft tokens begin as; −1: new; the data decides")
    triggers: Natural = Field(default=0, description="tokens that are searched; the data decides")
    mask_id: Token = Field(default=-1, description="the mask token, which triggers begin as; the data decides")
    opening: Tokens = Field(default=(), description="what T5's decoder begins with; the data decides")
    average: Average = Field(
        default="mean", description="of several words of a class: mean (log mean e^s), sum (log Σ e^s) or mean-log"
    )

    @property
    def prefix_places(self) -> int:
        """Places that the backbone has before a text's own."""
        return 0

    @property
    def fills_slots(self) -> bool:
        """Whether a class is what the backbone puts into slots of the template."""
        return True


@settings
class Config(PromptConfig):
    verbaliser: Verbaliser = Field(
        default="words", description="words, soft (a trained vector for each class) or head (a new layer, no slots)"
    )
    stepwise: bool = Field(default=False, description="predict words of several masks one mask after the other")
    frozen: bool = Field(default=False, description="the backbone stays as it is, and is not saved again")
    reparametrise: bool = Field(default=True, description="soft tokens go through a BiLSTM and an MLP")
    wide: bool = Field(default=False, description="the BiLSTM has D units in each direction, not D/2")
    prefix: Natural = Field(default=0, description="trained keys and values before those of each layer")
    projection: Natural = Field(default=0, description="hidden units of the MLP that makes them; 0: no MLP")
    start: str = Field(default="", description="a folder of canon convert --to prompt, to begin with its vectors")
    prefix_decoder: bool = Field(default=False, description="T5: the decoder has such a prefix too")
    dropout: Share = Field(default=0.1, description="share dropped of what a new head reads")

    @property
    def prefix_places(self) -> int:
        return self.prefix

    @property
    def fills_slots(self) -> bool:
        return self.verbaliser != "head"


class Prompted(nn.Module, StartsFromBackbone):
    """A backbone with label words: what networks that are trained and prompts that are searched share."""

    trigger_K: Tensor  # noqa: N815

    def __init__(self, config: PromptConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone: Any = build_backbone(config)
        if not isinstance(self.backbone, TakesPrompts):
            raise CanonError(f"system.backbone: {config.backbone} has no head that predicts tokens.")
        backbone: Any = self.backbone
        for name in self._unused(config):
            drop_part(backbone, name)
        self.filling = filling_of(backbone.framing, config.backbone)
        self.slots = slots_of([word for of in config.words for word in of], self.filling, config.masks)
        self.words = WordVerbaliser(config.words, self.slots, config.average) if config.words else None
        triggers_K = torch.full((config.triggers,), max(config.mask_id, 0))
        self.register_buffer("trigger_K", triggers_K, persistent=config.triggers > 0)

    def _unused(self, config: Any) -> tuple[str, ...]:
        return _UNUSED

    def start(self) -> None:
        """Triggers begin as the mask, whatever the backbone knows."""

    def ids(self, token_N: Tensor, as_vectors: bool = False) -> Tensor:
        """The backbone's tokens: triggers as they are now, soft tokens (as_vectors: both) from its last row on."""
        size, soft = self.config.vocab_size, len(self.config.soft)
        rows = len(self.backbone.embedding.token.weight)
        if self.config.triggers and not as_vectors:
            is_trigger_N = token_N >= size + soft
            place_N = (token_N - size - soft).clamp(min=0)
            token_N = torch.where(is_trigger_N, self.trigger_K.index_select(0, place_N), token_N)
        return torch.where(token_N >= size, token_N + (rows - size), token_N) if rows != size else token_N

    def at_slots(
        self,
        token_N: Tensor,
        layout: Layout,
        places_P: Tensor | None,
        vectors_KD: Tensor | None = None,
        prefix_LP2D: Tensor | None = None,
        decoder_LP2D: Tensor | None = None,
    ) -> Tensor:
        """[B·R, S, D] the states that predict what is in the slots."""
        hidden_ND = self.backbone.prompted(self.ids(token_N), layout, vectors_KD=vectors_KD, prefix_LP2D=prefix_LP2D)
        if self.filling is not Filling.SENTINEL:
            assert places_P is not None
            return hidden_ND.index_select(0, places_P).unflatten(0, (-1, self.slots.total))
        return self._written(hidden_ND, layout, decoder_LP2D)

    def _written(self, memory_ND: Tensor, memory: Layout, prefix_LP2D: Tensor | None) -> Tensor:
        """What T5's decoder has before each token of the words, given those before it."""
        variants, opening = len(self.slots.fills), self.config.opening
        tokens = [token for fill in self.slots.fills for token in (*opening, *fill)]
        lengths = torch.tensor([len(opening) + len(fill) for fill in self.slots.fills]).repeat(memory.size)
        target = Layout(lengths, memory_ND.device)
        if variants > 1:  # every variant reads the same memory
            grid = torch.arange(memory.total).split(memory.lengths.tolist())
            rows = torch.cat([part for part in grid for _ in range(variants)])
            memory_ND = memory_ND.index_select(0, memory.send(rows))
            memory = Layout(memory.lengths.repeat_interleave(variants), memory_ND.device)
        target_M = target.send(torch.tensor(tokens).repeat(target.size // variants))
        hidden_MD = self.backbone.continued(target_M, target, memory_ND, memory, prefix_LP2D)
        asked = [place >= len(opening) - 1 for fill in self.slots.fills for place in range(len(opening) + len(fill))]
        places_P = torch.tensor(asked).repeat(target.size // variants).nonzero()[:, 0]
        return hidden_MD.index_select(0, target.send(places_P)).unflatten(0, (-1, self.slots.total))


class Prompt(Prompted, Suggests, Borrows):
    @classmethod
    def suggest(cls, recipe: Any, schema: Any, size: int) -> dict[str, Any]:
        """The usual settings of fine-tuning, with a larger rate where the backbone is frozen."""
        return FineTune.suggest(recipe, schema, size)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        backbone, dim = self.backbone, self.backbone.dim
        soft = config.soft
        self.soft = SoftTokens(soft, dim, config.reparametrise, config.wide, _STD) if soft else None
        blocks = backbone.encoder.blocks if isinstance(backbone, T5) else backbone.layers.blocks
        self.prefix = self._prefix(blocks, config) if config.prefix else None
        self.decoder_prefix: PrefixVectors | None = None
        if config.prefix_decoder:
            if not isinstance(backbone, T5) or not config.prefix:
                raise CanonError("system.prefix_decoder is for T5 with system.prefix: leave it out.")
            self.decoder_prefix = self._prefix(backbone.decoder.blocks, config)
        if config.triggers:
            raise CanonError("data.template has {trigger}, which only hard-prompt searches: use that system.")
        self.verbaliser: nn.Module | None = None
        if config.verbaliser == "soft":
            self.verbaliser = SoftVerbaliser(config.words, config.num_classes, dim)
        elif config.verbaliser == "head":
            self.verbaliser = HeadVerbaliser(config.num_classes, dim, config.dropout, _STD)
        if config.start and not config.frozen:
            raise CanonError("system.start is for a frozen backbone: set system.frozen = true too.")
        if config.stepwise and (config.verbaliser != "words" or self.filling is not Filling.MASKS):
            raise CanonError("system.stepwise fills masks with words: leave it out for other verbalisers and networks.")
        self.borrows = bool(config.sha256)
        self.stepwise = config.stepwise
        if config.frozen:
            backbone.requires_grad_(False)
            if not any(parameter.requires_grad for parameter in self.parameters()):
                raise CanonError(
                    "system.frozen leaves nothing to train: put {soft:4} into data.template, or set system.prefix = 16 "
                    "or system.verbaliser = soft."
                )
        self.start()

    def _unused(self, config: Config) -> tuple[str, ...]:
        return ("next", "heads", "head", "decoder", "embedding.query") if config.verbaliser == "head" else _UNUSED

    def _prefix(self, blocks: nn.ModuleList, config: Config) -> PrefixVectors:
        attention: Any = blocks[0].attention
        width = attention.heads[0] * attention.heads[1] if isinstance(attention, T5SelfAttention) else attention.dim
        return PrefixVectors(config.prefix, len(blocks), width, config.projection, self.backbone.dim, _STD)

    @property
    def borrower(self) -> Any:
        return self

    def start(self) -> None:
        if self.soft is not None:
            self.soft.start(self.backbone.embedding.token.weight)
        if isinstance(self.verbaliser, SoftVerbaliser):
            self.verbaliser.start(self.backbone.naming(self.backbone.embedding.token.weight[:1])[1])

    @property
    def given(self) -> dict[str, Tensor | None]:
        """The trained vectors, as `at_slots` takes them."""
        return {
            "vectors_KD": None if self.soft is None else self.soft.vectors(),
            "prefix_LP2D": None if self.prefix is None else self.prefix.vectors(),
            "decoder_LP2D": None if self.decoder_prefix is None else self.decoder_prefix.vectors(),
        }

    def forward(
        self, token_N: Tensor, layout: Layout, segment_N: Tensor | None = None, places_P: Tensor | None = None
    ) -> Tensor:
        """Scores of the classes, one row for each draw of demonstrations of each example: [B·R, C]."""
        given = self.given
        if isinstance(self.verbaliser, HeadVerbaliser):
            given.pop("decoder_LP2D")
            hidden_ND = self.backbone.prompted(self.ids(token_N), layout, **given)
            return self.verbaliser(self.backbone.pool(hidden_ND, layout))
        hidden_BSD = self.at_slots(token_N, layout, places_P, **given)
        if self.verbaliser is not None:
            return self.verbaliser(hidden_BSD, self.backbone)
        assert self.words is not None
        if self.stepwise and not self.training:
            assert places_P is not None
            return self.words.of_classes(self.stepwise_scores(token_N, layout, places_P, hidden_BSD))
        return self.words(hidden_BSD, self.backbone)

    @torch.no_grad()
    def stepwise_scores(self, token_N: Tensor, layout: Layout, places_P: Tensor, hidden_BSD: Tensor) -> Tensor:
        """s(v) of each word, [B, W]: its most confident token is put in first, the others are asked again."""
        assert self.words is not None

        def log_p(states_BMD: Tensor) -> Tensor:
            logits_XV = self.backbone.logits(states_BMD.flatten(0, 1)).float()
            return logits_XV.log_softmax(1).unflatten(0, states_BMD.shape[:2])

        score_BW = self.words.word_scores(log_p(hidden_BSD))
        words = [word for of in self.config.words for word in of]
        places_BS = places_P.unflatten(0, (-1, self.slots.total))
        row_B = torch.arange(len(places_BS), device=token_N.device)
        for index, (word, read) in enumerate(zip(words, self.slots.read, strict=True)):
            if len(word) < 2:
                continue
            word_M = torch.tensor(word, device=token_N.device)
            filled_N, states_BSD = token_N.clone(), hidden_BSD
            open_BM = torch.ones(len(places_BS), len(word), dtype=torch.bool, device=token_N.device)
            total_B = torch.zeros_like(score_BW[:, 0])
            for step in range(len(word)):
                if step:
                    states_BSD = self.at_slots(filled_N, layout, places_P, **self.given)
                of_word_BM = log_p(states_BSD[:, list(read)]).gather(2, word_M.expand(len(row_B), -1)[..., None])[
                    ..., 0
                ]
                best_B = of_word_BM.masked_fill(~open_BM, -torch.inf).argmax(1)
                total_B = total_B + of_word_BM[row_B, best_B]
                open_BM[row_B, best_B] = False
                filled_N[places_BS[:, list(read)][row_B, best_B]] = word_M[best_B]
            score_BW[:, index] = total_B / len(word)
        return score_BW

    def hidden_tokens(
        self, token_N: Tensor, layout: Layout, places_M: Tensor, target_M: Tensor, share_M: Tensor
    ) -> TokenLoss:
        """The losses of hidden tokens of the text, beside the slots (arXiv:2001.07676, section 3.1)."""
        given = self.given
        given.pop("decoder_LP2D")
        hidden_ND = self.backbone.prompted(self.ids(token_N), layout, **given)
        return self.backbone.token_losses(hidden_ND.index_select(0, places_M), target_M, share_M)
