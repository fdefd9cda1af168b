"""Columns of texts for a pre-trained network: framed sequences of tokens, of which an example may have several.

A text or two texts are one sequence; each choice of a question is one; a long document is cut into windows, each of
which is one. A batch of `Texts` is, without padding:
| name | shape | meaning |
| --- | --- | --- |
| input, segment | [N] | tokens of all sequences end to end, and which text each belongs to |
| input_lengths | [S] | tokens of each sequence, on the host |
| part_lengths | [B] | sequences of each example, on the host |
| places | [P] | where in N something is asked: the first piece of each word, the pieces of a document |
| marks | [P] | what stands there: the number of the word, or of the document's piece |
| place_lengths | [S] | places of each sequence, on the host |
| width_lengths | [] | the most places of any example of the column, on the host |
`Values` are targets of which an example may have several: the tags of its words, the places of an answer by window.
Shapes: n examples, S sequences, N tokens, P places, T values.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np


class Places(NamedTuple):
    """Places of sequences end to end: sequence s has counts[s] of them."""

    positions: np.ndarray  # [P] within the sequence
    marks: np.ndarray  # [P]
    counts: np.ndarray  # [S]


class Texts:
    """Sequences of tokens; example i is the next parts_n[i] of them."""

    def __init__(
        self,
        tokens_N: np.ndarray,
        segments_N: np.ndarray,
        lengths_S: np.ndarray,
        parts_n: np.ndarray,
        places: Places | None = None,
    ) -> None:
        self.tokens_N = tokens_N.astype(np.int32, copy=False)
        self.segments_N = segments_N.astype(np.uint8, copy=False)
        self.lengths_S, self.parts_n, self.places = lengths_S, parts_n, places
        self.starts_n = _offsets(parts_n)  # of each example, its first sequence
        self._tokens = _offsets(lengths_S)
        self._places = None if places is None else _offsets(places.counts)

    def __len__(self) -> int:
        return len(self.parts_n)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens_N.dtype

    @property
    def num_tokens(self) -> np.ndarray:
        """[n] tokens of each example."""
        return np.diff(self._tokens[self.starts_n])

    @cached_property
    def width(self) -> int:
        """The most places of an example."""
        assert self._places is not None
        return int(np.diff(self._places[self.starts_n]).max(initial=0))

    def sequence(self, index: int) -> np.ndarray:
        """The tokens of one sequence."""
        return self.tokens_N[self._tokens[index] : self._tokens[index + 1]]

    def take(self, indices: np.ndarray) -> Texts:
        chosen_S, parts_n = ragged_places(self.starts_n, indices)
        tokens, lengths_S = ragged_places(self._tokens, chosen_S)
        places = None
        if self.places is not None:
            assert self._places is not None
            own, counts_S = ragged_places(self._places, chosen_S)
            places = Places(self.places.positions[own], self.places.marks[own], counts_S)
        return Texts(self.tokens_N[tokens], self.segments_N[tokens], lengths_S, parts_n, places)

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors of some examples, as this module's head tells."""
        some = self.take(indices)
        found = {
            name: some.tokens_N.astype(np.int64),
            f"{name}_lengths": some.lengths_S,
            "segment": some.segments_N.astype(np.int64),
            "part_lengths": some.parts_n,
        }
        if some.places is not None:
            starts_S = some._tokens[:-1]
            found["places"] = some.places.positions + np.repeat(starts_S, some.places.counts)
            found["marks"] = some.places.marks.astype(np.int64)
            found["place_lengths"] = some.places.counts
            found["width_lengths"] = np.array(self.width)
        return found


class Values:
    """Values of examples end to end: example i has the next lengths[i] of them; [T] or [T, K]."""

    def __init__(self, values_T: np.ndarray, lengths_n: np.ndarray) -> None:
        self.tokens, self.lengths = values_T, lengths_n  # named as in other columns of unequal rows
        self.offsets = _offsets(lengths_n)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens.dtype

    def take(self, indices: np.ndarray) -> Values:
        places, lengths_n = ragged_places(self.offsets, indices)
        return Values(self.tokens[places], lengths_n)

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        some = self.take(indices)
        return {name: some.tokens, f"{name}_lengths": some.lengths}


class Asked(NamedTuple):
    """A question about a document, for scoring: the answer is cut from the document's own characters."""

    key: str
    document: str
    spans: np.ndarray  # [P, 2] of each piece of the document, its first character and the one behind its last
    answers: tuple[str, ...]  # the right ones; none where the document does not answer


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def ragged_places(offsets: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the items of some rows lie that lie end to end, and how many each row has."""
    lengths = offsets[indices + 1] - offsets[indices]
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(offsets[indices] - before, lengths), lengths


def objects(values: list) -> np.ndarray:
    """A column of anything, for scoring."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # a slice would unpack tuples
        column[row] = value
    return column
