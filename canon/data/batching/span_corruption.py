"""Span corruption: sentinels replace stretches of a text, and the network predicts what was there.

Raffel et al. 2020, T5 (arXiv:1910.10683), section 3.1.4 and figure 2: 15 % of the tokens in spans of mean length 3. As
in the authors' code: round(0.15 · n) noise tokens (1 to n − 1), round(noise / 3) spans, both the noise and the rest
cut into so many stretches, every way as likely (`_part`); a text begins with rest and ends with noise → `noise`.
Thank you <X> me to your party <Y> </s> → <X> for inviting <Y> last week </s>.
Deviations: no more spans than there are sentinels; a text of one token is not corrupted. No sentinel ends the target,
as in the code (figure 2 has one).
Shapes: B texts, L the longest, N tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from canon.data.batching.draws import Draws, smallest
from canon.data.batching.sequences import Ragged, ranges, starts_of
from canon.data.text.framing import Specials
from canon.errors import CanonError

_NOISE, _REST = 30, 31  # streams of random numbers


class Corrupted(NamedTuple):
    source: Ragged  # with </s>
    target: Ragged  # with </s>


def corrupt(
    text: Ragged, rows_B: np.ndarray, draws: Draws, specials: Specials, share: float = 0.15, span: float = 3.0
) -> Corrupted:
    if not specials.sentinels:
        raise CanonError("The tokenizer has no <extra_id_0>, which span corruption needs; use one that has it.")
    end = specials.require("eos", "span corruption")
    noise_N, span_N = noise(text.lengths, rows_B, draws, share, span, len(specials.sentinels))
    sentinel_N = np.asarray(specials.sentinels, dtype=np.int64)[span_N]
    first_N = noise_N.copy()  # a noise span's first token; a text never begins with one
    first_N[1:] &= ~noise_N[:-1]
    row_N = np.repeat(np.arange(len(text.lengths)), text.lengths)
    kept_N = ~noise_N | first_N
    source = _ended(np.where(first_N, sentinel_N, text.tokens)[kept_N], row_N[kept_N], len(text), end)
    # Each span's sentinel goes before it: a token that begins a span counts twice.
    twice_N = noise_N.astype(np.int64) + first_N
    lie = np.repeat(np.arange(len(text.tokens)), twice_N)
    sentinel = np.zeros(len(lie), dtype=bool)
    sentinel[starts_of(twice_N)[first_N]] = True
    tokens = np.where(sentinel, sentinel_N[lie], text.tokens[lie])
    return Corrupted(source, _ended(tokens, row_N[lie], len(text), end))


def noise(
    lengths_B: np.ndarray, rows_B: np.ndarray, draws: Draws, share: float, span: float, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """([N] which tokens are cut out, [N] the number of each one's span, from 0)."""
    noise_B, spans_B = counts(lengths_B, share, span, most)
    noise_N, span_N = np.zeros(int(lengths_B.sum()), dtype=bool), np.zeros(int(lengths_B.sum()), dtype=np.int64)
    if not noise_B.any():
        return noise_N, span_N
    rest_B = lengths_B - noise_B
    noise_first_BL = _part(draws, _NOISE, rows_B, noise_B, spans_B)
    rest_first_BL = _part(draws, _REST, rows_B, rest_B, spans_B)
    # Rest, noise, rest, noise, …: noise token j of span g comes after all rest of the spans up to g.
    noise_span_BL = np.cumsum(noise_first_BL, axis=1) - 1
    sizes_BL = _sizes(rest_first_BL, rest_B, noise_first_BL.shape[1])
    before_BL = np.cumsum(sizes_BL, axis=1)
    there_BL = np.arange(noise_first_BL.shape[1]) < noise_B[:, None]
    row, column = np.nonzero(there_BL)
    number = noise_span_BL[row, column]
    lie = starts_of(lengths_B)[row] + column + before_BL[row, number]
    noise_N[lie], span_N[lie] = True, number
    return noise_N, span_N


def counts(lengths_B: np.ndarray, share: float, span: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of each text are noise, and in how many spans; halves are rounded to the even number."""
    noise_B = np.clip(np.round(lengths_B * share).astype(np.int64), 1, np.maximum(lengths_B - 1, 1))
    spans_B = np.maximum(np.round(noise_B / span).astype(np.int64), 1)
    spans_B = np.minimum(np.minimum(spans_B, np.maximum(lengths_B - noise_B, 1)), most)
    several_B = lengths_B > 1
    return np.where(several_B, noise_B, 0), np.where(several_B, spans_B, 0)


def _part(draws: Draws, stream: int, rows_B: np.ndarray, items_B: np.ndarray, parts_B: np.ndarray) -> np.ndarray:
    """[B, L] where a part begins, if each row's items are cut into so many, none empty, every way as likely."""
    longest = int(items_B.max(initial=0))
    able_BL = np.arange(longest) < items_B[:, None]
    able_BL[:, :1] = False
    first_BL = smallest(draws.grid(stream, rows_B, longest), able_BL, np.maximum(parts_B - 1, 0))
    first_BL[:, :1] = items_B[:, None] > 0
    return first_BL


def _sizes(first_BL: np.ndarray, items_B: np.ndarray, width: int) -> np.ndarray:
    """[B, width] how many items each part has; 0 after the last part."""
    number_BL = np.cumsum(first_BL, axis=1) - 1
    row, column = np.nonzero(np.arange(first_BL.shape[1]) < items_B[:, None])
    sizes = np.bincount(row * width + np.minimum(number_BL[row, column], width - 1), minlength=len(items_B) * width)
    return sizes.reshape(len(items_B), width)


def _ended(tokens: np.ndarray, rows: np.ndarray, count: int, end: int) -> Ragged:
    """Tokens of `count` rows (that of each token is in `rows`) with </s> after each row."""
    lengths_B = np.bincount(rows, minlength=count)
    ended = np.full(len(tokens) + count, end, dtype=np.int64)
    ended[ranges(starts_of(lengths_B + 1), lengths_B)] = tokens
    return Ragged(ended, lengths_B + 1)
