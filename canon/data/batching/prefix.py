"""One network, several attention masks: each sequence is read in both directions, in one, or as source and target.

Dong et al. 2019, UniLM (arXiv:1905.03197), section 2.3: a third of the sequences bidirectional, a third source to
target, a sixth from left to right and a sixth from right to left → `MODES`; in all of them tokens are hidden as in BERT
and predicted from what may be seen; 80 % of the time one token, else two or three in a row → `NGRAMS`. Segment
embeddings mark the modes, six kinds of them. Next sentences (sentence_pairs.py) are asked of the bidirectional ones.
Deviations: right to left is the text reversed, read from left to right, so places count from its end; two or three in a
row are words, not pieces of them; a passage of one sentence is cut in its middle for source and target.
Shapes: B sequences, N tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from canon.contracts import IGNORE
from canon.data.batching.draws import Draws
from canon.data.batching.masking import mask
from canon.data.batching.passages import Sequences
from canon.data.batching.sentence_pairs import next_sentences
from canon.pretexts import PrefixSettings

if TYPE_CHECKING:
    from canon.data.batching.composer import Composer

BOTH, SOURCE, LEFT, RIGHT = range(4)
MODES = (1 / 3, 1 / 3, 1 / 6, 1 / 6)  # shares of the four above
NGRAMS = (0.8, 0.1, 0.1)
_MODE = 40  # stream of random numbers


class Prefixed(NamedTuple):
    input: np.ndarray  # [N]
    lengths: np.ndarray  # [B]
    segments: np.ndarray  # [N]
    places: np.ndarray  # [M], ascending
    target: np.ndarray  # [M]
    prefix: np.ndarray  # [B], so many first tokens see each other, every other token those before it and itself
    next: np.ndarray  # [B], of sentence_pairs.py; IGNORE where not asked


def prefix(
    column: Composer,
    indices: np.ndarray,
    rows_B: np.ndarray,
    draws: Draws,
    settings: PrefixSettings,
    modes: tuple[float, ...] = MODES,
) -> Prefixed:
    mode_B = np.searchsorted(np.cumsum(modes)[:-1] / sum(modes), draws.uniform(_MODE, rows_B), side="right")
    asked_B = (mode_B == BOTH) & settings.next_sentence
    pairs = next_sentences(column.passages, indices, rows_B, draws, column.room, column.facts, asked_B)
    whole_B = ~asked_B & (mode_B != SOURCE)
    text = _joined(column.framed(pairs.first, pairs.second), pairs.first.lengths, whole_B)
    hiding = settings.masking, settings.mask_share, NGRAMS
    always = settings.always_mask
    hidden = mask(text, rows_B, draws, column.specials, column.vocabulary, *hiding, together=False, always=always)
    chosen_N = np.zeros(len(text.tokens), dtype=bool)
    chosen_N[hidden.places] = True
    # Where each token comes from: a text is reversed between its first and its last token, which are special.
    reversed_N = text.ordinary & (mode_B == RIGHT)[text.rows]
    last_N = (text.starts + text.lengths - 1)[text.rows]
    lie_N = np.where(reversed_N, last_N - text.places, np.arange(len(last_N)))
    places_M = np.flatnonzero(chosen_N[lie_N])
    source_B = 2 + pairs.first.lengths  # with the tokens around it
    prefix_B = np.where(mode_B == BOTH, text.lengths, np.where(mode_B == SOURCE, source_B, 0))
    return Prefixed(
        hidden.input[lie_N],
        text.lengths,
        # Kinds of segments: both 0 and 1, left to right 2, right to left 3, source 4 and target 5.
        text.segments + np.array([0, 4, 2, 3])[mode_B][text.rows],
        places_M,
        text.tokens[lie_N][places_M],
        prefix_B,
        np.where(asked_B, pairs.labels, IGNORE),
    )


def _joined(text: Sequences, first_B: np.ndarray, whole_B: np.ndarray) -> Sequences:
    """Without the token between the two texts, and with one segment, where they are to be one."""
    kept_N = np.ones(len(text.tokens), dtype=bool)
    kept_N[(text.starts + 1 + first_B)[whole_B]] = False
    segments_N = np.where(whole_B[text.rows], 0, text.segments)
    arrays = (a_N[kept_N] for a_N in (segments_N, text.ordinary, text.begins))
    return Sequences(text.tokens[kept_N], text.lengths - whole_B, *arrays)
