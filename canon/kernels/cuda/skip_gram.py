"""Skip-gram with noise on a GPU: hundreds of words at once, each with all its contexts and one set of noise words.

The equations are those of cpu/word2vec.py with update = "window". A program of the kernel has one word at a time;
programs add to the same matrices by atomic operations without waiting for each other, as threads do on a CPU
(Hogwild), so that numbers differ from run to run. A span's seed depends on the learner's seed, the epoch and the place
alone.
Plain version: cpu/word2vec.py, as good in tests/systems/test_skip_gram_cuda.py, which also has the equations.
Deviations: words at either end of a span have no contexts outside it.
Shapes: N tokens of a span, M of them kept, V words, D dimensions (S: the next power of two), K outputs of a word (R).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

_SHARE = float(1 << 32)  # tables of whole 2^-32
_TALLIES = 1024  # places that losses are added up in: fewer meet at one
_AT_ONCE = 512  # words: more are faster, up to 2048, but learn less from each other
_LANES = 128  # numbers of a row that one warp works on


@triton.jit(do_not_specialize=["size", "seed"])  # else compiled again for multiples of 16
def _skip_gram(  # type: ignore[no-untyped-def]
    kept_M, sentence_M, size, input_VS, output_VS, threshold_V, other_V, vocabulary, seed, lr_first, lr_last, tally,
    WINDOW: tl.constexpr, OUTPUTS: tl.constexpr, ROWS: tl.constexpr, STRIDE: tl.constexpr, TALLIES: tl.constexpr,
):  # fmt: skip
    """x ← x + Σ_k g_k o_k and o_k ← o_k + Σ_x g_k x with g = lr (label − σ(x·o)), for every x around one word."""
    # Rows are read past the first-level cache: what other processors have added is not seen there.
    first = tl.program_id(0)
    for further in range(0, size - first, tl.num_programs(0)):
        place = first + further
        here = tl.load(kept_M + place)
        line = tl.load(sentence_M + place)
        lr = lr_first + (lr_last - lr_first) * place / size
        reach = 1 + (tl.rand(seed, place * 2 * ROWS) * WINDOW).to(tl.int32)
        k = tl.arange(0, ROWS)
        lanes = tl.arange(0, STRIDE)
        # Alias method: a row evenly, then itself or its other.
        drawn = (tl.rand(seed, place * 2 * ROWS + 1 + k) * vocabulary).to(tl.int32)
        chance = tl.rand(seed + 1, place * 2 * ROWS + 1 + k)
        drawn = tl.where(chance < tl.load(threshold_V + drawn), drawn, tl.load(other_V + drawn))
        outputs = tl.where(k == 0, here, drawn)
        counted = (k < OUTPUTS) & ((k == 0) | (drawn != here))
        label = tl.where(k == 0, 1.0, 0.0)
        where_RS = output_VS + outputs[:, None].to(tl.int64) * STRIDE + lanes[None, :]
        o_RS = tl.load(where_RS, mask=counted[:, None], other=0.0, cache_modifier=".cg")
        more_RS = tl.zeros((ROWS, STRIDE), tl.float32)
        loss = 0.0
        pairs = 0.0
        for step in range(2 * WINDOW):
            away = tl.where(step < WINDOW, step - WINDOW, step - WINDOW + 1)
            other = place + away
            inside = (other >= 0) & (other < size) & (away <= reach) & (-away <= reach)
            inside = inside & (tl.load(sentence_M + other, mask=inside, other=-1) == line)
            if inside:
                at_S = input_VS + tl.load(kept_M + other).to(tl.int64) * STRIDE + lanes
                x_S = tl.load(at_S, cache_modifier=".cg")
                p_R = 1.0 / (1.0 + tl.exp(-tl.sum(o_RS * x_S[None, :], axis=1)))
                g_R = tl.where(counted, lr * (label - p_R), 0.0)
                right_R = tl.where(label > 0, p_R, 1.0 - p_R)
                loss -= tl.sum(tl.where(counted, tl.log(tl.maximum(right_R, 1e-7)), 0.0))
                pairs += 1.0
                more_RS += g_R[:, None] * x_S[None, :]
                tl.atomic_add(at_S, tl.sum(g_R[:, None] * o_RS, axis=0), sem="relaxed")
        tl.atomic_add(where_RS, more_RS, mask=counted[:, None], sem="relaxed")
        tl.atomic_add(tally + place % TALLIES, loss, sem="relaxed")
        tl.atomic_add(tally + TALLIES + place % TALLIES, pairs, sem="relaxed")


class OnDevice:
    """The matrices and tables on the device, and what a span of tokens does to them."""

    def __init__(
        self,
        input_VD: np.ndarray,
        output_VD: np.ndarray,
        keep_V: np.ndarray,
        noise: tuple[np.ndarray, np.ndarray],
        config: Any,
        device: torch.device,
    ) -> None:
        self._config, self._device = config, device
        self._stride = triton.next_power_of_2(config.dim)
        self._input_VS, self._output_VS = (self._filled(matrix) for matrix in (input_VD, output_VD))
        self._keep_V, self._threshold_V = (self._shares(table) for table in (keep_V, noise[0]))
        self._other_V = torch.from_numpy(np.ascontiguousarray(noise[1], np.int32)).to(device)
        self._tally = torch.zeros(2 * _TALLIES, device=device)
        self._draws = torch.Generator(device)

    def _filled(self, matrix_VD: np.ndarray) -> Tensor:
        dim = matrix_VD.shape[1]
        return F.pad(torch.from_numpy(np.ascontiguousarray(matrix_VD)).to(self._device), (0, self._stride - dim))

    def _shares(self, table_V: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(table_V, np.float64) / _SHARE).float().to(self._device)

    def read(self, tokens_N: np.ndarray, seed: int, lr_first: float, lr_last: float) -> None:
        """Learns from a span of the text; nothing waits for the device."""
        token_N = torch.from_numpy(np.array(tokens_N, np.int32)).to(self._device)
        self._draws.manual_seed(seed)
        chance_N = torch.rand(len(token_N), generator=self._draws, device=self._device)
        is_word_N = token_N >= 0
        kept_N = is_word_N & (chance_N < self._keep_V[token_N.clamp(min=0).long()])
        sentence_M = (~is_word_N).cumsum(0, dtype=torch.int32)[kept_N]
        kept_M = token_N[kept_N]
        if not len(kept_M):
            return
        rows = 1 + self._config.negatives
        _skip_gram[(min(len(kept_M), _AT_ONCE),)](
            kept_M, sentence_M, len(kept_M), self._input_VS, self._output_VS, self._threshold_V, self._other_V,
            len(self._other_V), seed, lr_first, lr_last, self._tally, WINDOW=self._config.window, OUTPUTS=rows,
            ROWS=triton.next_power_of_2(rows), STRIDE=self._stride, TALLIES=_TALLIES,
            num_warps=max(1, min(8, self._stride // _LANES)),
        )  # fmt: skip

    def tallies(self) -> tuple[float, float]:
        """The sum of losses and the number of pairs since the last call."""
        loss, pairs = self._tally.double().view(2, _TALLIES).sum(1).tolist()
        self._tally.zero_()
        return loss, pairs

    def copy_to(self, input_VD: np.ndarray, output_VD: np.ndarray) -> None:
        for matrix_VD, here_VS in ((input_VD, self._input_VS), (output_VD, self._output_VS)):
            matrix_VD[:] = here_VS[:, : matrix_VD.shape[1]].cpu().numpy()
