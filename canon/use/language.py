"""A trained language model, ready to use: how its texts begin and end, and what it cannot do.

| systems | a text begins | <eos> | positions |
| --- | --- | --- | --- |
| of running text (rnn-lm, transformer-xl, nnlm) | after the <eos> of the previous line | a line's end | any number |
| of passages, left to right (gpt, gpt2, gpt3) | with its first token | the text's end | system.max_positions |

Where one token ends a text and begins the next (GPT-2's <|endoftext|>), a text of passages may begin after it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from canon.data.encodings.passages import PassageSchema
from canon.data.targets import NextToken
from canon.data.text.vocabularies import EOS
from canon.errors import CanonError
from canon.nn.decoding import FORBIDDEN, LanguageModel
from canon.use.model import Model


def is_language_model(model: Model) -> bool:
    return isinstance(model.schema.target, NextToken) or isinstance(model.network, LanguageModel)


class LanguageRun:
    """The network and tokeniser of a run that predicts the next token."""

    def __init__(self, model: Model) -> None:
        system, path = model.run.recipe.system, model.run.path
        if not is_language_model(model):
            if isinstance(model.schema, PassageSchema):
                raise CanonError(
                    f"{path} is a run of {system.name}, which cannot continue a text; systems that read from left to "
                    "right can, such as gpt2."
                )
            raise CanonError(f"{path} is a run of {system.name}, which is not a language model.")
        can_continue = isinstance(model.network, LanguageModel)
        if not can_continue:  # it counts words, or reads in both directions
            raise CanonError(f"{path} is a run of {system.name}, which can only measure text (canon predict).")
        self.path = path
        self.network: Any = model.network.eval()
        self.tokenizer = model.schema.tokenizers["text"]
        self.device: torch.device = next(self.network.parameters()).device
        self.running = isinstance(model.schema.target, NextToken)  # text without end, line after line
        self.limit: int = 0 if self.running else self.network.limit  # positions; 0: any number
        specials = self.tokenizer.specials
        self.eos = EOS if self.running else specials.eos
        # The token that a text may begin after; −1: there is none.
        self.opening = EOS if self.running else specials.eos if specials.eos == specials.bos else -1

    @property
    def forbid(self) -> list[int]:
        """What is never put out: special tokens except <eos>, and rows of the output without a token."""
        if self.running:
            return list(FORBIDDEN)
        rows = len(self.network.embedding.token.weight)
        return [*(set(self.tokenizer.specials.all.tolist()) - {self.eos}), *range(self.tokenizer.size, rows)]

    def encode(self, text: str) -> np.ndarray:
        return self.tokenizer.encode([text])[0].astype(np.int64)

    def begin(self, prompt: str) -> tuple[np.ndarray, int]:
        """The tokens to read for a prompt, and how many of them come before it."""
        ids = self.encode(prompt)
        if self.limit and len(ids) > self.limit:
            raise CanonError(
                f"The prompt has {len(ids):,} tokens, but the network has {self.limit:,} positions; give a shorter one."
            )
        if self.running or (not len(ids) and self.opening >= 0):
            return np.concatenate([[self.opening], ids]), 1
        if not len(ids):
            raise CanonError(f"The prompt is empty; {self.path} continues texts, so give it the beginning of one.")
        return ids, 0

    def text(self, ids: np.ndarray) -> str:
        """Ids as text; in running text <eos> becomes a line's end."""
        if not self.running:
            return self.tokenizer.decode(ids)
        ends = [-1, *np.flatnonzero(ids == EOS).tolist(), len(ids)]
        return "\n".join(self.tokenizer.decode_batch([ids[one + 1 : other] for one, other in pairwise(ends)]))
