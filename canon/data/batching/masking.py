"""Masked and permutation language modelling: which tokens of a text are predicted, and from which others.

Devlin et al. 2019, BERT (arXiv:1810.04805), section 3.1 and appendix A.1: 15 % of the tokens, of which 80 % become
[MASK], 10 % a random token, 10 % stay → `mask`; whole words, as in the authors' later code, which goes through the
words in a random order and skips one that does not fit into what is left of the 15 % → `greedy`. Sun et al. 2019, ERNIE
(arXiv:1904.09223): phrases and entities as wholes, each hidden, replaced or kept as one → masking = "span". Lan et al.
2020, ALBERT (arXiv:1909.11942), section 3.1: n-grams of words with p(n) ∝ 1/n, n ≤ 3 → `NGRAMS`, `_spans`. Liu et al.
2019, RoBERTa (arXiv:1907.11692): drawn again at every visit, which is always so here.
Deviations: where every word or span is longer than the 15 %, the first one drawn is hidden all the same; ERNIE's
phrases come from the user's lexicon and are used beside n-grams, not in a separate stage; a random token is never a
special one. An n-gram ends early where a sentence or a phrase begins.
Yang et al. 2019, XLNet (arXiv:1906.08237), section 2.2, equation 3: tokens are predicted in a random order, each from
those before it in that order → `permute`; section 2.3, partial prediction of the last 1/K of an order, K = 6. Which
those are is drawn first, as in the authors' code: n-grams of whole words, n ≤ 5 with p(n) ∝ 1/n → `choose`; then the
order of the rest does not matter to them, and all tokens that are not predicted see each other (rank 0). Deviations:
n-grams are drawn anywhere, not one in each stretch of K·n words; where they do not fill the 1/K, nothing is added.
Shapes: B sequences, L the longest, N tokens, M predicted; U units (words, spans) of all sequences, W most of one.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from canon.data.batching.draws import Draws, shuffled, smallest
from canon.data.batching.passages import INSIDE, PHRASE, SENTENCE, WORD, Sequences
from canon.data.batching.sequences import starts_of
from canon.data.text.framing import Specials
from canon.errors import unknown
from canon.pretexts import Masking

NGRAMS = (6 / 11, 3 / 11, 2 / 11)  # of one, two and three words
PERMUTED_NGRAMS = tuple(1 / n for n in range(1, 6))
HIDDEN, REPLACED = 0.8, 0.1  # shares of the chosen; the rest is kept as it is

_ORDER, _FATE, _TOKEN, _LENGTH = range(4)  # streams of random numbers: other modules' begin at other numbers
_RANK = 20


class MaskedTokens(NamedTuple):
    input: np.ndarray  # [N]
    places: np.ndarray  # [M], ascending
    target: np.ndarray  # [M]


class Permuted(NamedTuple):
    """A token's query sees those of a lower rank, its content also those of its own rank."""

    rank: np.ndarray  # [N], 0: seen by all; those to predict have 1, 2, …
    places: np.ndarray  # [M], ascending
    target: np.ndarray  # [M]


def mask(
    text: Sequences,
    rows_B: np.ndarray,
    draws: Draws,
    specials: Specials,
    vocabulary: np.ndarray,
    masking: str = "token",
    share: float = 0.15,
    ngrams: tuple[float, ...] = NGRAMS,
    together: bool = True,
    always: bool = False,
) -> MaskedTokens:
    """Hides round(share · ordinary tokens) of every sequence, at least one; of whole words or spans at most that.

    rows_B: the sequences' rows in the global batch; vocabulary: the ids that a random token is drawn from;
    together: whether a span is hidden, replaced or kept as one; always: whether all are hidden, none replaced or kept.
    """
    chosen_N, unit_N = choose(text, rows_B, draws, masking, share, ngrams)
    places_M = np.flatnonzero(chosen_N)
    row_M, place_M = rows_B[text.rows[places_M]], text.places[places_M]
    as_one = masking == "span" and together
    fate_M = draws.uniform(_FATE, row_M, unit_N[places_M] if as_one else place_M)
    target_M = text.tokens[places_M]
    other_M = vocabulary[draws.integers(len(vocabulary), _TOKEN, row_M, place_M)]
    hidden = specials.require("mask", "masked language modelling")
    shown_M = np.where(always | (fate_M < HIDDEN), hidden, np.where(fate_M < HIDDEN + REPLACED, other_M, target_M))
    input_N = text.tokens.copy()
    input_N[places_M] = shown_M
    return MaskedTokens(input_N, places_M, target_M)


def permute(text: Sequences, rows_B: np.ndarray, draws: Draws, share: float = 1 / 6, spans: bool = True) -> Permuted:
    """Special tokens have rank 0. spans: whole n-grams of words are predicted, else tokens anywhere."""
    chosen_N, _ = choose(text, rows_B, draws, "span" if spans else "token", share, PERMUTED_NGRAMS)
    chosen_BL = text.grid(chosen_N)
    order_BL = shuffled(draws.grid(_RANK, rows_B, chosen_BL.shape[1]), chosen_BL)
    rank_BL = np.zeros(chosen_BL.shape, dtype=np.int64)
    row, column = np.nonzero(np.arange(chosen_BL.shape[1]) < chosen_BL.sum(axis=1)[:, None])
    rank_BL[row, order_BL[row, column]] = column + 1
    places_M = np.flatnonzero(chosen_N)
    return Permuted(text.flat(rank_BL), places_M, text.tokens[places_M])


def choose(
    text: Sequences, rows_B: np.ndarray, draws: Draws, masking: str, share: float, ngrams: tuple[float, ...] = NGRAMS
) -> tuple[np.ndarray, np.ndarray]:
    """([N] which tokens are to be predicted, [N] the place in its sequence where each token's unit begins)."""
    if masking not in get_args(Masking):
        raise unknown("masking", masking, get_args(Masking))
    able_BL = text.grid(text.ordinary)
    counts_B = able_BL.sum(axis=1)
    budgets_B = np.minimum(np.maximum(np.round(share * counts_B).astype(np.int64), 1), counts_B)
    if masking == "token":
        random_BL = draws.grid(_ORDER, rows_B, able_BL.shape[1])
        return text.flat(smallest(random_BL, able_BL, budgets_B)), text.places
    first_N = (text.begins & (WORD | SENTENCE) != 0) | ~text.ordinary  # special tokens are units too, never chosen
    if masking == "span":
        first_N &= (text.begins & (INSIDE | SENTENCE)) != INSIDE  # inside of a phrase no word begins
        first_N = _spans(text, first_N, rows_B, draws, ngrams)
    lie_U = np.flatnonzero(first_N)
    sizes_U = np.diff(np.append(lie_U, len(first_N)))
    row_U, place_U = text.rows[lie_U], text.places[lie_U]
    units_B = np.bincount(row_U, minlength=len(rows_B))
    taken_U = _fill(draws.bits(_ORDER, rows_B[row_U], place_U), sizes_U, text.ordinary[lie_U], units_B, budgets_B)
    return np.repeat(taken_U, sizes_U), np.repeat(place_U, sizes_U)


def _spans(
    text: Sequences, first_N: np.ndarray, rows_B: np.ndarray, draws: Draws, ngrams: tuple[float, ...]
) -> np.ndarray:
    """[N] where a span begins, of those where a word or phrase does: each sequence is cut into n-grams end to end."""
    lie_U = np.flatnonzero(first_N)  # words, phrases and special tokens
    units_B = np.bincount(text.rows[lie_U], minlength=len(rows_B))
    most = int(units_B.max(initial=0))
    bounds = np.cumsum(ngrams)[:-1] / sum(ngrams)
    lengths_BW = 1 + sum((draws.uniform(_LENGTH, rows_B[:, None], np.arange(most)) >= bound) for bound in bounds)
    ends_BW = np.cumsum(lengths_BW, axis=1)
    begins_BW = np.zeros((len(rows_B), most + 1), dtype=bool)
    begins_BW[:, 0] = True
    np.put_along_axis(begins_BW, np.minimum(ends_BW, most), True, axis=1)
    begins_U = begins_BW[:, :most][np.arange(most) < units_B[:, None]]
    known_U, ordinary_U = text.begins[lie_U], text.ordinary[lie_U]
    phrase_U = known_U & PHRASE > 0
    begins_U |= (known_U & (PHRASE | SENTENCE) > 0) | ~ordinary_U
    begins_U[1:] |= phrase_U[:-1]  # what comes after a phrase
    spans_N = np.zeros(len(first_N), dtype=bool)
    spans_N[lie_U[begins_U]] = True
    return spans_N


def _fill(
    bits_U: np.ndarray, sizes_U: np.ndarray, able_U: np.ndarray, units_B: np.ndarray, budgets_B: np.ndarray
) -> np.ndarray:
    """[U] which units are taken, in a random order; where none fits into the budget, the first."""
    there_BW = np.arange(units_B.max(initial=0)) < units_B[:, None]
    bits_BW, able_BW = np.zeros(there_BW.shape, dtype=np.uint64), np.zeros(there_BW.shape, dtype=bool)
    bits_BW[there_BW], able_BW[there_BW] = bits_U, able_U
    unit_BW = np.minimum(shuffled(bits_BW, able_BW) + starts_of(units_B)[:, None], max(len(sizes_U) - 1, 0))
    first_BW = np.arange(there_BW.shape[1]) < able_BW.sum(axis=1)[:, None]  # those that are able come first
    sizes_BW = np.where(first_BW, sizes_U[unit_BW], 0)
    taken_BW = greedy(sizes_BW, budgets_B)
    taken_BW[~taken_BW.any(axis=1), :1] = True
    taken_U = np.zeros(len(sizes_U), dtype=bool)
    taken_U[unit_BW[taken_BW & first_BW]] = True
    return taken_U


def greedy(sizes_BW: np.ndarray, budgets_B: np.ndarray) -> np.ndarray:
    """[B, W] which units are taken: from the left, each that fits into what is left of the budget; a size 0 is none.

    What is left only shrinks, so a unit once too large stays so. A round takes the units up to the first that does not
    fit and closes all that no longer can: some rounds, not one for each unit. Columns are gone through by as many as a
    budget can hold, which is nearly always all that is looked at.
    """
    taken_BW = np.zeros(sizes_BW.shape, dtype=bool)
    left_B = budgets_B.copy()
    width = max(int(budgets_B.max(initial=0)), 1)
    for column in range(0, sizes_BW.shape[1], width):
        rows_R = np.flatnonzero(left_B > 0)
        sizes_RW = sizes_BW[rows_R, column : column + width]
        open_RW = (sizes_RW > 0) & (sizes_RW <= left_B[rows_R, None])
        while open_RW.any():
            fits_RW = open_RW & (np.cumsum(sizes_RW * open_RW, axis=1) <= left_B[rows_R, None])
            taken_BW[rows_R, column : column + width] |= fits_RW
            left_B[rows_R] -= (sizes_RW * fits_RW).sum(axis=1)
            open_RW &= ~fits_RW & (sizes_RW <= left_B[rows_R, None])
    return taken_BW


def ordinary_ids(vocab_size: int, specials: Specials) -> np.ndarray:
    """The vocabulary without special tokens."""
    return np.setdiff1d(np.arange(vocab_size), specials.all)
