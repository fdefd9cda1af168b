"""The column of a text to pre-train on: one example is a passage, whole sentences of one document end to end.

Devlin et al. (2019), section 3.1 and appendix A.2: passages of at most so many tokens, and for each one of another
document (`others`), which is paired with it where the second sentence shall be a random one.
A passage takes sentences of its document one after the other while they fit (`passage_bounds`). Nothing is left out: a
sentence that is longer than a passage is cut into even pieces, and the last passage of a document may be short.

T: tokens of the store, S: sentences, D: documents, P: passages of the column, B: passages asked for, N: their tokens,
L: the longest of them; grids [B, L] are padded.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from canon.data.batching.sequences import Ragged, RowColumn, ranges, starts_of
from canon.data.text.framing import Specials, frame
from canon.errors import CanonError

# Bits of `begins`
WORD = 1  # the token begins a word
PHRASE = 2  # it begins a phrase of the user's lexicon
INSIDE = 4  # it goes on with one
SENTENCE = 8  # it begins a sentence
CHUNK = 1 << 18  # sentences that are looked at at a time


class Drawn(Ragged):
    """Some passages: tokens [N] int64, lengths [B]; `begins` [N] uint8 has the bits above. The first token of a passage
    begins a word and a sentence, even where a long one was cut."""

    def __init__(self, tokens: np.ndarray, lengths: np.ndarray, begins: np.ndarray) -> None:
        super().__init__(tokens, lengths)
        self.begins = begins

    def _with(self, places: np.ndarray, lengths: np.ndarray) -> Drawn:
        return Drawn(self.tokens[places], lengths, self.begins[places])


class Passages(RowColumn):
    """tokens [T] uint16 or int32 and begins [T] uint8 hold the text; sentences [S+1] int64 are places in it, and
    documents [D+1] int64 numbers of sentences. The column's passages are [starts[i], starts[i] + lengths[i])."""

    def __init__(
        self,
        tokens: np.ndarray,
        begins: np.ndarray,
        sentences: np.ndarray,
        documents: np.ndarray,
        length: int,
        specials: Specials,
        vocab_size: int,
        bounds: np.ndarray | None = None,
    ) -> None:
        self.tokens, self.begins, self.sentences, self.documents = tokens, begins, sentences, documents
        self.length, self.specials, self.vocab_size = length, specials, vocab_size
        bounds = passage_bounds(sentences, documents, length) if bounds is None else bounds
        self.starts: np.ndarray = bounds[:-1]  # [P] int64
        self.lengths: np.ndarray = np.diff(bounds)  # [P] int64
        # [D+1]: the place in the text where each document begins.
        self._document_starts = np.asarray(sentences)[documents] if len(sentences) else np.zeros(1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

    def take(self, indices: np.ndarray) -> Passages:
        """The column of those passages; `others` then chooses among them alone."""
        return self._with(self.starts[indices], self.lengths[indices])

    def between(self, first: int, stop: int) -> Passages:
        """The passages of the documents [first, stop)."""
        low, high = np.searchsorted(self.starts, self._document_starts[[first, stop]])
        return self._with(self.starts[low:high], self.lengths[low:high])

    def _with(self, starts: np.ndarray, lengths: np.ndarray) -> Passages:
        column = copy(self)
        column.starts, column.lengths = starts, lengths
        vars(column).pop("_ordered", None)
        return column

    def sequence(self, indices: np.ndarray) -> Drawn:
        """The passages at `indices`, end to end."""
        return stretches(self, self.starts[indices], self.lengths[indices])

    def document_of(self, indices: np.ndarray) -> np.ndarray:
        """The number of the document that each passage is of."""
        return np.searchsorted(self._document_starts, self.starts[indices], side="right") - 1

    def others(self, indices: np.ndarray, u_B: np.ndarray) -> Drawn:
        """For each passage one of another document, all of which are as likely; u_B in [0, 1) chooses."""
        starts_P, lengths_P = self._ordered
        document_B = self.document_of(indices)
        low_B = np.searchsorted(starts_P, self._document_starts[document_B])
        high_B = np.searchsorted(starts_P, self._document_starts[document_B + 1])
        count_B = len(starts_P) - (high_B - low_B)
        if len(count_B) and count_B.min() < 1:
            raise CanonError(
                "Next-sentence prediction needs sentences of another document, but the text has only one; put a blank "
                "line between documents, or set objective.next_sentence = false."
            )
        chosen_B = np.minimum((u_B * count_B).astype(np.int64), count_B - 1)
        chosen_B += np.where(chosen_B >= low_B, high_B - low_B, 0)
        return stretches(self, starts_P[chosen_B], lengths_P[chosen_B])

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and lengths in the order of the text, in which those of one document lie side by side."""
        if len(self) < 2 or (self.starts[1:] > self.starts[:-1]).all():
            return self.starts, self.lengths
        order = np.argsort(self.starts, kind="stable")
        return self.starts[order], self.lengths[order]


def stretches(text: Passages | Drawn, starts_B: np.ndarray, lengths_B: np.ndarray) -> Drawn:
    """The tokens [start, start + length) of a text; the first of each row begins a word and a sentence."""
    places_N = ranges(starts_B, lengths_B)
    begins_N = text.begins[places_N]
    begins_N[starts_of(lengths_B)[lengths_B > 0]] |= WORD | SENTENCE
    return Drawn(text.tokens[places_N].astype(np.int64, copy=False), lengths_B, begins_N)


def joined(first: Drawn, second: Drawn) -> Drawn:
    """The rows of the one, then those of the other."""
    pairs = ((first.tokens, second.tokens), (first.lengths, second.lengths), (first.begins, second.begins))
    return Drawn(*(np.concatenate(pair) for pair in pairs))


def token_dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


def passage_bounds(sentences: np.ndarray, documents: np.ndarray, length: int) -> np.ndarray:
    """[P+1] int64: where passages begin, and the end; memory beyond that does not grow with the text."""
    bounds: list[np.ndarray] = []
    first = 0
    while first < len(documents) - 1:
        stop = max(int(np.searchsorted(documents, documents[first] + CHUNK, side="right")) - 1, first + 1)
        some = np.asarray(documents[first : stop + 1])
        bounds.append(_bounds(np.asarray(sentences[some[0] : some[-1] + 1]), some - some[0], length))
        first = stop
    return np.concatenate([*bounds, np.asarray(sentences[-1:], dtype=np.int64)]) if bounds else np.zeros(1, np.int64)


def _bounds(sentences: np.ndarray, documents: np.ndarray, length: int) -> np.ndarray:
    """Of some whole documents, without the end."""
    lengths = np.diff(sentences)
    pieces = -(-lengths // length)  # of each sentence; most have one
    unit = np.concatenate([[0], np.cumsum(pieces)])  # the first piece of each sentence
    within = np.arange(unit[-1]) - np.repeat(unit[:-1], pieces)
    starts = np.repeat(sentences[:-1], pieces) + within * np.repeat(lengths, pieces) // np.repeat(pieces, pieces)
    # Where a passage that begins with a piece stops: at the first piece that does not fit, or at the next document.
    reach = np.searchsorted(np.append(starts, sentences[-1]), starts + length, side="right") - 1
    reach = np.minimum(reach, np.repeat(unit[documents[1:]], np.diff(unit[documents])))
    following, chain, place = reach.tolist(), [], 0
    while place < len(following):
        chain.append(place)
        place = following[place]
    return starts[chain]


# Sequences that a network reads


@dataclass(frozen=True)
class Sequences:
    """What a network reads, and what is known of it. begins: the bits above, 0 at special tokens."""

    tokens: np.ndarray  # [N], int64
    lengths: np.ndarray  # [B], int64
    segments: np.ndarray  # [N], int64
    ordinary: np.ndarray  # [N], bool: a token of the text
    begins: np.ndarray  # [N], uint8

    @cached_property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each token in its sequence."""
        return ranges(np.zeros_like(self.lengths), self.lengths)

    @cached_property
    def starts(self) -> np.ndarray:
        return starts_of(self.lengths)

    @cached_property
    def there(self) -> np.ndarray:
        """Where the grid has a token."""
        return np.arange(self.lengths.max(initial=0)) < self.lengths[:, None]

    def grid(self, x_N: np.ndarray) -> np.ndarray:
        """[B, L], 0 after the end."""
        if self.there.size == len(x_N):
            return x_N.reshape(self.there.shape)
        x_BL = np.zeros(self.there.shape, dtype=x_N.dtype)
        x_BL[self.there] = x_N
        return x_BL

    def flat(self, x_BL: np.ndarray) -> np.ndarray:
        """[N] of a grid."""
        return x_BL.reshape(-1) if self.there.size == len(self.tokens) else x_BL[self.there]


def framed(framing: str, specials: Specials, first: Drawn, second: Drawn | None = None) -> Sequences:
    """One or two texts for each sequence between the special tokens of `framing`."""
    tokens_N, lengths_B, segments_N, first_B, second_B = frame(framing, specials, first, second)
    begins_N = np.zeros(len(tokens_N), dtype=np.uint8)
    ordinary_N = np.zeros(len(tokens_N), dtype=np.bool_)
    for text, starts_B in ((first, first_B), (second, second_B)):
        if text is not None:
            lie = ranges(starts_B, text.lengths)
            ordinary_N[lie], begins_N[lie] = True, text.begins
    return Sequences(tokens_N, lengths_B, segments_N, ordinary_N, begins_N)


def cut(text: Drawn, starts_B: np.ndarray, lengths_B: np.ndarray) -> Drawn:
    """Of each text the tokens [start, start + length); the first of them begins a word and a sentence."""
    if not starts_B.any() and np.array_equal(lengths_B, text.lengths):
        return text
    return stretches(text, text.offsets[:-1] + starts_B, lengths_B)
