"""What goes into a network that turns one text into another and what comes out of it: tokens, their ends and limits.

| systems | tokens | a source ends with | decoding begins with | never put out |
| --- | --- | --- | --- | --- |
| of pairs of texts (transformer, seq2seq …) | a vocabulary for each side | <eos> | <bos> | <pad> <unk> <bos> |
| text to text (t5) | one for both | </s> | <pad>, as in training | special tokens but sentinels and </s> |

Raffel et al. 2020 (arXiv:1910.10683), section 3.1.4: <extra_id_0>, <extra_id_1> … in a text are sentinels, of which T5
says what they stand for. The vocabularies that canon makes read nothing in a text as a special token, so that texts are
parted at sentinels here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
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
from canon.use.model import Model

_LONGEST = 2048  # tokens of a source where the network has no limit: attention's memory grows with their square
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
        """Those of a run; a sentence where it turns no text into another."""
        tokenizers, recipe = model.schema.tokenizers, model.run.recipe
        if isinstance(model.schema, SequenceSchema):
            limits = source_limit(model), model.task.limit  # type: ignore[attr-defined]
            return cls(tokenizers["source"], tokenizers["target"], *limits)
        if not isinstance(model.schema, PassageSchema) or not isinstance(model.network, EncoderDecoder):
            raise CanonError(f"{model.run.path} is a run of {recipe.system.name}, which translates nothing.")
        network: Any = model.network
        text, rows = tokenizers["text"], len(network.embedding.token.weight)
        own = text.specials
        begin, end = own.require("pad", "T5's decoder"), own.require("eos", "T5's decoder")
        forbid = [*(set(own.all.tolist()) - {end, *own.sentinels}), *range(text.size, rows)]
        return cls(text, text, _LONGEST, recipe.config.max_length, begin, end, own.unk, forbid)

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Sources, each with its end."""
        if self.source is not self.target:
            return Ragged.encode(self.source, texts)
        framed = frame("t5", self.source.specials, encode_sentinels(self.source, texts))
        return Ragged(framed.tokens_N, framed.lengths_B)


def source_limit(model: Model) -> int:
    """Most tokens of a source with <eos>: what training left out as too long, or has no position for."""
    recipe = model.run.recipe
    limit = recipe.data.max_length
    learned = vars(recipe.config).get("positions") == "learned"
    return min(limit, recipe.config.max_positions) if learned else limit


def encode_sentinels(tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
    """Texts in which <extra_id_N> stands for a sentinel, where the vocabulary has so many."""
    sentinels = tokenizer.specials.sentinels
    parts: list[str] = []  # the texts between sentinels, of all texts end to end
    marks: list[list[int]] = []  # the sentinels of each text
    for text in texts:
        found = [] if tokenizer.native else [m for m in _SENTINEL.finditer(text) if int(m[1]) < len(sentinels)]
        bounds = [0, *(edge for match in found for edge in match.span()), len(text)]
        pieces = [text[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True)]
        # A piece begins with a space or gets one from its tokeniser.
        parts += pieces if tokenizer.keeps_space else [piece.strip() for piece in pieces]
        marks.append([sentinels[int(match[1])] for match in found])
    encoded = Ragged(*tokenizer.encode(parts))
    rows: list[np.ndarray] = []
    for end, own in zip(accumulate(len(own) + 1 for own in marks), marks, strict=True):
        tokens = [encoded[end - len(own) - 1]]
        for place, mark in enumerate(own, start=end - len(own)):
            tokens += [np.array([mark], dtype=np.int64), encoded[place]]
        rows.append(np.concatenate(tokens))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.concatenate([*rows, np.empty(0, dtype=np.int64)]), lengths)
