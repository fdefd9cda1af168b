"""Two texts side by side: the second goes on with the first, or comes from elsewhere.

Devlin et al. 2019, BERT (arXiv:1810.04805), section 3.1, task 2, and appendix A.2: half of the time the true
continuation, else a text of another document; a tenth of the sequences shorter than the room → `next_sentences`; what
is too long is trimmed at either end of the longer text → `fit`, as in the authors' code.
Deviations: a passage is always cut from the same place, so what follows a first text that got a foreign second is not
used at that visit; the foreign text begins where a passage does; a shortened passage keeps two sentences at least, so
that both labels stay possible. A passage of one sentence has no continuation and always gets a foreign text, as in the
authors' code; the others then get one less often, so that the labels stay even (`NextSentenceFacts.chance`).
Shapes: B passages, S sentences of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from canon.data.batching.draws import Draws
from canon.data.batching.passages import SENTENCE, Drawn, Passages, cut, joined, stretches
from canon.data.batching.sequences import starts_of
from canon.errors import CanonError

FOLLOWS, FOREIGN = 0, 1  # labels, as BERT's
_SHORT = 0.1  # share of sequences that are shortened
_SAMPLE = 1 << 16  # passages by which a column is judged
_ALONE = 0.9  # more passages of one sentence than this leave too little to learn from

_LABEL, _OTHER, _CUT, _TARGET, _SPLIT, _FRONT, _FRONT_SECOND = range(10, 17)  # streams of random numbers


class Sentences(NamedTuple):
    """Where the sentences of some passages begin, counted from each passage's own beginning."""

    starts: np.ndarray  # [S]
    rows: np.ndarray  # [S], the passage of each
    counts: np.ndarray  # [B]

    @classmethod
    def of(cls, text: Drawn) -> Sentences:
        lie_S = np.flatnonzero(text.begins & SENTENCE)
        rows_S = np.searchsorted(text.offsets[1:], lie_S, side="right")
        return cls(lie_S - text.offsets[rows_S], rows_S, np.bincount(rows_S, minlength=len(text.lengths)))

    def start(self, number_B: np.ndarray, lengths_B: np.ndarray) -> np.ndarray:
        """Where sentence `number` of each passage begins; the passage's end where there is no such sentence."""
        index_B = np.minimum(starts_of(self.counts) + number_B, len(self.starts) - 1)
        return np.where(number_B < self.counts, self.starts[index_B], lengths_B)


class NextSentenceFacts(NamedTuple):
    """What next-sentence prediction must know of a column, by an even sample of its passages."""

    alone: float  # share of the passages that have one sentence
    documents: int  # 1, or 2 for several

    @classmethod
    def of(cls, passages: Passages) -> NextSentenceFacts:
        rows = np.unique(np.linspace(0, len(passages) - 1, min(len(passages), _SAMPLE)).astype(np.int64))
        starts, stops = passages.starts[rows], passages.starts[rows] + passages.lengths[rows]
        sentences = np.asarray(passages.sentences)
        begun = np.searchsorted(sentences, stops) - np.searchsorted(sentences, starts, side="right")  # after the first
        same = len(passages) == 0 or passages.document_of(rows).min() == passages.document_of(rows).max()
        return cls(float((begun == 0).mean()) if len(rows) else 1.0, 1 if same else 2)

    @property
    def chance(self) -> float:
        """Of a foreign second text, where a passage could go on: such that half of all get one, or none if too many."""
        return max(0.0, (0.5 - self.alone) / (1.0 - self.alone)) if self.alone < 1 and self.documents > 1 else 0.0

    @property
    def suffice(self) -> bool:
        """Whether next sentences can be learned."""
        return self.alone <= _ALONE and self.documents > 1

    def require(self) -> None:
        """Raises an error where too few passages have several sentences."""
        if self.alone > _ALONE:
            raise CanonError(
                f"Next-sentence prediction needs documents of several sentences, but {self.alone:.0%} of the passages "
                "have only one: put a blank line between documents and not between sentences, or set "
                "objective.next_sentence = false."
            )


class SentencePairs(NamedTuple):
    first: Drawn
    second: Drawn
    labels: np.ndarray  # [B]


def next_sentences(
    passages: Passages,
    indices: np.ndarray,
    rows_B: np.ndarray,
    draws: Draws,
    room: int,
    facts: NextSentenceFacts,
    may_B: np.ndarray | bool = True,
) -> SentencePairs:
    """Passages cut at the end of a sentence, each with its rest or a foreign text, `room` tokens at most together.

    may_B: where a text may be foreign; elsewhere, and where there is one document, all go on, and a lone sentence is
    cut in its middle.
    """
    text = passages.sequence(indices)
    sentences = Sentences.of(text)
    short_B = draws.uniform(_CUT, rows_B) < _SHORT
    target_B = np.where(short_B, 2 + draws.integers(max(room - 1, 1), _TARGET, rows_B), room)
    # Sentences that begin before the target fill it.
    begun_B = np.bincount(sentences.rows, sentences.starts < target_B[sentences.rows], len(indices))
    kept_B = np.maximum(begun_B.astype(np.int64), np.minimum(sentences.counts, 2))
    stop_B = sentences.start(kept_B, text.lengths)
    number_B = 1 + draws.integers(np.maximum(kept_B - 1, 1), _SPLIT, rows_B)
    first_B = np.minimum(sentences.start(number_B, text.lengths), stop_B)
    alone_B = sentences.counts == 1
    may_B = np.broadcast_to(may_B, len(indices)) & (facts.documents > 1)
    first_B = np.where(alone_B & ~may_B, text.lengths // 2, first_B)
    foreign_B = may_B & (alone_B | (draws.uniform(_LABEL, rows_B) < facts.chance))
    others = passages.others(indices, draws.uniform(_OTHER, rows_B)) if foreign_B.any() else text
    wanted_B = np.maximum(target_B - first_B, np.maximum(target_B // 2, 1))
    second_B = np.where(foreign_B, np.minimum(others.lengths, wanted_B), stop_B - first_B)
    kept_first_B, kept_second_B = fit(first_B, second_B, room)
    front_B = _heads(draws, _FRONT, rows_B, first_B - kept_first_B)
    front_second_B = _heads(draws, _FRONT_SECOND, rows_B, second_B - kept_second_B)
    both = joined(text, others)
    begin_B = np.where(foreign_B, both.offsets[len(indices) : -1], both.offsets[: len(indices)] + first_B)
    second = stretches(both, begin_B + front_second_B, kept_second_B)
    return SentencePairs(cut(text, front_B, kept_first_B), second, np.where(foreign_B, FOREIGN, FOLLOWS))


def fit(first_B: np.ndarray, second_B: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of two texts after tokens were taken off the longer one (the second if equal) until both fit."""
    excess_B = np.maximum(first_B + second_B - room, 0)
    uneven_B = np.minimum(excess_B, np.abs(first_B - second_B))
    rest_B = excess_B - uneven_B
    longer_B = first_B > second_B
    off_first_B = np.where(longer_B, uneven_B, 0) + rest_B // 2
    off_second_B = np.where(longer_B, 0, uneven_B) + (rest_B + 1) // 2
    return first_B - off_first_B, second_B - off_second_B


def _heads(draws: Draws, stream: int, rows_B: np.ndarray, tosses_B: np.ndarray) -> np.ndarray:
    """Of so many tosses of a coin how many show heads: here, tokens taken off the front and not the back."""
    most = int(tosses_B.max(initial=0))
    if not most:
        return np.zeros_like(tosses_B)
    word = np.arange(-(-most // 64))
    used = np.clip(tosses_B[:, None] - 64 * word, 0, 64).astype(np.uint64)
    shift = np.uint64(64) - used
    ones = np.where(used > 0, np.uint64(0xFFFFFFFFFFFFFFFF) >> np.minimum(shift, np.uint64(63)), np.uint64(0))
    return np.bitwise_count(draws.bits(stream, rows_B[:, None], word) & ones).sum(axis=1).astype(np.int64)
