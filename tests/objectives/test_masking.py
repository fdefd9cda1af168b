"""Masks against the counts and shares of the papers, and whole words against BERT's loop, written out."""

from __future__ import annotations

import numpy as np
import pytest

from canon.data.batching.draws import Draws
from canon.data.batching.masking import NGRAMS, choose, greedy, mask, ordinary_ids
from canon.data.batching.passages import INSIDE, PHRASE, WORD, framed
from canon.data.text.framing import Specials
from canon.errors import CanonError
from tests.objectives.makers import DRAWS, FIRST, SPECIALS, VOCAB, text, within

VOCABULARY = ordinary_ids(VOCAB, SPECIALS)
KINDS = ("token", "word", "span")


def sequences(lengths, **more):
    return framed("bert", SPECIALS, text(lengths, **more))


@pytest.mark.parametrize("masking", KINDS)
def test_counts_and_shares_are_berts(masking) -> None:
    given = sequences([120] * 300, phrases=True)
    result = mask(given, np.arange(300), DRAWS, SPECIALS, VOCABULARY, masking)
    counts = np.bincount(given.rows[result.places], minlength=300)
    # 15 % of 120 are 18: exactly so many tokens, and of whole words and spans never more.
    assert (counts == 18).all() if masking == "token" else (counts <= 18).all() and counts.mean() > 17.8
    assert (np.diff(result.places) > 0).all()
    assert np.array_equal(result.target, given.tokens[result.places])
    assert given.ordinary[result.places].all()
    untouched = np.ones(len(given.tokens), dtype=bool)
    untouched[result.places] = False
    assert np.array_equal(result.input[untouched], given.tokens[untouched])
    shown, trials = result.input[result.places], len(result.places) if masking != "span" else len(result.places) // 3
    assert within((shown == SPECIALS.mask).mean(), 0.8, trials)
    # A random token is the right one by chance, one time in the vocabulary.
    assert within((shown == result.target).mean(), 0.1 + 0.1 / len(VOCABULARY), trials)
    random = shown[(shown != SPECIALS.mask) & (shown != result.target)]
    assert random.min() >= FIRST and len(np.unique(random)) > 0.3 * min(len(random), len(VOCABULARY))


def test_every_hidden_token_may_be_shown_as_the_mask() -> None:
    given = sequences([120] * 30)
    result, mixed = (mask(given, np.arange(30), DRAWS, SPECIALS, VOCABULARY, always=always) for always in (True, False))
    assert (result.input[result.places] == SPECIALS.mask).all()
    assert np.array_equal(result.places, mixed.places) and np.array_equal(result.target, mixed.target)


def test_every_token_is_as_likely_to_be_hidden() -> None:
    given = sequences([20] * 4000)
    chosen, _ = choose(given, np.arange(4000), DRAWS, "token", 0.15)
    shares = given.grid(chosen).mean(axis=0)
    assert shares[0] == shares[-1] == 0  # [CLS] and [SEP]
    assert all(within(share, 3 / 20, 4000) for share in shares[1:-1])


@pytest.mark.parametrize("masking", ("word", "span"))
def test_words_are_never_split(masking) -> None:
    given = sequences([90, 17, 33, 128] * 20, phrases=masking == "span")
    chosen, unit = choose(given, np.arange(80), DRAWS, masking, 0.15)
    inner = (given.begins[1:] & WORD == 0) & given.ordinary[1:] & given.ordinary[:-1]
    if masking == "span":
        inner |= (given.begins[1:] & INSIDE > 0) & given.ordinary[:-1]
        before_phrase = given.begins[1:] & PHRASE > 0
        assert (unit[1:][before_phrase] == given.places[1:][before_phrase]).all()  # phrases are spans of their own
    assert inner.any()
    assert np.array_equal(chosen[1:][inner], chosen[:-1][inner])


def test_the_words_are_those_of_berts_loop() -> None:
    """The order of words is the draws'; from there a plain loop: take a word that fits, else skip it."""
    chance = np.random.default_rng(5)
    sizes = chance.integers(0, 7, (400, 60))
    sizes = np.where(np.arange(60) < chance.integers(1, 61, 400)[:, None], np.maximum(sizes, 1), 0)
    budgets = chance.integers(1, 30, 400)
    expected = np.zeros(sizes.shape, dtype=bool)
    for row in range(400):
        taken = 0
        for column, size in enumerate(sizes[row]):
            if taken >= budgets[row]:
                break
            if size and taken + size <= budgets[row]:
                expected[row, column] = True
                taken += size
    assert np.array_equal(greedy(sizes, budgets), expected)


def test_spans_have_the_lengths_that_were_asked_for() -> None:
    given = sequences([400] * 200, words=1.0)
    given.begins[:] &= np.uint8(~8 & 0xFF)  # one sentence
    chosen, unit = choose(given, np.arange(200), DRAWS, "span", 0.15)
    lengths = np.unique(given.rows[chosen] * 1000 + unit[chosen], return_counts=True)[1]
    for n, share in enumerate(NGRAMS, 1):
        # The last of a budget may be too long and is skipped: a little fewer long ones.
        assert abs((lengths == n).mean() - share) < 0.02
    fate = mask(given, np.arange(200), DRAWS, SPECIALS, VOCABULARY, "span")
    hidden = fate.input[fate.places] == SPECIALS.mask
    key = given.rows[fate.places] * 1000 + unit[fate.places]
    assert all(len(np.unique(hidden[key == one])) == 1 for one in np.unique(key)[:300])  # as one


@pytest.mark.parametrize(
    ("masking", "together", "as_one"),
    [("word", True, False), ("word", False, False), ("span", True, True), ("span", False, False)],
)
def test_the_fate_is_of_a_token_or_of_a_span(masking, together, as_one) -> None:
    """BERT's code draws for each token of a word on its own; ERNIE hides, replaces or keeps a span as one; UniLM, which
    asks for spans together=False, again draws for each token."""
    given, rows = sequences([120] * 300, words=0.4), np.arange(300)
    result = mask(given, rows, DRAWS, SPECIALS, VOCABULARY, masking, together=together)
    _, unit = choose(given, rows, DRAWS, masking, 0.15)
    hidden = result.input[result.places] == SPECIALS.mask
    key = given.rows[result.places] * 1000 + unit[result.places]
    inside = key[1:] == key[:-1]  # neighbours in one word or span
    assert inside.sum() > 1000
    unlike = (hidden[1:] != hidden[:-1])[inside].mean()
    assert unlike == 0 if as_one else within(unlike, 2 * 0.8 * 0.2, int(inside.sum()) // 2)


@pytest.mark.parametrize("masking", KINDS)
def test_a_batch_composed_in_pieces_is_the_same(masking) -> None:
    lengths = [50, 7, 120, 33, 64, 5, 90, 41]
    whole = text(lengths, phrases=True)
    rows = np.arange(8) + 100
    together = mask(framed("bert", SPECIALS, whole), rows, DRAWS, SPECIALS, VOCABULARY, masking)
    parts = [
        mask(framed("bert", SPECIALS, whole.take(some)), rows[some], DRAWS, SPECIALS, VOCABULARY, masking)
        for some in (np.arange(3), np.arange(3, 8))
    ]
    assert np.array_equal(together.input, np.concatenate([part.input for part in parts]))
    assert np.array_equal(together.target, np.concatenate([part.target for part in parts]))
    again = mask(framed("bert", SPECIALS, whole), rows, Draws(11, 5), SPECIALS, VOCABULARY, masking)
    assert not np.array_equal(again.input, together.input)  # another visit, other masks


def test_one_token_at_least_and_one_word_where_all_are_too_long() -> None:
    given = sequences([1, 2, 3])
    chosen, _ = choose(given, np.arange(3), DRAWS, "token", 0.15)
    assert np.bincount(given.rows[chosen]).tolist() == [1, 1, 1]
    one_word = sequences([10, 10], words=0.0)
    chosen, _ = choose(one_word, np.arange(2), DRAWS, "word", 0.15)
    assert np.array_equal(chosen, one_word.ordinary)  # the only word there is


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(CanonError, match=r'No masking "words"; did you mean word\?'):
        choose(sequences([5]), np.arange(1), DRAWS, "words", 0.15)
    with pytest.raises(CanonError, match=r"The tokenizer has no \[MASK\] or <mask>"):
        mask(sequences([5]), np.arange(1), DRAWS, Specials(cls=2, sep=3), VOCABULARY)
