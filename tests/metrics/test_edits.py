"""Edit distance against the recursion written out, and the error rates against counts by hand."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canon import metrics
from canon.errors import CanonError


def recursive(first: str, second: str) -> int:
    """Levenshtein's definition from the back, each pair of endings once."""

    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        change = distance(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, change)

    return distance(len(first), len(second))


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_the_distance_equals_the_recursion(first: str, second: str) -> None:
    assert metrics.edit_distance(first, second) == recursive(first, second)
    assert metrics.edit_distance(list(first), list(second)) == metrics.edit_distance(second, first)


def test_known_distances() -> None:
    assert metrics.edit_distance("kitten", "sitting") == 3
    assert metrics.edit_distance("", "abc") == 3 and metrics.edit_distance("abc", "abc") == 0


GIVEN = [["K", "AE", "T"], ["D", "AO"], ["B"]]
RIGHT = [[["K", "AE", "T"]], [["D", "AO", "G"], ["D", "AA", "G", "Z"]], [["P", "IY"], ["B"]]]


def test_any_right_form_counts_as_right() -> None:
    assert metrics.sequence_error_rate(GIVEN, RIGHT) == pytest.approx(1 / 3)


def test_the_nearest_right_form_counts() -> None:
    """0 of 3, 1 of 3 (not 2 of 4), 0 of 1: one edit in seven symbols."""
    assert metrics.token_error_rate(GIVEN, RIGHT) == pytest.approx(1 / 7)


def test_unequal_numbers_of_sequences_are_reported() -> None:
    with pytest.raises(CanonError, match="hypotheses"):
        metrics.token_error_rate(GIVEN[:2], RIGHT)
