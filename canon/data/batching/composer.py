"""Passages to what a network reads and must predict: one class for each way of pre-training, built from its settings.

The transforms are masking.py, sentence_pairs.py, span_corruption.py, prefix.py and several_tasks.py;
causal language modelling (Radford et al. 2018) needs none: every token predicts the next of its own passage, and never
one of another. Arrays of a batch, all but those of T5 end to end without padding:

| name | shape | meaning |
| --- | --- | --- |
| input, input_lengths | [N], [B] | tokens and lengths of the sequences |
| segment | [N] | where the framing has several kinds |
| places, places_lengths | [M], [B] | where a token is to be predicted, ascending; how many in each sequence |
| target | [M] | that token |
| next, next_lengths | [B] | 0: the second text follows, 1: it does not, −100: not asked; 1 where asked |
| rank | [N] | place in the order of factorisation (permutation) |
| prefix_lengths | [B] | so many first tokens see each other (prefix) |
| target_input, target, target_lengths | [M], [M], [B] | what the decoder reads and must predict (corruption) |
| task | [B] | number of the task (continual) |
| order, distance, …_lengths | [B] | labels or −100; 1 where asked (continual) |
| relation_places, relation, …_lengths | [R], [R], [B] | tokens, whether each comes elsewhere too; how many |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from canon import pretexts as settings
from canon.contracts import IGNORE, Arrays
from canon.data.batching import several_tasks
from canon.data.batching.draws import Draws
from canon.data.batching.masking import MaskedTokens, mask, ordinary_ids, permute
from canon.data.batching.passages import Drawn, Passages, Sequences, cut, framed
from canon.data.batching.prefix import prefix
from canon.data.batching.sentence_pairs import NextSentenceFacts, next_sentences
from canon.data.batching.sequences import ranges, starts_of
from canon.data.batching.span_corruption import corrupt
from canon.data.text.framing import num_specials
from canon.errors import CanonError

Settings = TypeVar("Settings")


class Composer:
    """A way of pre-training for one column of passages."""

    def __init__(self, pretext: Pretext, passages: Passages, max_positions: int = 0) -> None:
        """max_positions: tokens that the network has room for; 0: any number."""
        self.pretext, self.passages = pretext, passages
        self.framing, self.specials = pretext.framing, passages.specials
        self._max_positions = max_positions
        self._num_specials = num_specials(self.framing, self.specials, pretext.pairs)
        if "next" in pretext.labels:
            self.facts.require()

    @cached_property
    def facts(self) -> NextSentenceFacts:
        return NextSentenceFacts.of(self.passages)

    @cached_property
    def vocabulary(self) -> np.ndarray:
        """What a random token is drawn from."""
        return ordinary_ids(self.passages.vocab_size, self.specials)

    @property
    def room(self) -> int:
        """Tokens of the text that fit beside the special ones, of one text or of two."""
        if not self._max_positions:
            return self.passages.length
        room = self._max_positions - self._num_specials
        if room < 2:
            raise CanonError(
                f"system.max_positions = {self._max_positions} leaves no room for a text; set a larger one."
            )
        return min(room, self.passages.length)

    @property
    def longest(self) -> int:
        """Tokens of a sequence, special ones among them, at most."""
        return self.room + self._num_specials

    def __call__(self, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        """The batch of the passages at `indices`, which are the rows `rows_B` of the global batch."""
        return self.pretext.compose(self, np.asarray(indices), np.asarray(rows_B), draws)

    def text(self, indices: np.ndarray) -> Drawn:
        """The passages as they are, without what does not fit."""
        whole = self.passages.sequence(indices)
        return cut(whole, np.zeros_like(whole.lengths), np.minimum(whole.lengths, self.room))

    def framed(self, first: Drawn, second: Drawn | None = None) -> Sequences:
        return framed(self.framing, self.specials, first, second)

    def hidden(
        self, text: Sequences, rows_B: np.ndarray, draws: Draws, masking: str, share: float, always: bool = False
    ) -> MaskedTokens:
        return mask(text, rows_B, draws, self.specials, self.vocabulary, masking, share, always=always)


class Pretext(ABC, Generic[Settings]):
    """What all ways of pre-training declare."""

    framing: ClassVar[str] = "bert"
    recordable: ClassVar[bool] = False  # whether a step is the device's work alone (canon.training.graphs)
    decodes: ClassVar[bool] = False  # whether an encoder reads and a decoder writes
    continues: ClassVar[bool] = False  # whether every token is predicted, from those before it
    ranked: ClassVar[bool] = False  # whether tokens are predicted in an order of their own
    several: ClassVar[bool] = False  # whether each step is of one of several tasks
    paired: ClassVar[bool] = False  # whether a sequence may be of two texts even without a label for that
    sentinels: ClassVar[int] = 0  # tokens that a vocabulary must have to stand for spans

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def labels(self) -> tuple[str, ...]:
        """What is asked beside tokens to predict: of sequences, or of tokens."""
        return ()

    @property
    def tokens(self) -> bool:
        """Whether tokens are predicted."""
        return True

    @property
    def pairs(self) -> bool:
        """Whether a sequence may be of two texts."""
        return self.paired or "next" in self.labels

    def suited(self, passages: Passages) -> dict[str, Any]:
        """Settings that a text rules out, and what they are for it."""
        return {}

    @abstractmethod
    def predicted(self, length: int) -> int:
        """About how many tokens are predicted of a sequence of this length."""

    @abstractmethod
    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays: ...


class MaskedPretext(Pretext[settings.MaskedSettings]):
    recordable = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ("next",) if self.settings.next_sentence else ()

    def suited(self, passages: Passages) -> dict[str, Any]:
        lacking = self.settings.next_sentence and not NextSentenceFacts.of(passages).suffice
        return {"next_sentence": False} if lacking else {}

    def predicted(self, length: int) -> int:
        return math.ceil(length * self.settings.mask_share)

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        hiding = self.settings.masking, self.settings.mask_share, self.settings.always_mask
        if not self.settings.next_sentence:
            text = column.framed(column.text(indices))
            return _asked(text.lengths, *column.hidden(text, rows_B, draws, *hiding))
        pairs = next_sentences(column.passages, indices, rows_B, draws, column.room, column.facts)
        text = column.framed(pairs.first, pairs.second)
        asked = _asked(text.lengths, *column.hidden(text, rows_B, draws, *hiding))
        return {**asked, "segment": text.segments, **_labelled("next", pairs.labels)}


class CausalPretext(Pretext[settings.CausalSettings]):
    framing = "gpt"
    recordable = True
    continues = True

    def predicted(self, length: int) -> int:
        return length

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        text = column.framed(column.text(indices))
        inner_N = np.ones(len(text.tokens), dtype=bool)
        inner_N[text.starts + text.lengths - 1] = False  # after a sequence's last token nothing is known
        places_M = np.flatnonzero(inner_N)
        return _asked(text.lengths, text.tokens, places_M, text.tokens[places_M + 1])


class PermutationPretext(Pretext[settings.PermutationSettings]):
    framing = "xlnet"
    ranked = True

    def predicted(self, length: int) -> int:
        return math.ceil(length * self.settings.predict_share)

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        text = column.framed(column.text(indices))
        permuted = permute(text, rows_B, draws, self.settings.predict_share)
        asked = _asked(text.lengths, text.tokens, permuted.places, permuted.target)
        return {**asked, "rank": permuted.rank, "segment": text.segments}


class CorruptionPretext(Pretext[settings.CorruptionSettings]):
    framing = "t5"
    decodes = True
    sentinels = 32

    def predicted(self, length: int) -> int:
        """A share of the text in spans, each with its sentinel, and </s>."""
        share, span = self.settings.corrupt_share, self.settings.corrupt_span
        return math.ceil(length * share * (1 + 1 / span)) + 1

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        share, span = self.settings.corrupt_share, self.settings.corrupt_span
        source, target = corrupt(column.text(indices), rows_B, draws, column.specials, share, span)
        # A decoder begins with <pad>, which is never predicted, and goes on with its target but for the last token.
        read = np.concatenate([[0], target.tokens[:-1]])
        read[target.offsets[:-1]] = column.specials.require("pad", "T5's decoder")
        return {
            "input": source.tokens,
            "input_lengths": source.lengths,
            "target_input": read,
            "target": target.tokens,
            "target_lengths": target.lengths,
        }


class PrefixPretext(MaskedPretext):
    recordable = False
    paired = True

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        assert isinstance(self.settings, settings.PrefixSettings)
        batch = prefix(column, indices, rows_B, draws, self.settings)
        asked = _asked(batch.lengths, batch.input, batch.places, batch.target)
        asked |= {"segment": batch.segments, "prefix_lengths": batch.prefix}
        return {**asked, **_labelled("next", batch.next)} if self.settings.next_sentence else asked


class ContinualPretext(Pretext[settings.ContinualSettings]):
    several = True
    paired = True

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(name for name in self.settings.tasks if name != "masked")

    @property
    def tokens(self) -> bool:
        return "masked" in self.settings.tasks

    def predicted(self, length: int) -> int:
        return math.ceil(length * self.settings.mask_share)

    def compose(self, column: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        """Each row by its own task; in a training step that is one for all."""
        tasks = self.settings.tasks
        task_B = several_tasks.task_of(rows_B, draws, tasks, self.settings.stage)
        passages, size = column.passages, len(indices)
        labels = {"order": np.full(size, IGNORE), "distance": np.full(size, IGNORE)}
        parts: list[tuple[np.ndarray, Sequences, np.ndarray, np.ndarray]] = []  # rows, text, input, [2, N] targets
        for number in np.unique(task_B):
            rows = np.flatnonzero(task_B == number)
            name = tasks[number]
            first, second = column.text(indices[rows]), None
            if name == "order":
                first, labels["order"][rows] = several_tasks.reorder(first, rows_B[rows], draws)
            elif name == "distance":
                near = several_tasks.distance(passages, indices[rows], rows_B[rows], draws, column.room)
                first, second, labels["distance"][rows] = near
            text = column.framed(first, second)
            targets = np.full((2, len(text.tokens)), IGNORE)
            shown = text.tokens
            if name == "masked":
                hiding = self.settings.masking, self.settings.mask_share
                shown, places_M, target_M = column.hidden(text, rows_B[rows], draws, *hiding)
                targets[0, places_M] = target_M
            elif name == "relation":
                targets[1, text.ordinary] = several_tasks.relation(passages, indices[rows], first)
            parts.append((rows, text, shown, targets))
        asked = _merged(parts, task_B)
        for name, label_B in labels.items():
            asked |= _labelled(name, label_B)
        return asked


def _asked(lengths_B: np.ndarray, input_N: np.ndarray, places_M: np.ndarray, target_M: np.ndarray) -> Arrays:
    return {
        "input": input_N,
        "input_lengths": lengths_B,
        "places": places_M,
        "places_lengths": _counts(lengths_B, places_M),
        "target": target_M,
    }


def _counts(lengths_B: np.ndarray, places_M: np.ndarray) -> np.ndarray:
    """How many of the places lie in each sequence."""
    row_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
    return np.bincount(row_N[places_M], minlength=len(lengths_B))


def _labelled(name: str, label_B: np.ndarray) -> Arrays:
    """Labels of sequences; what ends in _lengths stays on the host, where targets are counted."""
    return {name: label_B, f"{name}_lengths": (label_B != IGNORE).astype(np.int64)}


def _merged(parts: list[tuple[np.ndarray, Sequences, np.ndarray, np.ndarray]], task_B: np.ndarray) -> Arrays:
    """The parts' sequences in the order of their rows."""
    rows, texts, inputs, targets_of = zip(*parts, strict=True)
    order = np.argsort(np.concatenate(rows))
    lengths = np.concatenate([text.lengths for text in texts])
    lengths_B = lengths[order]
    taken = ranges(starts_of(lengths)[order], lengths_B)
    targets = np.concatenate(targets_of, axis=1)[:, taken]
    places_M, relation_R = (np.flatnonzero(row_N != IGNORE) for row_N in targets)
    return {
        **_asked(lengths_B, np.concatenate(inputs)[taken], places_M, targets[0, places_M]),
        "segment": np.concatenate([text.segments for text in texts])[taken],
        "task": task_B,
        "relation_places": relation_R,
        "relation": targets[1, relation_R],
        "relation_lengths": _counts(lengths_B, relation_R),
    }
