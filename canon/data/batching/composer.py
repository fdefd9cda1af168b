"""Passages to what a network reads and must tell: one function for each way of pre-training.

The transforms are masking.py, pairs.py, permutation.py, corruption.py, prefix.py and continual.py; causal language
modelling (Radford et al. 2018) needs none: every token tells the next of its own passage, and never one of another.
Arrays of a batch, all but those of T5 end to end without padding:

| name | shape | meaning |
| --- | --- | --- |
| input, input_lengths | [N], [B] | tokens and lengths of the sequences |
| segment | [N] | where the framing has several kinds |
| places, places_lengths | [M], [B] | where a token is to be told, ascending; how many in each sequence |
| target | [M] | that token |
| next, next_lengths | [B] | 0: the second text follows, 1: it does not, −100: not asked; 1 where asked |
| rank | [N] | place in the order of factorisation (permutation) |
| prefix_lengths | [B] | so many first tokens see each other (prefix) |
| target_input, target, target_lengths | [M], [M], [B] | what the decoder reads and must say (corruption) |
| task | [B] | number of the task (continual) |
| order, distance, …_lengths | [B] | labels or −100; 1 where asked (continual) |
| relation_places, relation, …_lengths | [R], [R], [B] | tokens, whether each comes elsewhere too; how many |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from canon.contracts import IGNORE
from canon.data.batching import several_tasks as continual
from canon.data.batching.composing import Sequences, cut, framed, ranges, starts_of
from canon.data.batching.draws import Draws
from canon.data.batching.masking import mask, ordinary_ids
from canon.data.batching.passages import Passages
from canon.data.batching.permutation import permute
from canon.data.batching.prefix import MODES, prefix
from canon.data.batching.sentence_pairs import Facts, next_sentences
from canon.data.batching.span_corruption import corrupt
from canon.data.text.framing import num_specials
from canon.errors import CanonError, unknown

Arrays = dict[str, np.ndarray]
_FRAMINGS = {"causal": "gpt", "permutation": "xlnet", "corruption": "t5"}  # of the others: bert


class Composer:
    """The objective of a system with its settings, for one column of passages."""

    def __init__(self, objective: str, config: Any, passages: Passages) -> None:
        if objective not in _COMPOSERS:
            raise unknown("objective", objective, _COMPOSERS)
        self.objective, self.config, self.passages = objective, config, passages
        self.framing = self.setting("framing", "") or _FRAMINGS.get(objective, "bert")
        self.specials = passages.specials
        self.next_sentence = bool(self.setting("next_sentence", False))
        if self.next_sentence and objective in ("masked", "prefix"):
            self.facts.require()

    def setting(self, name: str, default: Any) -> Any:
        return getattr(self.config, name, default)

    @cached_property
    def facts(self) -> Facts:
        return Facts.of(self.passages)

    @cached_property
    def vocabulary(self) -> np.ndarray:
        """What a random token is drawn from."""
        return ordinary_ids(self.passages.vocab_size, self.specials)

    @property
    def room(self) -> int:
        """Tokens of the text that fit beside the special ones, of one text or of two."""
        pair = self.next_sentence or self.objective in ("prefix", "continual")
        most = self.setting("max_positions", 0)
        room = most - num_specials(self.framing, self.specials, pair) if most else self.passages.length
        if room < 2:
            raise CanonError(f"system.max_positions = {most} leaves no room for a text; give a larger one.")
        return min(room, self.passages.length)

    @property
    def longest(self) -> int:
        """Tokens of a sequence, special ones among them, at most."""
        return self.room + num_specials(self.framing, self.specials, self.next_sentence)

    def __call__(self, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
        """The batch of the passages at `indices`, which are the rows `rows_B` of the global batch."""
        return _COMPOSERS[self.objective](self, np.asarray(indices), np.asarray(rows_B), draws)

    def text(self, indices: np.ndarray) -> Any:
        """The passages as they are, without what does not fit."""
        found = self.passages.sequence(indices)
        return cut(found, np.zeros_like(found.lengths), np.minimum(found.lengths, self.room))


def _told(text: Sequences, input_N: np.ndarray, places_M: np.ndarray, target_M: np.ndarray) -> Arrays:
    return {
        "input": input_N,
        "input_lengths": text.lengths,
        "places": places_M,
        "places_lengths": np.bincount(text.rows[places_M], minlength=len(text.lengths)),
        "target": target_M,
    }


def _labelled(name: str, label_B: np.ndarray) -> Arrays:
    """Labels of sequences; what ends in _lengths stays on the host, where targets are counted."""
    return {name: label_B, f"{name}_lengths": (label_B != IGNORE).astype(np.int64)}


def _masked(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    more: Arrays = {}
    if composer.next_sentence:
        pairs = next_sentences(composer.passages, indices, rows_B, draws, composer.room, composer.facts)
        text = framed(composer.framing, composer.specials, pairs.first, pairs.second)
        more = {"segment": text.segments, **_labelled("next", pairs.labels)}
    else:
        text = framed(composer.framing, composer.specials, composer.text(indices))
    return {**_told(text, *_hidden(composer, text, rows_B, draws)), **more}


def _hidden(composer: Composer, text: Sequences, rows_B: np.ndarray, draws: Draws, default: str = "token") -> Any:
    masking, share = composer.setting("masking", default), composer.setting("mask_share", 0.15)
    return mask(text, rows_B, draws, composer.specials, composer.vocabulary, masking, share)


def _causal(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    text = framed(composer.framing, composer.specials, composer.text(indices))
    inner_N = np.ones(len(text.tokens), dtype=bool)
    inner_N[text.starts + text.lengths - 1] = False  # behind a sequence's last token nothing is known
    places_M = np.flatnonzero(inner_N)
    return _told(text, text.tokens, places_M, text.tokens[places_M + 1])


def _permutation(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    text = framed(composer.framing, composer.specials, composer.text(indices))
    found = permute(
        text,
        rows_B,
        draws,
        composer.setting("predict_share", 1 / 6),
        composer.setting("predict_spans", True),
        composer.setting("ordered", False),
    )
    told = _told(text, text.tokens, found.places, found.target)
    return {**told, "rank": found.rank, "segment": text.segments}


def _corruption(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    found = corrupt(
        composer.text(indices),
        rows_B,
        draws,
        composer.specials,
        composer.setting("corrupt_share", 0.15),
        composer.setting("corrupt_span", 3.0),
    )
    # A decoder begins with <pad>, which is never told, and goes on with its target but for the last token.
    given = np.concatenate([[0], found.target.tokens[:-1]])
    given[found.target.offsets[:-1]] = composer.specials.require("pad", "T5's decoder")
    return {
        "input": found.source.tokens,
        "input_lengths": found.source.lengths,
        "target_input": given,
        "target": found.target.tokens,
        "target_lengths": found.target.lengths,
    }


def _prefix(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    found = prefix(
        composer.passages,
        indices,
        rows_B,
        draws,
        composer.specials,
        composer.vocabulary,
        composer.room,
        composer.facts,
        composer.setting("modes", MODES),
        composer.next_sentence,
        composer.setting("masking", "span"),
        composer.setting("mask_share", 0.15),
    )
    row_N = np.repeat(np.arange(len(indices)), found.lengths)
    told = {
        "input": found.input,
        "input_lengths": found.lengths,
        "segment": found.segments,
        "places": found.places,
        "places_lengths": np.bincount(row_N[found.places], minlength=len(indices)),
        "target": found.target,
        "prefix_lengths": found.prefix,
    }
    return {**told, **_labelled("next", found.next)} if composer.next_sentence else told


def _continual(composer: Composer, indices: np.ndarray, rows_B: np.ndarray, draws: Draws) -> Arrays:
    """Each row by its own task; in a training step that is one for all."""
    tasks = tuple(composer.setting("tasks", continual.TASKS))
    if missing := set(tasks) - set(continual.TASKS):
        raise unknown("task", min(missing), continual.TASKS)
    task_B = continual.task_of(rows_B, draws, tasks, composer.setting("stage", 0))
    passages, size = composer.passages, len(indices)
    labels = {"order": np.full(size, IGNORE), "distance": np.full(size, IGNORE)}
    parts: list[tuple[np.ndarray, Sequences, np.ndarray, np.ndarray]] = []  # rows, text, input, [2, N] targets
    for number in np.unique(task_B):
        own = np.flatnonzero(task_B == number)
        name = tasks[number]
        first, second = composer.text(indices[own]), None
        if name == "order":
            first, labels["order"][own] = continual.reorder(first, rows_B[own], draws)
        elif name == "distance":
            found = continual.distance(passages, indices[own], rows_B[own], draws, composer.room)
            first, second, labels["distance"][own] = found
        text = framed(composer.framing, composer.specials, first, second)
        targets = np.full((2, len(text.tokens)), IGNORE)
        shown = text.tokens
        if name == "masked":
            shown, places_M, target_M = _hidden(composer, text, rows_B[own], draws, "span")
            targets[0, places_M] = target_M
        elif name == "relation":
            targets[1, text.ordinary] = continual.relation(passages, indices[own], first)
        parts.append((own, text, shown, targets))
    told = _merged(parts, task_B)
    for name, label_B in labels.items():
        told |= _labelled(name, label_B)
    return told


def _merged(parts: list[tuple[np.ndarray, Sequences, np.ndarray, np.ndarray]], task_B: np.ndarray) -> Arrays:
    """The parts' sequences in the order of their rows."""
    order = np.argsort(np.concatenate([own for own, _, _, _ in parts]))
    lengths = np.concatenate([text.lengths for _, text, _, _ in parts])
    taken = ranges(starts_of(lengths)[order], lengths[order])
    lengths_B = lengths[order]
    targets = np.concatenate([told for _, _, _, told in parts], axis=1)[:, taken]
    places_M, relation_R = (np.flatnonzero(told != IGNORE) for told in targets)
    row_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
    return {
        "input": np.concatenate([shown for _, _, shown, _ in parts])[taken],
        "input_lengths": lengths_B,
        "segment": np.concatenate([text.segments for _, text, _, _ in parts])[taken],
        "task": task_B,
        "places": places_M,
        "places_lengths": np.bincount(row_N[places_M], minlength=len(lengths_B)),
        "target": targets[0, places_M],
        "relation_places": relation_R,
        "relation": targets[1, relation_R],
        "relation_lengths": np.bincount(row_N[relation_R], minlength=len(lengths_B)),
    }


_COMPOSERS: dict[str, Callable[[Composer, np.ndarray, np.ndarray, Draws], Arrays]] = {
    "masked": _masked,
    "causal": _causal,
    "permutation": _permutation,
    "corruption": _corruption,
    "prefix": _prefix,
    "continual": _continual,
}
OBJECTIVES = tuple(_COMPOSERS)
