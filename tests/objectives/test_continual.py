"""ERNIE 2.0's tasks against the documents they ask about."""

from __future__ import annotations

import numpy as np

from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.passages import SENTENCE
from canon.data.batching.sentence_pairs import Sentences
from canon.data.batching.several_tasks import ORDERS, TASKS, distance, relation, reorder, task_of
from tests.objectives.makers import DRAWS, passages, within

COLUMN = passages([20], 150, length=48)
INDICES = np.arange(len(COLUMN))


def test_a_step_is_of_one_task_and_tasks_join_stage_by_stage() -> None:
    rows = np.arange(10)
    drawn = np.array([task_of(rows, Draws(2, position), TASKS, 0) for position in range(4000)])
    assert (drawn == drawn[:, :1]).all()
    assert all(within((drawn[:, 0] == task).mean(), 1 / 4, 4000) for task in range(4))
    staged = np.array([task_of(rows, Draws(2, position), TASKS, 100)[0] for position in range(1000)])
    assert [staged[start : start + 100].max() for start in (0, 100, 200, 300, 900)] == [0, 1, 2, 3, 3]
    assert task_of(rows, EVALUATION, TASKS, 100).tolist() == [0, 1, 2, 3] * 2 + [0, 1]


def test_orders_can_be_undone() -> None:
    assert len(ORDERS) == 1 + 2 + 6 and len({tuple(order) for order in ORDERS[3:]}) == 6
    text = COLUMN.sequence(INDICES)
    result, labels = reorder(text, INDICES, DRAWS)
    several = Sentences.of(text).counts >= 3
    counts = np.bincount(labels[several], minlength=9)
    for label, share in enumerate([1 / 3, 1 / 6, 1 / 6, *[1 / 18] * 6]):
        assert within(counts[label] / several.sum(), share, int(several.sum()))
    for row in INDICES:
        right, reported = text[row].tolist(), result[row].tolist()
        assert sorted(right) == sorted(reported)
        # Some cut of the passage into segments, in the order that the label says, gives what was put out.
        breaks = np.flatnonzero(text.begins[text.offsets[row] : text.offsets[row + 1]] & SENTENCE).tolist()
        parts = 1 if labels[row] == 0 else 2 if labels[row] < 3 else 3
        bounds = [(0, *cut, len(right)) for cut in _cuts(breaks[1:], parts - 1)]
        order = ORDERS[labels[row]][:parts]
        ways = [[token for i in order for token in right[bound[i] : bound[i + 1]]] for bound in bounds]
        assert reported in ways


def _cuts(places, count):
    if count == 0:
        return [()]
    if count == 1:
        return [(a,) for a in places]
    return [(a, b) for i, a in enumerate(places) for b in places[i + 1 :]]


def test_distances_are_true() -> None:
    first, second, labels = distance(COLUMN, INDICES, INDICES, DRAWS, 48)
    assert all(within((labels == label).mean(), 1 / 3, len(labels)) for label in range(3))
    assert (first.lengths + second.lengths <= 48).all() and (second.lengths > 0).all()
    flat = COLUMN.tokens.astype(np.int64)
    bounds = COLUMN.sentences[COLUMN.documents]
    document = COLUMN.document_of(INDICES)

    def find(tokens, low, high):
        return [p for p in range(low, high - len(tokens) + 1) if np.array_equal(flat[p : p + len(tokens)], tokens)]

    for row in range(0, len(INDICES), 3):
        low, high = bounds[document[row]], bounds[document[row] + 1]
        own = find(first[row], COLUMN.starts[row], COLUMN.starts[row] + COLUMN.lengths[row])
        assert own
        near = find(second[row], low, high) if len(second[row]) > 2 else None
        if near is None:
            continue
        end = own[0] + len(first[row])
        if labels[row] == 0:
            assert end in near
        elif labels[row] == 1:
            assert near and end not in near and near[0] + len(second[row]) != own[0]
            assert near[0] + len(second[row]) <= COLUMN.starts[row] or near[0] >= COLUMN.starts[row] + 1
        else:
            assert not near


def test_a_document_with_nothing_else_has_no_far_text() -> None:
    short = passages([2], 80, length=48)
    rows = np.arange(len(short))
    labels = distance(short, rows, rows, DRAWS, 48)[2]
    assert set(labels.tolist()) == {0, 2}


def test_relation_is_membership_in_the_rest_of_the_document() -> None:
    small = passages([6, 30], 40, length=16)
    indices = np.arange(len(small))
    text = small.sequence(indices)
    reported = np.split(relation(small, indices, text), text.offsets[1:-1])
    bounds, document = small.sentences[small.documents], small.document_of(indices)
    for row in indices:
        start, stop = small.starts[row], small.starts[row] + small.lengths[row]
        low, high = max(bounds[document[row]], start - 64), min(bounds[document[row] + 1], stop + 64)
        rest = set(small.tokens[low:start].tolist()) | set(small.tokens[stop:high].tolist())
        assert reported[row].tolist() == [int(token in rest) for token in text[row].tolist()]
