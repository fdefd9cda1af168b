"""UniLM's mixture of masks against the passages it is made of."""

from __future__ import annotations

import numpy as np

from canon.contracts import IGNORE
from canon.data.batching.composer import Composer, PrefixPretext
from canon.data.batching.prefix import MODES, prefix
from canon.pretexts import PrefixSettings
from tests.objectives.makers import DRAWS, SPECIALS, passages, within

COLUMN = passages([8], 400)


def composed(indices, rows, modes=MODES, next_sentence=True):
    settings = PrefixSettings(next_sentence=next_sentence)
    return prefix(Composer(PrefixPretext(settings), COLUMN), indices, rows, DRAWS, settings, modes)


def test_modes_come_in_their_shares_and_read_as_they_should() -> None:
    indices = np.arange(len(COLUMN))
    result = composed(indices, indices)
    starts = np.cumsum(result.lengths) - result.lengths
    mode = np.array([0, 0, 2, 3, 1, 1])[result.segments[starts]]
    for number, share in enumerate((1 / 3, 1 / 3, 1 / 6, 1 / 6)):
        assert within((mode == number).mean(), share, len(indices))
    assert np.array_equal(result.next == IGNORE, mode != 0)
    assert within((result.next[mode == 0] == 1).mean(), 0.5, int((mode == 0).sum()))
    original = result.input.copy()
    original[result.places] = result.target
    asked = np.bincount(np.repeat(indices, result.lengths)[result.places], minlength=len(indices))
    for row in indices:
        own = original[starts[row] : starts[row] + result.lengths[row]]
        segments = result.segments[starts[row] : starts[row] + result.lengths[row]]
        passage = COLUMN.tokens[COLUMN.starts[row] : COLUMN.starts[row] + COLUMN.lengths[row]].astype(np.int64)
        assert own[0] == SPECIALS.cls and own[-1] == SPECIALS.sep
        ordinary = int((own >= 37).sum())
        assert 1 <= asked[row] <= max(round(0.15 * ordinary), 3)
        if mode[row] == 0:
            assert result.prefix[row] == len(own)
        elif mode[row] == 1:
            source = int((segments == 4).sum())
            assert result.prefix[row] == source and own[source - 1] == SPECIALS.sep and (segments[source:] == 5).all()
            text = np.concatenate([own[1 : source - 1], own[source:-1]])
            assert np.array_equal(text, passage[: len(text)])
        else:
            assert result.prefix[row] == 0 and (segments == mode[row]).all()
            text = own[1:-1] if mode[row] == 2 else own[1:-1][::-1]
            assert np.array_equal(text, passage[: len(text)])


def test_one_mode_alone_and_no_next_sentences() -> None:
    indices = np.arange(60)
    both = composed(indices, indices, modes=(1.0, 0.0, 0.0, 0.0), next_sentence=False)
    assert np.array_equal(both.prefix, both.lengths) and (both.segments == 0).all() and (both.next == IGNORE).all()
    left = composed(indices, indices, modes=(0.0, 0.0, 1.0, 0.0))
    assert (left.prefix == 0).all() and (left.segments == 2).all()


def test_a_batch_composed_in_pieces_is_the_same() -> None:
    indices, rows = np.arange(90)[::-1], np.arange(90)
    whole = composed(indices, rows)
    parts = [composed(indices[p], rows[p]) for p in (slice(0, 31), slice(31, 90))]
    for name in ("input", "lengths", "segments", "target", "prefix", "next"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts])), name


def test_each_token_of_a_span_has_a_fate_of_its_own() -> None:
    indices = np.arange(len(COLUMN))
    result = composed(indices, indices, modes=(0.0, 0.0, 1.0, 0.0))
    hidden = result.input[result.places] == SPECIALS.mask
    neighbours = np.diff(result.places) == 1  # mostly of one span
    unlike = (hidden[1:] != hidden[:-1])[neighbours].mean()
    assert within(unlike, 2 * 0.8 * 0.2, int(neighbours.sum()) // 2)
