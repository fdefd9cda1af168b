"""Columns of token sequences: sentences of unequal length end to end, and the windows of one long text.

A batch of sentences is {"input": ids [N], "input_lengths": [B], …} without padding; lengths stay on the host, where
layouts are made of them (canon.nn.ragged). Targets come twice: what the decoder is given (<bos> y₁ … yₙ) as
"target_input", and what it must predict (y₁ … yₙ <eos>) as "target".
A batch of windows is {"input": [B, T], "target": [B, T]}, the target one token on; −1 where the text has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from canon.data.schema import Batched, Column
from canon.data.text.vocabularies import BOS, EOS, PAD

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Where rows begin that lie end to end, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def starts_of(lengths_B: np.ndarray) -> np.ndarray:
    """Where each row begins."""
    return np.cumsum(lengths_B) - lengths_B


def ranges(starts_B: np.ndarray, lengths_B: np.ndarray) -> np.ndarray:
    """The numbers start … start + length − 1 of every row, end to end."""
    return np.arange(int(lengths_B.sum())) + np.repeat(starts_B - starts_of(lengths_B), lengths_B)


def places_of(offsets: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the items of some rows lie, and how many each row has."""
    lengths = offsets[indices + 1] - offsets[indices]
    return ranges(offsets[indices], lengths), lengths


class RowColumn(Column):
    """A column whose rows are not arrays of one shape: `tokens` holds all of them, `len` says how many they are."""

    tokens: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens.dtype


class Uneven(RowColumn):
    """Rows of unequal length end to end: row i is tokens[offsets[i] : offsets[i + 1]]."""

    def __init__(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        self.tokens = tokens
        self.lengths = lengths
        self.offsets = offsets_of(lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    def take(self, indices: np.ndarray) -> Self:
        places, lengths = places_of(self.offsets, indices)
        return self._with(places, lengths)

    def _with(self, places: np.ndarray, lengths: np.ndarray) -> Self:
        """The column of rows of these lengths, whose items lie at `places`."""
        return type(self)(self.tokens[places], lengths)


class Ragged(Uneven, Batched):
    """Sentences of token ids; `tokens` is [N] int32."""

    @classmethod
    def encode(cls, tokenizer: Tokenizer, texts: Sequence[str], bos: bool = False) -> Ragged:
        """Each text with <eos> after it, and with <bos> before it for a decoder."""
        flat, lengths = tokenizer.encode(texts)
        more = 1 + bos
        tokens = np.full(len(flat) + more * len(lengths), EOS, dtype=np.int32)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        tokens[np.arange(len(flat)) + more * rows + bos] = flat
        column = cls(tokens, lengths.astype(np.int64) + more)
        if bos:
            tokens[column.offsets[:-1]] = BOS
        return column

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of some rows, as this module's docstring lists them."""
        places, lengths = places_of(self.offsets, indices)
        if name == "input":
            return {name: self.tokens[places].astype(np.int64), f"{name}_lengths": lengths}
        inner = np.ones(len(places), dtype=bool)
        inner[np.cumsum(lengths) - 1] = False  # all but each sentence's last token
        read = places[inner]
        return {
            f"{name}_input": self.tokens[read].astype(np.int64),
            name: self.tokens[read + 1].astype(np.int64),
            f"{name}_lengths": lengths - 1,
        }


class Windows(RowColumn, Batched):
    """One long text cut into pieces of `window` tokens; the last may be shorter."""

    running = True

    def __init__(self, tokens: np.ndarray, window: int) -> None:
        self.tokens = tokens
        self.window = window

    def __len__(self) -> int:
        return max(-(-(len(self.tokens) - 1) // self.window), 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), self.window)

    def take(self, indices: np.ndarray) -> Windows:
        """The text up to the last of `indices`, which must be the first ones: windows hang together."""
        assert np.array_equal(indices, np.arange(len(indices))), "windows of a text are taken from its beginning"
        return Windows(self.tokens[: len(indices) * self.window + 1], self.window)

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        places = indices[:, None] * self.window + np.arange(self.window)
        last = len(self.tokens) - 1
        there = places < last
        read = self.tokens[np.minimum(places, last)].astype(np.int64)
        following = np.where(there, self.tokens[np.minimum(places + 1, last)].astype(np.int64), -1)
        return {name: np.where(there, read, PAD), "target": following, "target_lengths": there.sum(axis=1)}


def lined(tokenizer: Tokenizer, documents: Sequence[str]) -> np.ndarray:
    """All documents as one text: <eos> ends each line of words, and each document of anything finer."""
    if tokenizer.kind in ("word", "split"):
        documents = [line for document in documents for line in document.splitlines() if line.strip()]
    return Ragged.encode(tokenizer, documents).tokens
