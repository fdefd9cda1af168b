"""Orders of prediction: uniform, the last sixth predicted, the rest seen by all."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from canon.data.batching.masking import permute
from canon.data.batching.passages import framed
from tests.objectives.makers import DRAWS, SPECIALS, text, within


def sequences(lengths, **more):
    return framed("xlnet", SPECIALS, text(lengths, **more))


def test_the_predicted_are_the_last_of_the_order() -> None:
    lengths = [60, 120, 33, 7]
    given = sequences(lengths)
    result = permute(given, np.arange(4), DRAWS, spans=False)
    assert np.array_equal(result.target, given.tokens[result.places])
    for row, length in enumerate(lengths):
        own = given.rows == row
        rank, asked = result.rank[own], np.isin(np.flatnonzero(own), result.places)
        count = max(round(length / 6), 1)
        assert asked.sum() == count
        assert rank[-2:].tolist() == [0, 0]  # <sep> and <cls> are seen by all
        rest = rank[:-2][~asked[:-2]]
        assert (rest == 0).all()
        assert sorted(rank[asked].tolist()) == list(range(1, count + 1))


def test_every_order_is_as_likely() -> None:
    size = 6000
    given = sequences([4] * size)
    result = permute(given, np.arange(size), DRAWS, share=1.0, spans=False)
    orders = result.rank.reshape(size, 6)[:, :4]
    for order in permutations(range(1, 5)):
        assert within((orders == order).all(axis=1).mean(), 1 / 24, size)


def test_spans_are_whole_words_of_one_to_five() -> None:
    given = sequences([200] * 50)
    result = permute(given, np.arange(50), DRAWS)
    chosen = np.zeros(len(given.tokens), dtype=bool)
    chosen[result.places] = True
    inner = (given.begins[1:] & 1 == 0) & given.ordinary[1:] & given.ordinary[:-1]
    assert np.array_equal(chosen[1:][inner], chosen[:-1][inner])
    counts = np.bincount(given.rows[result.places])
    assert (counts <= 33).all() and counts.mean() > 32
    runs = np.flatnonzero(np.diff(np.r_[0, chosen.astype(int), 0]))
    assert (runs[1::2] - runs[::2]).mean() > 3  # tokens; singly drawn ones would make runs of 1.2


def test_a_batch_composed_in_pieces_is_the_same() -> None:
    whole, rows = text([50, 7, 120, 33]), np.arange(4) + 3
    together = permute(framed("xlnet", SPECIALS, whole), rows, DRAWS)
    parts = [permute(framed("xlnet", SPECIALS, whole.take(p)), rows[p], DRAWS) for p in (np.arange(1), np.arange(1, 4))]
    assert np.array_equal(together.rank, np.concatenate([part.rank for part in parts]))
    assert np.array_equal(together.target, np.concatenate([part.target for part in parts]))
