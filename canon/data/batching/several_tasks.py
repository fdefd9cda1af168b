"""Several objectives in one run: of words, of the order of sentences, of how far texts are apart.

Sun et al. 2020, ERNIE 2.0 (arXiv:1907.12412), section 4.2; of its tasks those that need no labels. Of words: masking of
spans (masking.py), and token–document relation, whether a token comes elsewhere in its document too → `relation`. Of
structure: sentence reordering, a passage in up to three segments, shuffled, and which of Σ n! = 9 orders it is →
`reorder`; sentence distance, whether two texts are neighbours (0), of one document (1) or of two (2) → `distance`.
A step is of one task, drawn among those that have joined: task k joins at step k · stage, and what was learned first is
trained on beside what is new (section 3.2); stage 0: all from the beginning. An evaluation gives the passages to the
tasks in turn → `task_of`.
Deviations: tasks have equal chances, not numbers of steps for each stage; capitals are left out, since tokens show
them; elsewhere in a document is at most four passages to either side.
Shapes: B passages, N tokens, S sentences of the store.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from canon.data.batching.draws import Draws
from canon.data.batching.passages import Drawn, Passages, joined, stretches
from canon.data.batching.sentence_pairs import Sentences, fit
from canon.data.batching.sequences import ranges

TASKS = ("masked", "relation", "order", "distance")
MOST_SEGMENTS = 3
# Each label's order of three segments; those that are not there are empty and come last.
ORDERS = np.array(
    [(*order, *range(n, MOST_SEGMENTS)) for n in range(1, MOST_SEGMENTS + 1) for order in permutations(range(n))]
)
NEIGHBOURS, SAME, OTHER = range(3)  # distances
_BESIDE = 4  # passages to either side that are looked through for a token

_TASK, _COUNT, _BOUND, _SECOND_BOUND, _ORDER, _LABEL, _OTHER, _SPLIT, _FAR = range(50, 59)  # streams of random numbers


def task_of(rows_B: np.ndarray, draws: Draws, tasks: tuple[str, ...], stage: int) -> np.ndarray:
    """[B] the number of each row's task."""
    if draws.evaluating:
        return rows_B % len(tasks)
    joined = len(tasks) if not stage else min(1 + draws.position // stage, len(tasks))
    return np.full(len(rows_B), int(draws.integers(joined, _TASK, 0)))


def reorder(text: Drawn, rows_B: np.ndarray, draws: Draws) -> tuple[Drawn, np.ndarray]:
    """Each passage's segments (whole sentences) in a random order, and the order's number."""
    sentences = Sentences.of(text)
    gaps_B = sentences.counts - 1  # where a passage may be cut
    count_B = 1 + draws.integers(np.minimum(sentences.counts, MOST_SEGMENTS), _COUNT, rows_B)
    bound_B = 1 + draws.integers(np.maximum(gaps_B, 1), _BOUND, rows_B)
    other_B = 1 + draws.integers(np.maximum(gaps_B - 1, 1), _SECOND_BOUND, rows_B)
    other_B += other_B >= bound_B  # two that differ
    low_B, high_B = np.minimum(bound_B, other_B), np.maximum(bound_B, other_B)
    beyond_B = sentences.counts
    first_B = np.where(count_B == 1, beyond_B, np.where(count_B == 2, bound_B, low_B))
    second_B = np.where(count_B == 3, high_B, beyond_B)
    places = [sentences.start(number_B, text.lengths) for number_B in (first_B, second_B)]
    bounds_B4 = np.stack([0 * text.lengths, *places, text.lengths], axis=1)
    number_B = draws.integers(np.array([1, 1, 2, 6])[count_B], _ORDER, rows_B)
    label_B = np.array([0, 0, 1, 3])[count_B] + number_B
    order_B3 = ORDERS[label_B]
    starts_B3 = np.take_along_axis(bounds_B4, order_B3, axis=1)
    lengths_B3 = np.take_along_axis(bounds_B4, order_B3 + 1, axis=1) - starts_B3
    taken = ranges((text.offsets[:-1, None] + starts_B3).reshape(-1), lengths_B3.reshape(-1))
    return Drawn(text.tokens[taken], text.lengths, text.begins[taken]), label_B


def distance(
    passages: Passages, indices: np.ndarray, rows_B: np.ndarray, draws: Draws, room: int
) -> tuple[Drawn, Drawn, np.ndarray]:
    """A text, one near it or far, and how far; where a document has nothing so near, one of another is taken."""
    text = passages.sequence(indices)
    sentences = Sentences.of(text)
    start_B, stop_B = passages.starts[indices], passages.starts[indices] + text.lengths
    from_B, to_B = _document(passages, indices)  # in the store's sentences
    end_B = passages.sentences[to_B]  # and in its tokens
    number_B = 1 + draws.integers(np.maximum(sentences.counts - 1, 1), _SPLIT, rows_B)
    first_B = sentences.start(number_B, text.lengths)
    wanted_B = np.maximum(room - first_B, room // 2)
    # Far: from a sentence that neither is in the passage nor touches it.
    before_B = np.maximum(np.searchsorted(passages.sentences, start_B, side="right") - 2 - from_B, 0)
    after_B = np.searchsorted(passages.sentences, stop_B) + 1
    choices_B = before_B + np.maximum(to_B - after_B, 0)
    drawn_B = draws.integers(np.maximum(choices_B, 1), _FAR, rows_B)
    is_before_B = drawn_B < before_B
    chosen_B = np.where(is_before_B, from_B + drawn_B, np.minimum(after_B + drawn_B - before_B, to_B))
    last_B = np.where(is_before_B, passages.sentences[from_B + before_B], end_B)
    label_B = draws.integers(3, _LABEL, rows_B)
    label_B = np.where((label_B == SAME) & (choices_B == 0), OTHER, label_B)
    label_B = np.where((label_B == NEIGHBOURS) & (start_B + first_B >= end_B), OTHER, label_B)
    others = passages.others(indices, draws.uniform(_OTHER, rows_B)) if (label_B == OTHER).any() else text
    begin_B = np.where(label_B == SAME, passages.sentences[chosen_B], start_B + first_B)
    reach_B = np.where(label_B == SAME, last_B, end_B) - begin_B
    second_B = np.minimum(np.where(label_B == OTHER, others.lengths, reach_B), wanted_B)
    kept_B, kept_second_B = fit(first_B, second_B, room)
    # The first text loses its beginning and the second its end: neighbours still touch.
    first = stretches(passages, start_B + first_B - kept_B, kept_B)
    near = stretches(passages, begin_B, np.where(label_B == OTHER, 0, kept_second_B))
    foreign = stretches(others, others.offsets[:-1], np.where(label_B == OTHER, kept_second_B, 0))
    in_turn = np.arange(2 * len(indices)).reshape(2, -1).T.reshape(-1)  # one of the two is empty in each row
    both = joined(near, foreign).take(in_turn)
    return first, Drawn(both.tokens, kept_second_B, both.begins), label_B


def relation(passages: Passages, indices: np.ndarray, text: Drawn) -> np.ndarray:
    """[N] 1 where a token of the passages comes elsewhere in its document too, else 0."""
    start_B, stop_B = passages.starts[indices], passages.starts[indices] + passages.lengths[indices]
    from_B, to_B = (passages.sentences[bound_B] for bound_B in _document(passages, indices))
    far = _BESIDE * passages.length
    low_B, high_B = np.maximum(start_B - far, from_B), np.minimum(stop_B + far, to_B)
    seen_BV = np.zeros((len(indices), passages.vocab_size), dtype=bool)
    for begin_B, lengths_B in ((low_B, start_B - low_B), (stop_B, high_B - stop_B)):
        rows = np.repeat(np.arange(len(indices)), lengths_B)
        seen_BV[rows, passages.tokens[ranges(begin_B, lengths_B)]] = True
    return seen_BV[np.repeat(np.arange(len(indices)), text.lengths), text.tokens].astype(np.int64)


def _document(passages: Passages, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[from, to) of the sentences of each passage's document."""
    number_B = passages.document_of(indices)
    return passages.documents[number_B], passages.documents[number_B + 1]
