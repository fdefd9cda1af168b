"""The column of a text to pre-train on: one example is a passage, whole sentences of one document end to end.

Devlin et al. (2019), section 3.1 and appendix A.2: passages of at most so many tokens, and for each one of another
document (`others`), by which next sentences are told from random ones.
A passage takes sentences of its document one after the other while they fit (`passage_bounds`). Nothing is left out: a
sentence that is longer than a passage is cut into even pieces, and the last passage of a document may be short.

T: tokens of the store, S: sentences, D: documents, P: passages of the column, B: passages asked for, N: their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from canon.data.batching.sequences import Ragged, places_of
from canon.data.text.framing import Specials
from canon.errors import CanonError

# Bits of `begins`
WORD = 1  # the token begins a word
PHRASE = 2  # it begins a phrase of the user's lexicon
INSIDE = 4  # it goes on with one
SENTENCE = 8  # it begins a sentence
CHUNK = 1 << 18  # sentences that are looked at at a time


class Drawn(Ragged):
    """Some passages: tokens [N] int64, lengths [B]; `begins` [N] uint8 has the bits above, `breaks` [N] is true where a
    sentence begins. The first token of a passage begins a word and a sentence, even where a long one was cut."""

    def __init__(self, tokens: np.ndarray, lengths: np.ndarray, begins: np.ndarray) -> None:
        super().__init__(tokens, lengths)
        self.begins = begins

    @property
    def breaks(self) -> np.ndarray:
        return (self.begins & SENTENCE) > 0

    def take(self, indices: np.ndarray) -> Drawn:
        places, lengths = places_of(self.offsets, indices)
        return Drawn(self.tokens[places], lengths, self.begins[places])


class Passages:
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

    @classmethod
    def of(
        cls,
        documents: Sequence[Sequence[Sequence[int]]],
        length: int,
        specials: Specials,
        vocab_size: int,
        begins: Sequence[int] | None = None,
    ) -> Passages:
        """Of documents in memory: sentences of ids. begins: bits of all tokens; without them each begins a word."""
        rows = [np.asarray(sentence, dtype=np.int64) for document in documents for sentence in document]
        sentences = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        counts = np.concatenate([[0], np.cumsum([len(document) for document in documents])]).astype(np.int64)
        tokens = np.concatenate(rows).astype(token_dtype(vocab_size))
        bits = np.full(len(tokens), WORD, np.uint8) if begins is None else np.asarray(begins, dtype=np.uint8).copy()
        bits[sentences[:-1]] |= WORD | SENTENCE
        return cls(tokens, bits, sentences, counts, length, specials, vocab_size)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens.dtype

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
        made = object.__new__(Passages)
        made.__dict__ |= {name: value for name, value in self.__dict__.items() if name not in ("_ordered",)}
        made.starts, made.lengths = starts, lengths
        return made

    def sequence(self, indices: np.ndarray) -> Drawn:
        """The passages at `indices`, end to end."""
        return self._drawn(self.starts[indices], self.lengths[indices])

    def _drawn(self, starts_B: np.ndarray, lengths_B: np.ndarray) -> Drawn:
        before_B = np.cumsum(lengths_B) - lengths_B
        places_N = np.arange(int(lengths_B.sum())) + np.repeat(starts_B - before_B, lengths_B)
        begins_N = self.begins[places_N]
        begins_N[before_B] |= WORD | SENTENCE
        return Drawn(self.tokens[places_N].astype(np.int64), lengths_B, begins_N)

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
            raise CanonError("Sentences of another document are asked for, but the text has only one document.")
        chosen_B = np.minimum((u_B * count_B).astype(np.int64), count_B - 1)
        chosen_B += np.where(chosen_B >= low_B, high_B - low_B, 0)
        return self._drawn(starts_P[chosen_B], lengths_P[chosen_B])

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and lengths in the order of the text, in which those of one document lie side by side."""
        if len(self) < 2 or (self.starts[1:] > self.starts[:-1]).all():
            return self.starts, self.lengths
        order = np.argsort(self.starts, kind="stable")
        return self.starts[order], self.lengths[order]


def token_dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


def passage_bounds(sentences: np.ndarray, documents: np.ndarray, length: int) -> np.ndarray:
    """[P+1] int64: where passages begin, and the end; memory beyond that does not grow with the text."""
    found: list[np.ndarray] = []
    first = 0
    while first < len(documents) - 1:
        stop = int(np.searchsorted(documents, documents[first] + CHUNK, side="right")) - 1
        stop = max(stop, first + 1)
        own = np.asarray(documents[first : stop + 1])
        found.append(_bounds(np.asarray(sentences[own[0] : own[-1] + 1]), own - own[0], length))
        first = stop
    return np.concatenate([*found, np.asarray(sentences[-1:], dtype=np.int64)]) if found else np.zeros(1, np.int64)


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
