"""Next sentences against the documents they come from, and the trimming against BERT's loop, written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from canon.data.batching.passages import SENTENCE, Passages
from canon.data.batching.sentence_pairs import FOLLOWS, FOREIGN, NextSentenceFacts, fit, next_sentences
from canon.errors import CanonError
from tests.objectives.makers import DRAWS, SPECIALS, passages, passages_of, within


def documents_of(column: Passages) -> dict[tuple[int, ...], int]:
    """Each run of three tokens and the document it is in."""
    values = {}
    bounds = column.sentences[column.documents]
    for document, (start, stop) in enumerate(pairwise(bounds)):
        for place in range(start, stop - 2):
            values[tuple(column.tokens[place : place + 3].tolist())] = document
    return values


def test_half_follow_and_half_are_of_another_document() -> None:
    column = passages([12], 400)
    indices = np.arange(len(column))
    result = next_sentences(column, indices, indices, DRAWS, 64, NextSentenceFacts.of(column))
    assert within(result.labels.mean(), 0.5, len(indices))
    own, where, checked = column.document_of(indices), documents_of(column), 0
    flat = column.tokens.astype(np.int64)
    for row in indices:
        first, second = result.first[row], result.second[row]
        assert len(first) and len(second) and len(first) + len(second) <= 64
        if len(first) >= 3:
            assert where[tuple(first[:3].tolist())] == own[row]
        if len(second) < 3:
            continue
        assert (where[tuple(second[:3].tolist())] == own[row]) == (result.labels[row] == FOLLOWS)
        start = column.starts[row]
        if result.labels[row] == FOLLOWS:
            # What follows the first text in the store is the second, and there a sentence begins.
            stop = start + len(first)
            assert np.array_equal(flat[start : stop + len(second)], np.concatenate([first, second]))
            assert stop in column.sentences
            checked += 1
    assert checked > 100


def test_a_tenth_is_shortened() -> None:
    column = passages([40], 300)
    whole = np.flatnonzero(column.lengths > 54)
    result = next_sentences(column, whole, whole, DRAWS, 64, NextSentenceFacts.of(column))
    totals = result.first.lengths + result.second.lengths
    follows = result.labels == FOLLOWS
    short = totals[follows] < column.lengths[whole][follows]
    # Targets are even between 2 and 64; those that whole sentences fill anyway (the last dozen) do not show.
    assert 0.06 < short.mean() < 0.1


def test_lone_sentences_get_a_foreign_text_and_the_labels_stay_even() -> None:
    column = passages([1, 1, 12, 12, 12], 1500, length=40)
    facts = NextSentenceFacts.of(column)
    assert 0.1 < facts.alone < 0.4
    indices = np.arange(len(column))
    result = next_sentences(column, indices, indices, DRAWS, 40, facts)
    assert within(result.labels.mean(), 0.5, len(indices))
    breaks = np.bincount(
        np.repeat(indices, column.lengths)[np.flatnonzero(column.sequence(indices).begins & SENTENCE)],
        minlength=len(indices),
    )
    assert (result.labels[breaks == 1] == FOREIGN).all()


def test_documents_of_one_sentence_are_refused_in_one_sentence() -> None:
    column = passages([1], 50)
    with pytest.raises(CanonError, match="Next-sentence prediction needs documents of several sentences, but 100% of"):
        NextSentenceFacts.of(column).require()
    NextSentenceFacts.of(passages([1, 5], 50)).require()


def test_one_document_has_nothing_foreign() -> None:
    column = passages([30], 1)
    indices = np.arange(len(column))
    result = next_sentences(column, indices, indices, DRAWS, 64, NextSentenceFacts.of(column))
    assert (result.labels == FOLLOWS).all() and (result.second.lengths > 0).all()


def test_trimming_is_berts_loop() -> None:
    first, second = np.meshgrid(np.arange(0, 30), np.arange(0, 30))
    first, second = first.ravel(), second.ravel()
    for room in (2, 7, 20, 100):
        expected = []
        for a, b in zip(first.tolist(), second.tolist(), strict=True):
            while a + b > room:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            expected.append((a, b))
        assert np.array_equal(np.stack(fit(first, second, room), axis=1), expected)


def test_tokens_are_trimmed_at_both_ends_alike() -> None:
    """What is too long loses as many tokens before as after, by the binomial law of a fair coin."""
    lone = passages_of([[list(range(40, 140))] for _ in range(600)], 100, SPECIALS, 1000)
    indices = np.arange(600)
    result = next_sentences(lone, indices, indices, DRAWS, 20, NextSentenceFacts(alone=0.5, documents=2))
    assert (result.first.lengths + result.second.lengths <= 20).all()
    gone = 100 - result.first.lengths
    front = result.first.tokens[result.first.offsets[:-1]] - 40
    assert (front >= 0).all() and (front <= gone).all()
    assert abs(front.sum() - gone.sum() / 2) < 4.5 * np.sqrt(gone.sum() / 4)
    # The variance too: n/4.
    assert abs(((front - gone / 2) ** 2 / (gone / 4)).mean() - 1) < 0.3


def test_a_batch_composed_in_pieces_is_the_same() -> None:
    column = passages([1, 6, 9], 60)
    indices, facts = np.random.default_rng(0).permutation(len(column))[:50], NextSentenceFacts.of(column)
    rows = np.arange(50)
    whole = next_sentences(column, indices, rows, DRAWS, 60, facts)
    parts = [next_sentences(column, indices[p], rows[p], DRAWS, 60, facts) for p in (slice(0, 17), slice(17, 50))]
    for name in ("first", "second"):
        values = [getattr(part, name) for part in parts]
        assert np.array_equal(getattr(whole, name).tokens, np.concatenate([one.tokens for one in values]))
        assert np.array_equal(getattr(whole, name).lengths, np.concatenate([one.lengths for one in values]))
    assert np.array_equal(whole.labels, np.concatenate([part.labels for part in parts]))
