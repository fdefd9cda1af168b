"""Prompting: the class whose words a pre-trained network finds likeliest in the slots of a template.

Schick and Schütze 2021 (arXiv:2001.07676): L = (1 − α) L_CE + α L_MLM (section 3.1, α = 1e-4), L_CE of the softmax over
the classes' scores. Tokens of the text are hidden as in pre-training: 15 %, of which 80 % become the mask, 10 % another
token; of an example the mean over them, so that each counts once. Demonstrations: at a visit one draw, at an evaluation
the mean of the scores over all draws (Gao, Fisch and Chen 2021, arXiv:2012.15723, section 6.2).
Deviations: L_MLM is of the labelled texts themselves, where the authors take unlabelled ones. Their published code has
(1 − α) at L_MLM.
Shapes: N tokens, B examples, V sequences of an example and a draw, M hidden tokens, C classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import registry
from canon.data.batching.draws import Draws
from canon.data.batching.framed import FramedTexts
from canon.data.batching.loader import Batch
from canon.data.batching.sequences import starts_of
from canon.data.encodings.prompted import PromptedSchema
from canon.data.schema import Columns, Schema
from canon.data.text.label_words import Filling, filling_of, slots_of
from canon.errors import CanonError
from canon.nn.compiling import unwrapped
from canon.nn.ragged import layout_of
from canon.objectives.record import ObjectiveChoice
from canon.objectives.settings import Verbalised
from canon.tasks.base import Composes, Turn
from canon.tasks.finetune_text import TextClasses

_SHARE, _MASKED, _RANDOM = 0.15, 0.8, 0.9
_DRAW, _HIDE, _HOW, _WHICH = range(4)  # streams of random numbers


class PromptTask(TextClasses, Composes):
    by_word = True

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        settings = choice.settings if isinstance(choice.settings, Verbalised) else Verbalised()  # a learner's has none
        super().__init__(replace(choice, settings=settings), config, schema)
        assert isinstance(schema, PromptedSchema)
        self.mlm, self.draws = settings.mlm, schema.draws
        self._tokenizer = schema.tokenizers["text"]
        words = [word for of in config.words for word in of]
        backbone: Any = registry.find(config.backbone)[0].load()[1]
        filling = filling_of(backbone.framing, config.backbone)
        self.slots = slots_of(words, filling, config.masks)
        if self.mlm and filling is not Filling.MASKS:
            raise CanonError(
                "objective.mlm hides tokens, which only networks that see both sides fill in: leave it out."
            )

    def example(self) -> tuple[Any, ...]:
        token_N, layout, segment_N = super().example()
        return token_N, layout, segment_N, torch.zeros(self.slots.total, dtype=torch.int64)

    def compose(self, columns: Columns, indices: np.ndarray, places: np.ndarray, draws: Draws) -> dict[str, np.ndarray]:
        texts = columns["input"]
        assert isinstance(texts, FramedTexts)
        if self.draws > 1 and not draws.evaluating:
            per_draw = texts.parts_n[0] // self.draws
            apart = np.full(len(texts) * self.draws, per_draw)
            texts = FramedTexts(texts.tokens_N, texts.segments_N, texts.lengths_S, apart, texts.places)
            arrays = texts.batch("input", indices * self.draws + draws.integers(self.draws, _DRAW, places))
        else:
            arrays = texts.batch("input", indices)
        if "target" in columns:
            arrays["target"] = np.asarray(columns["target"])[indices]
        if self.mlm and not draws.evaluating:
            arrays |= self._hidden(arrays, places, draws)
        return arrays

    def _hidden(self, arrays: dict[str, np.ndarray], places: np.ndarray, draws: Draws) -> dict[str, np.ndarray]:
        """The first sequence of each example with some of its tokens hidden."""
        first_B = starts_of(arrays["part_lengths"])
        lengths_B = arrays["input_lengths"][first_B]
        starts_B = starts_of(arrays["input_lengths"])[first_B]
        offset_B = starts_of(lengths_B)
        inside_N = np.arange(int(lengths_B.sum())) - np.repeat(offset_B, lengths_B)
        row_N = np.repeat(places, lengths_B)
        token_N = arrays["input"][inside_N + np.repeat(starts_B, lengths_B)].copy()
        able_N = (token_N < self._tokenizer.size) & ~np.isin(token_N, self._tokenizer.specials.all)
        chosen_N = able_N & (draws.uniform(_HIDE, row_N, inside_N) < _SHARE)
        target_M = token_N[chosen_N]
        how_M = draws.uniform(_HOW, row_N, inside_N)[chosen_N]
        other_M = draws.integers(self._tokenizer.size, _WHICH, row_N, inside_N)[chosen_N]
        mask = self._tokenizer.specials.require("mask", "objective.mlm")
        token_N[chosen_N] = np.where(how_M < _MASKED, mask, np.where(how_M < _RANDOM, other_M, target_M))
        owner_M = np.repeat(np.arange(len(lengths_B)), lengths_B)[chosen_N]
        count_B = np.bincount(owner_M, minlength=len(lengths_B))
        return {
            "hidden": token_N,
            "hidden_lengths": lengths_B,
            "hidden_places": np.flatnonzero(chosen_N),
            "hidden_target": target_M,
            "hidden_share": (1 / np.maximum(count_B, 1))[owner_M].astype(np.float32),
        }

    def ask(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Any]:
        scores_XC = network(batch["input"], layout_of(batch), batch["segment"], batch["places"])
        return scores_XC.unflatten(0, (len(batch["part_lengths"]), -1)).mean(1), None

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        total = super().loss(network, batch, phase, turn)
        if not self.mlm:
            return total
        names = ("hidden_places", "hidden_target", "hidden_share")
        layout = layout_of(batch, "hidden")
        hidden = unwrapped(network).hidden_tokens(batch["hidden"], layout, *(batch[name] for name in names)).total
        turn.observe("hidden_loss", hidden, self.count(batch))
        return (1 - self.mlm) * total + self.mlm * hidden

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        return self.outputs(self.ask(network, batch)[0], batch)
