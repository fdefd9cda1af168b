"""The two sides of a network that turns one text into another: tokens, their ends and limits.

| systems | tokens | a source ends with | decoding begins with | never put out |
| --- | --- | --- | --- | --- |
| of pairs of texts (transformer, seq2seq …) | a vocabulary for each side | <eos> | <bos> | <pad> <unk> <bos> |
| text to text (t5) | one for both | </s> | <pad>, as in training | special tokens but sentinels and </s> |

Raffel et al. 2020 (arXiv:1910.10683), section 3.1.4: <extra_id_0>, <extra_id_1> … in a text are sentinels, which T5
fills in. canon's own vocabularies read no part of a text as a special token, so texts are split at sentinels here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from canon.data.batching.sequences import Ragged
from canon.data.encodings.passages import PassageSchema
from canon.data.encodings.sequences import SequenceSchema
from canon.data.text.framing import frame
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import BOS, EOS, UNK
from canon.errors import CanonError
from canon.nn.decoding import FORBIDDEN, EncoderDecoder
from canon.systems.sequence.transformer import Config as TransformerConfig
from canon.use.model import Model

_LONGEST = 2048  # tokens of a source for a network without a limit: attention's memory grows with their square
_SENTINEL = re.compile(r"\s*<extra_id_(\d+)>")


class Sides(NamedTuple):
    source: Tokenizer
    target: Tokenizer
    limit: int  # most tokens of a source, its end among them
    max_length: int  # most tokens put out; 0: what the source's length allows
    bos: int = BOS
    eos: int = EOS
    unk: int = UNK
    forbid: Sequence[int] = FORBIDDEN

    @classmethod
    def of(cls, model: Model) -> Sides:
        """Those of a run that turns one text into another; of any other, a CanonError."""
        tokenizers, recipe = model.schema.tokenizers, model.run.recipe
        if isinstance(model.schema, SequenceSchema):
            limits = source_limit(model), model.task.limit  # type: ignore[attr-defined]
            return cls(tokenizers["source"], tokenizers["target"], *limits)
        if not isinstance(model.schema, PassageSchema) or not isinstance(model.network, EncoderDecoder):
            raise CanonError(f"{model.run.path} is a run of {recipe.system.name}, which translates nothing.")
        network: Any = model.network
        text, rows = tokenizers["text"], len(network.embedding.token.weight)
        specials = text.specials
        begin, end = (specials.require(name, "T5's decoder") for name in ("pad", "eos"))
        forbid = [*(set(specials.all.tolist()) - {end, *specials.sentinels}), *range(text.size, rows)]
        return cls(text, text, _LONGEST, recipe.config.max_length, begin, end, specials.unk, forbid)

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Sources, each with its end."""
        if self.source is not self.target:
            return Ragged.encode(self.source, texts)
        framed = frame("t5", self.source.specials, encode_sentinels(self.source, texts))
        return Ragged(framed.tokens_N, framed.lengths_B)


def source_limit(model: Model) -> int:
    """Most tokens of a source with <eos>: longer ones were left out of training, or have no positions."""
    recipe = model.run.recipe
    limit = recipe.data.max_length
    learned = isinstance(recipe.config, TransformerConfig) and recipe.config.positions == "learned"
    return min(limit, recipe.config.max_positions) if learned else limit


def encode_sentinels(tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
    """Texts in which <extra_id_N> is a sentinel, if the vocabulary has that one."""
    sentinels = tokenizer.specials.sentinels
    parts: list[str] = []  # the texts between sentinels, of all texts end to end
    marks: list[list[int]] = []  # the sentinels of each text
    for text in texts:
        matches = [] if tokenizer.native else [m for m in _SENTINEL.finditer(text) if int(m[1]) < len(sentinels)]
        bounds = [0, *(edge for match in matches for edge in match.span()), len(text)]
        pieces = [text[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True)]
        # A piece begins with a space or gets one from its tokeniser.
        parts += pieces if tokenizer.keeps_space else [piece.strip() for piece in pieces]
        marks.append([sentinels[int(match[1])] for match in matches])
    encoded = Ragged(*tokenizer.encode(parts))
    rows: list[np.ndarray] = []
    encoded_parts = (encoded[place] for place in range(len(parts)))
    for ids in marks:
        tokens = [next(encoded_parts)]
        for mark in ids:
            tokens += [np.array([mark], dtype=np.int64), next(encoded_parts)]
        rows.append(np.concatenate(tokens))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.concatenate([*rows, np.empty(0, dtype=np.int64)]), lengths)
