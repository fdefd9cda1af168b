"""The next token of a running text, from the sums of losses that any learner puts out for each window.

Shapes as in tokens.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from canon.data.schema import Columns, Schema
from canon.objectives.record import ObjectiveChoice
from canon.tasks import tokens
from canon.tasks.base import Outputs, Task


class NextTokens(Task):
    monitor = "perplexity"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self._tokenizer = schema.tokenizers["text"]
        self._of_characters = self._tokenizer.kind == "char"

    def names(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "token_accuracy", *(("bits_per_character",) if self._of_characters else ()))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = tokens.scores(outputs)
        return scores | ({"bits_per_character": scores["loss"] / math.log(2)} if self._of_characters else {})

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return tokens.floors(*self._counted(targets))

    def _counted(self, targets: np.ndarray) -> tuple[np.ndarray, int]:
        """The tokens that are predicted, and how many different ones there are."""
        return targets, self._tokenizer.size

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        asked, known = tokens.of_split(columns), tokens.of_split(train)
        if asked is None or known is None:
            return ""
        return tokens.shortfall(outputs, self._counted(asked)[0], *self._counted(known))

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """How well each window was predicted."""
        return tokens.rows(outputs)
