"""A trained language model, ready to be asked: how its texts begin and end, and what it cannot do.

| systems | a text begins | <eos> | positions |
| --- | --- | --- | --- |
| of running text (rnn-lm, transformer-xl, nnlm) | behind the <eos> of the line before | a line's end | any number |
| of passages, left to right (gpt, gpt2, gpt3) | with its first token | the text's end | system.max_positions |

Where one token ends a text and begins the next (GPT-2's <|endoftext|>), a text of passages may begin behind it.
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


class Language:
    """The network and tokeniser of a run that predicts the next token."""

    def __init__(self, model: Model) -> None:
        system, path = model.run.recipe.system, model.run.path
        if not is_language_model(model):
            if isinstance(model.schema, PassageSchema):
                raise CanonError(
                    f"{path} is a run of {system.name}, which does not go on with a text; systems that read from left "
                    "to right do, as gpt2."
                )
            raise CanonError(f"{path} is a run of {system.name}, which is no language model.")
        if system.loop != "gradient":
            raise CanonError(f"{path} is a run of {system.name}, which measures text (canon predict), no more.")
        self.path = path
        self.network: Any = model.network.eval()
        self.tokenizer = model.schema.tokenizers["text"]
        self.device: torch.device = next(self.network.parameters()).device
        self.running = isinstance(model.schema.target, NextToken)  # text without end, line after line
        self.limit: int = 0 if self.running else self.network.limit  # positions; 0: any number
        specials = self.tokenizer.specials
        self.eos = EOS if self.running else specials.eos
        self._opening = specials.eos if specials.eos == specials.bos else -1

    @property
    def opening(self) -> int:
        """The token that a text may begin behind; −1 where there is none."""
        return EOS if self.running else self._opening

    @property
    def forbid(self) -> list[int]:
        """What is never put out: tokens that are no text, but <eos>, and rows of the output that stand for no token."""
        if self.running:
            return list(FORBIDDEN)
        rows = len(self.network.embedding.token.weight)
        return [*(set(self.tokenizer.specials.all.tolist()) - {self.eos}), *range(self.tokenizer.size, rows)]

    def encode(self, text: str) -> np.ndarray:
        return self.tokenizer.encode([text])[0].astype(np.int64)

    def begin(self, prompt: str) -> tuple[np.ndarray, int]:
        """The tokens to read for a prompt, and how many of them stand before it."""
        ids = self.encode(prompt)
        if self.limit and len(ids) > self.limit:
            raise CanonError(
                f"The prompt has {len(ids):,} tokens, the network has {self.limit:,} positions; give a shorter one."
            )
        if self.running or (not len(ids) and self.opening >= 0):
            return np.concatenate([[self.opening], ids]), 1
        if not len(ids):
            raise CanonError(f"The prompt is empty; {self.path} goes on with texts, so give it the beginning of one.")
        return ids, 0

    def text(self, ids: np.ndarray) -> str:
        """Ids as text; of running text, with a line's end for <eos>."""
        if not self.running:
            return self.tokenizer.decode(ids)
        ends = [-1, *np.flatnonzero(ids == EOS).tolist(), len(ids)]
        return "\n".join(self.tokenizer.decode_batch([ids[one + 1 : other] for one, other in pairwise(ends)]))
