"""Draws against SplitMix64's published numbers, the uniform law, and themselves in other pieces."""

from __future__ import annotations

import numpy as np
import pytest

from canon.data.batching.draws import EVALUATION, Draws, _mix


def test_the_hash_is_splitmix64() -> None:
    # The first numbers of the reference implementation for the seed 1234567.
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    with np.errstate(over="ignore"):
        states = np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert _mix(states).tolist() == known


def test_numbers_are_uniform_and_unrelated_along_every_counter() -> None:
    size = 700
    draws = Draws(3, 5)
    values = [
        draws.uniform(0, np.arange(size)[:, None], np.arange(size)),
        np.stack([Draws(3, position).uniform(0, np.arange(size)) for position in range(size)]),
        np.stack([Draws(seed, 5).uniform(0, np.arange(size)) for seed in range(size)]),
        np.stack([draws.uniform(stream, np.arange(size)) for stream in range(size)]),
    ]
    for grid in values:
        n = grid.size
        assert len(np.unique(grid)) == n
        assert abs(grid.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)
        counts = np.histogram(grid, 100, (0, 1))[0]
        assert ((counts - n / 100) ** 2 / (n / 100)).sum() < 99 + 5 * np.sqrt(2 * 99)  # χ² with 99 degrees of freedom
        for one, other in ((grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1])):
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)


def test_a_number_depends_only_on_its_own_counters() -> None:
    draws = Draws(1, 9)
    rows, places = np.arange(40), np.arange(30)
    whole = draws.bits(2, rows[:, None], places)
    assert np.array_equal(whole[25:, 7:9], draws.bits(2, rows[25:, None], places[7:9]))
    assert draws.bits(2, 25, 7) == whole[25, 7]
    assert Draws(1, 9) == draws and Draws(0, 0) != EVALUATION


@pytest.mark.filterwarnings("error")
def test_integers_fill_their_range_evenly_and_never_reach_its_end() -> None:
    draws = Draws(0, 0)
    for high in (1, 3, 7):
        drawn = draws.integers(high, 0, np.arange(70_000))
        counts = np.bincount(drawn, minlength=high)
        assert len(counts) == high
        share = 1 / high
        assert (abs(counts - 70_000 * share) <= 5 * np.sqrt(70_000 * share * (1 - share))).all()
    highs = np.arange(1, 2000)
    assert (draws.integers(highs, 0, highs) < highs).all()
    assert draws.integers(5, 0, 3) in range(5)
