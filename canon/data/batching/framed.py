"""Columns of texts for a pre-trained network: framed sequences of tokens, of which an example may have several.

A text or two texts are one sequence; each choice of a question is one; a long document is cut into windows, each of
which is one. A batch of `FramedTexts` is, without padding:
| name | shape | meaning |
| --- | --- | --- |
| input, segment | [N] | tokens of all sequences end to end, and which text each belongs to |
| input_lengths | [S] | tokens of each sequence, on the host |
| part_lengths | [B] | sequences of each example, on the host |
| places | [P] | where in N something is asked: the first piece of each word, the pieces of a document |
| marks | [P] | what is there: the number of the word, or of the document's piece |
| place_lengths | [S] | places of each sequence, on the host |
| width_lengths | [] | the most places of any example of the column, on the host |
`Values` are targets of which an example may have several: the tags of its words, the places of an answer by window.
Shapes: n examples, S sequences, N tokens, P places, T values.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from canon.data.batching.sequences import RowColumn, Uneven, offsets_of, places_of
from canon.data.schema import Batched


class Places(NamedTuple):
    """Places of sequences end to end: sequence s has counts[s] of them."""

    positions: np.ndarray  # [P] within the sequence
    marks: np.ndarray  # [P]
    counts: np.ndarray  # [S]


class FramedTexts(RowColumn, Batched):
    """Sequences of tokens; example i is the next parts_n[i] of them."""

    def __init__(
        self,
        tokens_N: np.ndarray,
        segments_N: np.ndarray,
        lengths_S: np.ndarray,
        parts_n: np.ndarray,
        places: Places | None = None,
    ) -> None:
        self.tokens = self.tokens_N = tokens_N.astype(np.int32, copy=False)
        self.segments_N = segments_N.astype(np.uint8, copy=False)
        self.lengths_S, self.parts_n, self.places = lengths_S, parts_n, places
        self.starts_n = offsets_of(parts_n)  # of each example, its first sequence
        self._tokens = offsets_of(lengths_S)
        self._places = None if places is None else offsets_of(places.counts)

    def __len__(self) -> int:
        return len(self.parts_n)

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

    def take(self, indices: np.ndarray) -> FramedTexts:
        chosen_S, parts_n = places_of(self.starts_n, indices)
        tokens, lengths_S = places_of(self._tokens, chosen_S)
        places = None
        if self.places is not None:
            assert self._places is not None
            chosen_P, counts_S = places_of(self._places, chosen_S)
            places = Places(self.places.positions[chosen_P], self.places.marks[chosen_P], counts_S)
        return FramedTexts(self.tokens_N[tokens], self.segments_N[tokens], lengths_S, parts_n, places)

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of some examples, as this module's docstring lists them."""
        some = self.take(indices)
        arrays = {
            name: some.tokens_N.astype(np.int64),
            f"{name}_lengths": some.lengths_S,
            "segment": some.segments_N.astype(np.int64),
            "part_lengths": some.parts_n,
        }
        if some.places is not None:
            starts_S = some._tokens[:-1]
            arrays["places"] = some.places.positions + np.repeat(starts_S, some.places.counts)
            arrays["marks"] = some.places.marks.astype(np.int64)
            arrays["place_lengths"] = some.places.counts
            arrays["width_lengths"] = np.array(self.width)
        return arrays


class Values(Uneven, Batched):
    """Values of examples end to end: example i has the next lengths[i] of `tokens`, [T] or [T, K]."""

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        some = self.take(indices)
        return {name: some.tokens, f"{name}_lengths": some.lengths}


class Asked(NamedTuple):
    """A question about a document, for scoring: the answer is cut from the document's own characters."""

    key: str
    document: str
    spans: np.ndarray  # [P, 2] of each piece of the document, its first character and the one after its last
    answers: tuple[str, ...]  # the right ones; none where the document does not answer


def objects(values: list) -> np.ndarray:
    """A column of anything, for scoring."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # assigning to a slice would unpack tuples
        column[row] = value
    return column
