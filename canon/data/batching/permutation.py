"""Permutation language modelling: tokens are predicted in a random order, each from those before it in that order.

Yang et al. 2019, XLNet (arXiv:1906.08237): section 2.2, equation 3 → `rank`; section 2.3, partial prediction of the
last 1/K of an order, K = 6. Which those are is drawn first, as in the authors' code: n-grams of whole words, n ≤ 5 with
p(n) ∝ 1/n → masking.choose; then the order of the rest does not matter to them, and all tokens that
are not predicted see each other (rank 0). With ordered = True the rest has an order too, as equation 3 is written.
Deviations: n-grams are drawn anywhere, not one in each stretch of K·n words; where they do not fill the 1/K, nothing is
added token by token.
Shapes: B sequences, L the longest, N tokens, M predicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from canon.data.batching.composing import Sequences, bits, shuffled
from canon.data.batching.draws import Draws
from canon.data.batching.masking import choose

NGRAMS = tuple(1 / n for n in range(1, 6))
_ORDER = 20  # stream of random numbers


class Permuted(NamedTuple):
    """A token's query sees those of a lower rank, its content also those of its own rank."""

    rank: np.ndarray  # [N], 0: seen by all; the predicted from 1 on (ordered: behind all others)
    places: np.ndarray  # [M], ascending
    target: np.ndarray  # [M]


def permute(
    text: Sequences,
    rows_B: np.ndarray,
    draws: Draws,
    share: float = 1 / 6,
    spans: bool = True,
    ordered: bool = False,
) -> Permuted:
    """Special tokens have rank 0. spans: whole n-grams of words are predicted, else tokens anywhere."""
    chosen_N, _ = choose(text, rows_B, draws, "span" if spans else "token", share, NGRAMS)
    chosen_BL = text.grid(chosen_N)
    random_BL = bits(draws, _ORDER, rows_B, chosen_BL.shape[1])
    rank_BL = np.zeros(chosen_BL.shape, dtype=np.int64)
    if ordered:
        rest_BL = text.grid(text.ordinary & ~chosen_N)
        _number(rank_BL, random_BL, rest_BL, np.zeros(len(rows_B), dtype=np.int64))
        _number(rank_BL, random_BL, chosen_BL, rest_BL.sum(axis=1))
    else:
        _number(rank_BL, random_BL, chosen_BL, np.zeros(len(rows_B), dtype=np.int64))
    places_M = np.flatnonzero(chosen_N)
    return Permuted(text.flat(rank_BL), places_M, text.tokens[places_M])


def _number(rank_BL: np.ndarray, random_BL: np.ndarray, able_BL: np.ndarray, before_B: np.ndarray) -> None:
    """Ranks before + 1, before + 2, … in a random order for the places that are able."""
    order_BL = shuffled(random_BL, able_BL)
    row, column = np.nonzero(np.arange(able_BL.shape[1]) < able_BL.sum(axis=1)[:, None])
    rank_BL[row, order_BL[row, column]] = before_B[row] + column + 1
