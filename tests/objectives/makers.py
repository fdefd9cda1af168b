"""Passages of made-up documents, to compose batches of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canon.data.batching.draws import Draws
from canon.data.batching.passages import PHRASE, SENTENCE, WORD, Drawn, Passages, token_dtype
from canon.data.batching.sequences import offsets_of
from canon.data.text.framing import Specials

SPECIALS = Specials(pad=0, unk=1, cls=2, sep=3, mask=4, bos=2, eos=3, sentinels=tuple(range(5, 37)))
VOCAB = 1000
FIRST = 37  # the first ordinary token


def text(lengths: list[int], seed: int = 0, words: float = 0.6, phrases: bool = False) -> Drawn:
    """Texts of random tokens, of which a share begins words; with phrases of two or three words now and then."""
    chance = np.random.default_rng(seed)
    total = sum(lengths)
    begins = np.where(chance.random(total) < words, WORD, 0).astype(np.uint8)
    if phrases:
        for place in range(5, total - 5, 17):
            begins[place : place + 3] = (WORD | PHRASE, WORD | 4, 4)
            begins[place + 3] |= WORD
    starts = np.cumsum(lengths) - lengths
    begins[starts] |= WORD | 8
    return Drawn(chance.integers(FIRST, VOCAB, total), np.array(lengths), begins)


def passages_of(
    documents: Sequence[Sequence[Sequence[int]]],
    length: int,
    specials: Specials,
    vocab_size: int,
    begins: Sequence[int] | np.ndarray | None = None,
) -> Passages:
    """Of documents in memory: sentences of ids. begins: bits of all tokens; without them each begins a word."""
    rows = [np.asarray(sentence, dtype=np.int64) for document in documents for sentence in document]
    sentences = offsets_of(np.array([len(row) for row in rows]))
    counts = offsets_of(np.array([len(document) for document in documents]))
    tokens = np.concatenate(rows).astype(token_dtype(vocab_size))
    bits = np.full(len(tokens), WORD, np.uint8) if begins is None else np.asarray(begins, dtype=np.uint8).copy()
    bits[sentences[:-1]] |= WORD | SENTENCE
    return Passages(tokens, bits, sentences, counts, length, specials, vocab_size)


def passages(sentences: list[int], documents: int, length: int = 64, seed: int = 0) -> Passages:
    """Documents with so many sentences (in turn) of 3 to 12 tokens; a token's last digits tell nothing, but its store
    place is unique modulo the vocabulary."""
    chance = np.random.default_rng(seed)
    made = [
        [chance.integers(FIRST, VOCAB, chance.integers(3, 13)).tolist() for _ in range(sentences[d % len(sentences)])]
        for d in range(documents)
    ]
    total = sum(len(sentence) for document in made for sentence in document)
    return passages_of(made, length, SPECIALS, VOCAB, begins=np.where(chance.random(total) < 0.7, WORD, 0))


def within(share: float, expected: float, trials: int) -> bool:
    """Whether a share of `trials` is within 4.5 standard deviations of the binomial law's mean."""
    return abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / trials)


DRAWS = Draws(11, 4)
