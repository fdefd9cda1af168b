"""Trained vectors of a prompt: among the tokens of its text, and keys and values before those of each layer.

Liu et al. 2021, GPT understands, too (arXiv:2103.10385), equation 4: h_i = MLP([LSTM→(e)_i ; LSTM←(e)_i]) of trained e,
two layers, D/2 units in each direction; with `wide` D units, as in the authors' few-shot code → `SoftTokens`. Lester,
Al-Rfou and Constant 2021 (arXiv:2104.08691): e themselves, from words where the template gives them. Li and Liang 2021
(arXiv:2101.00190), section 4.3: P_i = MLP(P'_i), one tanh layer → `PrefixVectors`; without it, the numbers themselves
(Liu et al. 2022, arXiv:2110.07602).
After training only `vectors` are needed: the LSTM and the MLP are folded into them.
Deviations: none. Shapes: K soft tokens, D features, P places of the prefix, L layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from canon.nn.recurrence import Recurrent

_LAYERS = 2


class SoftTokens(nn.Module):
    def __init__(self, starts: tuple[int, ...], dim: int, lstm: bool, wide: bool, std: float) -> None:
        """starts: the token that each begins as; −1: a new one."""
        super().__init__()
        self.starts = starts
        self.weight = nn.Parameter(torch.empty(len(starts), dim))
        nn.init.normal_(self.weight, std=std)
        hidden = dim if wide else dim // 2
        self.lstm = Recurrent("lstm", dim, hidden, _LAYERS, bidirectional=True) if lstm else None
        self.mlp = nn.Sequential(nn.Linear(2 * hidden, dim), nn.ReLU(), nn.Linear(dim, dim)) if lstm else None

    @torch.no_grad()
    def start(self, embedding_VD: Tensor) -> None:
        for row, token in enumerate(self.starts):
            if token >= 0:
                self.weight[row].copy_(embedding_VD[token])

    def vectors(self) -> Tensor:
        """[K, D]."""
        if self.lstm is None or self.mlp is None:
            return self.weight
        return self.mlp(self.lstm.network(torch.stack([self.weight]))[0][0])


class PrefixVectors(nn.Module):
    def __init__(self, count: int, layers: int, width: int, projection: int, dim: int, std: float) -> None:
        """width: of keys, and of values. projection: hidden units of the MLP; 0: none."""
        super().__init__()
        self.layers, self.width = layers, width
        numbers = layers * 2 * width
        self.weight = nn.Parameter(torch.empty(count, dim if projection else numbers))
        nn.init.normal_(self.weight, std=std)
        parts = [nn.Linear(dim, projection), nn.Tanh(), nn.Linear(projection, numbers)] if projection else []
        self.mlp = nn.Sequential(*parts)

    def vectors(self) -> Tensor:
        """[L, P, 2·width]: keys, then values."""
        return self.mlp(self.weight).unflatten(1, (self.layers, 2 * self.width)).transpose(0, 1)
