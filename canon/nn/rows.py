"""A table of which a batch looks up few rows: its gradient has those rows alone, and only they learn (optim/rows.py).

Shapes: B examples, S places, R rows, D numbers of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RowTable(nn.Embedding):
    """Rows of D numbers: `zeros` that begin at 0, and the rest drawn from N(0, std²)."""

    def __init__(self, rows: int, dim: int, std: float, zeros: int = 0) -> None:
        self.std, self.zeros = std, zeros
        super().__init__(rows, dim, sparse=True)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.std)
        with torch.no_grad():
            self.weight[:, : self.zeros] = 0

    def forward(self, rows_BS: Tensor) -> Tensor:
        return super().forward(rows_BS)


def pairwise(terms_BTD: Tensor) -> Tensor:
    """Σ_{i<j} ⟨v_i, v_j⟩ = ½ Σ_d [(Σ_t v_td)² − Σ_t v_td²], [B]: Rendle 2010, lemma 3.1, in O(T·D)."""
    return 0.5 * (terms_BTD.sum(1).square() - terms_BTD.square().sum(1)).sum(1)
