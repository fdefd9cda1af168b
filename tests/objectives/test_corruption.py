"""Span corruption against T5's arithmetic, and source and target put back together."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from canon.data.batching.sequences import Ragged
from canon.data.batching.span_corruption import corrupt, counts, noise
from canon.data.text.framing import Specials
from canon.errors import CanonError
from tests.objectives.makers import DRAWS, SPECIALS, text, within


def test_counts_are_t5s() -> None:
    """The authors' random_spans_noise_mask in plain numbers."""
    lengths = np.arange(2, 700)
    for share, span in ((0.15, 3.0), (0.5, 3.0), (0.1, 10.0), (0.8, 1.0)):  # of the last, the rest parts the noise
        noise_tokens, spans = counts(lengths, share, span, 1000)
        for length, tokens, number in zip(lengths.tolist(), noise_tokens.tolist(), spans.tolist(), strict=True):
            expected = min(max(int(np.round(length * share)), 1), length - 1)
            assert tokens == expected
            assert number == min(max(int(np.round(expected / span)), 1), length - expected)
        assert np.array_equal(counts(lengths, share, span, 3)[1], np.minimum(spans, 3))  # as many sentinels there are


def test_noise_has_so_many_tokens_and_spans_and_begins_with_text() -> None:
    lengths = np.array([2, 3, 10, 64, 128, 500] * 40)
    mask, number = noise(lengths, np.arange(240), DRAWS, 0.15, 3.0, 100)
    expected_tokens, expected_spans = counts(lengths, 0.15, 3.0, 100)
    for row, own in enumerate(np.split(mask, np.cumsum(lengths)[:-1])):
        assert not own[0] and own[-1]
        assert own.sum() == expected_tokens[row]
        assert (np.diff(own.astype(int)) == 1).sum() == expected_spans[row]
    spans = np.bincount((np.repeat(np.arange(240), lengths) * 1000 + number)[mask])
    assert 2.8 < spans[spans > 0].mean() < 3.2


def test_every_way_of_parting_is_as_likely() -> None:
    # 12 tokens, 4 of them noise in 2 spans: 3 ways to part the noise, 7 to part the rest.
    size = 8000
    mask, _ = noise(np.full(size, 12), np.arange(size), DRAWS, 1 / 3, 2.0, 100)
    result = Counter(map(tuple, mask.reshape(size, 12).tolist()))
    ways = set()
    for (n,), (r,) in ((a, b) for a in combinations(range(1, 4), 1) for b in combinations(range(1, 8), 1)):
        ways.add((False,) * r + (True,) * n + (False,) * (8 - r) + (True,) * (4 - n))
    assert set(result) == ways
    assert all(within(count / size, 1 / 21, size) for count in result.values())


def test_source_and_target_make_the_text_again() -> None:
    given = text([2, 5, 40, 128, 1, 90])
    result = corrupt(given, np.arange(6), DRAWS, SPECIALS)
    spans = counts(given.lengths, 0.15, 3.0, 32)[1]
    for row in range(6):
        source, target = result.source[row].tolist(), result.target[row].tolist()
        assert source.pop() == SPECIALS.eos and target.pop() == SPECIALS.eos
        sentinels = [token for token in source if token in SPECIALS.sentinels]
        assert sentinels == [token for token in target if token in SPECIALS.sentinels]
        assert sentinels == list(SPECIALS.sentinels[: spans[row]])
        filled: list[int] = []
        for token in source:
            if token not in SPECIALS.sentinels:
                filled.append(token)
                continue
            place = target.index(token) + 1
            while place < len(target) and target[place] not in SPECIALS.sentinels:
                filled.append(target[place])
                place += 1
        assert filled == given[row].tolist()


def test_the_papers_example() -> None:
    """Figure 2: two spans, each left out after its sentinel."""
    given = Ragged(np.arange(100, 110), np.array([10]))
    result = corrupt(given, np.arange(1), DRAWS, SPECIALS, share=0.4, span=2.0)
    assert len(result.source[0]) == 10 - 4 + 2 + 1 and len(result.target[0]) == 4 + 2 + 1


def test_a_batch_composed_in_pieces_is_the_same() -> None:
    whole, rows = text([50, 7, 120, 33, 1]), np.arange(5) + 3
    together = corrupt(whole, rows, DRAWS, SPECIALS)
    parts = [corrupt(whole.take(p), rows[p], DRAWS, SPECIALS) for p in (np.arange(2), np.arange(2, 5))]
    for name in ("source", "target"):
        values = [getattr(part, name).tokens for part in parts]
        assert np.array_equal(getattr(together, name).tokens, np.concatenate(values))


def test_texts_too_short_and_missing_sentinels() -> None:
    one = corrupt(text([1, 1]), np.arange(2), DRAWS, SPECIALS)
    assert one.source.lengths.tolist() == [2, 2] and one.target.tokens.tolist() == [SPECIALS.eos] * 2
    few = Specials(pad=0, eos=3, sentinels=(5, 6))
    result = corrupt(text([300]), np.arange(1), DRAWS, few)
    assert result.target[0].tolist().count(5) == 1 and len(result.target[0]) == 45 + 2 + 1
    with pytest.raises(CanonError, match="The tokenizer has no <extra_id_0>, which span corruption needs"):
        corrupt(text([5]), np.arange(1), DRAWS, Specials(eos=3))
