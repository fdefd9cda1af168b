"""The tokens around a text, or around two: [CLS] a [SEP] b [SEP], and the like of each family of networks.

Papers: Devlin et al. (2019), section 3 (bert); Liu et al. (2019) (roberta); Radford et al. (2018), section 3.3 (gpt);
Yang et al. (2019), section 2.5 (xlnet); Raffel et al. (2020), section 3.1 (t5).
`PATTERNS` has the framings; `frame` puts texts into one; `Specials` are the ids of special tokens, by their names.
Deviations: gpt has no start, delimiter and extract tokens of its own, only <eos> after the text, where there is one.

B: sequences, N: tokens of all sequences end to end, P: pieces of a framing (special tokens and texts).
"""

# ruff: noqa: N815 (fields with shape suffixes)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from canon.errors import CanonError, unknown

if TYPE_CHECKING:
    from canon.data.batching.sequences import Ragged

# The first name that a vocabulary has counts.
NAMES = {
    "pad": ("[PAD]", "<pad>", "<|padding|>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<bos>", "<s>", "<|endoftext|>", "<|begin_of_text|>", "[BOS]", "[CLS]"),
    "eos": ("<eos>", "</s>", "<|endoftext|>", "<|end_of_text|>", "[EOS]", "[SEP]"),
}
MOST_SENTINELS = 1000  # <extra_id_0>, <extra_id_1>, …: so many are looked for


@dataclass(frozen=True)
class Specials:
    """Ids of the special tokens; −1 where the vocabulary has none. Sentinels: T5's <extra_id_0> first."""

    pad: int = -1
    unk: int = -1
    cls: int = -1
    sep: int = -1
    mask: int = -1
    bos: int = -1
    eos: int = -1
    sentinels: tuple[int, ...] = ()

    @classmethod
    def of(cls, ids: Mapping[str, int]) -> Specials:
        """Those of a vocabulary, by their names."""
        roles = {role: next((ids[name] for name in names if name in ids), -1) for role, names in NAMES.items()}
        sentinels = (ids.get(f"<extra_id_{number}>", -1) for number in range(MOST_SENTINELS))
        return cls(**roles, sentinels=tuple(takewhile(lambda index: index >= 0, sentinels)))

    @property
    def all(self) -> np.ndarray:
        """Every id of a special token, ascending."""
        ids = {self.pad, self.unk, self.cls, self.sep, self.mask, self.bos, self.eos, *self.sentinels} - {-1}
        return np.array(sorted(ids), dtype=np.int64)

    def require(self, role: str, what: str) -> int:
        """The id of a token that `what` needs; an error where it is missing."""
        index: int = getattr(self, role)
        if index < 0:
            names = " or ".join(NAMES[role])
            raise CanonError(f"The tokenizer has no {names}, which {what} needs; use one that has it.")
        return index


class Framed(NamedTuple):
    tokens_N: np.ndarray  # int64
    lengths_B: np.ndarray  # int64
    segments_N: np.ndarray  # int64
    first_starts_B: np.ndarray  # the place in N where the first text begins
    second_starts_B: np.ndarray  # and the second; −1 without one


def _pieces(pattern: str) -> tuple[tuple[str, int], ...]:
    return tuple((role, int(segment or 0)) for role, _, segment in (piece.partition(":") for piece in pattern.split()))


# Of one text and of two: texts and roles of special tokens, each with its segment where that is not 0.
PATTERNS: dict[str, tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]] = {
    "bert": (_pieces("cls first sep"), _pieces("cls first sep second:1 sep:1")),
    "roberta": (_pieces("cls first sep"), _pieces("cls first sep sep second sep")),
    "gpt": (_pieces("first eos"), _pieces("first second eos")),
    "xlnet": (_pieces("first sep cls:2"), _pieces("first sep second:1 sep:1 cls:2")),
    "t5": (_pieces("first eos"), _pieces("first second eos")),
    "words": (_pieces("first"), _pieces("first second")),
}


def _pattern(framing: str, specials: Specials, pair: bool) -> tuple[tuple[str, int], ...]:
    if framing not in PATTERNS:
        raise unknown("framing", framing, PATTERNS)
    pieces = PATTERNS[framing][pair]
    return pieces[:-1] if framing == "gpt" and specials.eos < 0 else pieces


def num_specials(framing: str, specials: Specials, pair: bool = False) -> int:
    """How many tokens a framing adds to one text, or to two."""
    return sum(role not in ("first", "second") for role, _ in _pattern(framing, specials, pair))


def frame(framing: str, specials: Specials, first: Ragged, second: Ragged | None = None) -> Framed:
    """Each text of `first`, with the one of `second` beside it where that is given, in its frame."""
    assert second is None or len(first.lengths) == len(second.lengths)
    pieces = _pattern(framing, specials, second is not None)
    count = len(first.lengths)
    texts = {"first": first, "second": second}
    lengths_BP = np.ones((count, len(pieces)), dtype=np.int64)
    for piece, (role, _) in enumerate(pieces):
        if (text := texts.get(role)) is not None:
            lengths_BP[:, piece] = text.lengths
    starts_BP = np.cumsum(lengths_BP.reshape(-1)).reshape(lengths_BP.shape) - lengths_BP
    tokens_N = np.empty(int(lengths_BP.sum()), dtype=np.int64)
    starts = {"first": starts_BP[:, 0], "second": np.full(count, -1, dtype=np.int64)}
    for piece, (role, _) in enumerate(pieces):
        text = texts.get(role)
        if text is None:
            tokens_N[starts_BP[:, piece]] = specials.require(role, f'framing = "{framing}"')
            continue
        starts[role] = starts_BP[:, piece]
        before_B = np.cumsum(text.lengths) - text.lengths  # tokens of the text's earlier rows
        tokens_N[np.arange(len(text.tokens)) + np.repeat(starts[role] - before_B, text.lengths)] = text.tokens
    segments_P = np.array([segment for _, segment in pieces], dtype=np.int64)
    segments_N = np.repeat(np.tile(segments_P, count), lengths_BP.reshape(-1))
    return Framed(tokens_N, lengths_BP.sum(axis=1), segments_N, starts["first"], starts["second"])
