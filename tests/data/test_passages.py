"""Passages: against taking sentences one by one, and counting; as batches of tokens; through a run's readers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canon.data.batching import passages as module
from canon.data.batching.epochs import steps_per_epoch
from canon.data.batching.loader import ByLength, Shuffled
from canon.data.batching.passages import SENTENCE, WORD, Passages, passage_bounds
from canon.data.encodings.passages import PassageSchema
from canon.data.text.framing import Specials
from canon.errors import CanonError
from tests.objectives.makers import passages_of

SCHEMA = PassageSchema()
OWN = Specials(0, 1, 2, 3, 4, 2, 3)
# Lengths of the sentences of each document; a document may have none.
shapes = st.lists(st.lists(st.integers(1, 30), max_size=7), max_size=12)


def made(shape: list[list[int]], length: int = 10, vocab_size: int = 1000) -> Passages:
    rng = np.random.default_rng(1)
    return passages_of([[rng.integers(5, vocab_size, n) for n in sizes] for sizes in shape], length, OWN, vocab_size)


def by_one(shape: list[list[int]], length: int) -> list[tuple[int, int, int]]:
    """(document, start, stop) of each passage: sentences one after the other while they fit, long ones in pieces."""
    result, place = [], 0
    for document, sizes in enumerate(shape):
        start = place
        for size in sizes:
            count = -(-size // length)
            for piece in range(count):
                more = size * (piece + 1) // count - size * piece // count
                if place + more - start > length:
                    result.append((document, start, place))
                    start = place
                place += more
        if place > start:
            result.append((document, start, place))
    return result


@settings(max_examples=200)
@given(shapes, st.integers(1, 25), st.integers(1, 12))
def test_passages_by_one(shape: list[list[int]], length: int, chunk: int) -> None:
    sentences = np.concatenate([[0], np.cumsum([n for sizes in shape for n in sizes])]).astype(np.int64)
    documents = np.concatenate([[0], np.cumsum([len(sizes) for sizes in shape])]).astype(np.int64)
    expected = by_one(shape, length)
    before, module.CHUNK = module.CHUNK, chunk
    try:
        bounds = passage_bounds(sentences, documents, length)
    finally:
        module.CHUNK = before
    assert bounds.tolist() == [start for _, start, _ in expected] + [int(sentences[-1])]
    if not expected:
        return
    column = made(shape, length)
    assert (len(column), column.num_tokens) == (len(expected), int(sentences[-1]))
    assert column.lengths.tolist() == [stop - start for _, start, stop in expected]
    assert column.document_of(np.arange(len(column))).tolist() == [document for document, _, _ in expected]
    indices = np.arange(len(column))[::-1]
    drawn = column.sequence(indices)
    for row, index in enumerate(indices):
        _, start, stop = expected[index]
        assert drawn[row].tolist() == column.tokens[start:stop].tolist()
        own = (drawn.begins & SENTENCE > 0)[drawn.offsets[row] : drawn.offsets[row + 1]]
        assert own.tolist() == [place == start or place in sentences for place in range(start, stop)]
    assert (drawn.begins & WORD).all() and drawn.tokens.dtype == np.int64
    # A column of some, and the passages of some documents.
    some = indices[::2]
    taken = column.take(some)
    assert (taken.sequence(np.arange(len(some))).tokens == column.sequence(some).tokens).all()
    first = len(shape) // 2
    inner = column.between(first, len(shape))
    assert len(inner) == sum(document >= first for document, _, _ in expected)


def test_marks_of_a_cut_sentence() -> None:
    column = passages_of([[[7, 8, 9, 10, 11]]], 2, OWN, 20, begins=[1, 0, 0, 0, 1])
    drawn = column.sequence(np.arange(3))
    assert drawn.tokens.tolist() == [7, 8, 9, 10, 11] and drawn.lengths.tolist() == [1, 2, 2]
    assert drawn.begins.tolist() == [WORD | SENTENCE, WORD | SENTENCE, 0, WORD | SENTENCE, WORD]
    assert column.begins.tolist() == [WORD | SENTENCE, 0, 0, 0, WORD]  # of the store they are as they were


def test_others_are_each_as_likely() -> None:
    shape = [[5, 9], [20], [3], [4, 4, 4]]
    for column in (made(shape), made(shape).take(np.array([6, 0, 5, 2, 3]))):
        document = column.document_of(np.arange(len(column)))
        texts = [
            tuple(row) for row in np.split(column.sequence(np.arange(len(column))).tokens, column.lengths.cumsum())
        ]
        steps = 60 * len(column)
        for index in range(len(column)):
            others = [other for other in range(len(column)) if document[other] != document[index]]
            drawn = column.others(np.full(steps, index), (np.arange(steps) + 0.5) / steps)
            counts = Counter(texts.index(tuple(drawn[row])) for row in range(steps))
            assert set(counts) == set(others)
            assert max(counts.values()) - min(counts.values()) <= 1
    with pytest.raises(CanonError, match=r"another document, but the text has only one"):
        made([[5, 9]]).others(np.array([0]), np.array([0.5]))


def test_ids_take_two_bytes_where_they_can() -> None:
    assert made([[3]], vocab_size=1 << 16).dtype == np.uint16
    assert made([[3]], vocab_size=(1 << 16) + 1).dtype == np.int32


def test_batches_by_tokens() -> None:
    rng = np.random.default_rng(0)
    column = made([rng.integers(1, 12, 5).tolist() for _ in range(300)], 20)
    columns = {"input": column}
    order = SCHEMA.order(columns, 0, 200, seed=1)
    assert isinstance(order, ByLength) and steps_per_epoch(SCHEMA, columns, 0, 200) == order.batches == -(
        -column.num_tokens // 200
    )
    rows = [order.indices(position).numpy() for position in range(order.batches)]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(column)))  # every passage once
    sizes = np.array([column.lengths[row].sum() for row in rows])
    assert abs(sizes - column.num_tokens / order.batches).max() <= 2 * column.lengths.max()
    again = SCHEMA.order(columns, 0, 200, seed=1)
    assert all((again.indices(p) == order.indices(p)).all() for p in (3, order.batches + 5))
    assert isinstance(SCHEMA.order(columns, 16, 0, seed=1), Shuffled) and steps_per_epoch(SCHEMA, columns, 16, 0) == 0
