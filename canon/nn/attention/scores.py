"""How well a query fits a key: the score functions of attention, each by its name.

Bahdanau, Cho and Bengio 2015 (arXiv:1409.0473), appendix A.1.2: additive, v·tanh(W q + U k).
Luong, Pham and Manning 2015 (1508.04025), equation 8: dot, q·k; general, q·W k; concat, v·tanh(W [q; k]).
Vaswani et al. 2017 (1706.03762), equation 1: scaled-dot, q·k / √d.
`prepare` is the part that only keys have a say in: a decoder calls it once and `compare` at every step.
Deviations: none. Shapes: B sequences, Q queries, K keys, E features of a query, D of a key, A hidden units.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from canon.errors import CanonError, unknown

Kind = Literal["additive", "dot", "scaled-dot", "general", "concat"]
KINDS: tuple[str, ...] = get_args(Kind)


class Scores(nn.Module):
    """query [B, Q, E] and keys [B, K, D] to scores [B, Q, K]; `hidden` = 0 takes the query's size."""

    def __init__(self, kind: Kind, query_dim: int, key_dim: int, hidden: int = 0) -> None:
        super().__init__()
        if kind not in KINDS:
            raise unknown("score function", kind, KINDS)
        if kind in ("dot", "scaled-dot") and query_dim != key_dim:
            raise CanonError(
                f"The {kind} score needs queries and keys of one size, got {query_dim} and {key_dim}; general does not."
            )
        self.kind = kind
        self.query_dim = query_dim
        hidden = hidden or query_dim
        if kind == "additive":
            self.query = nn.Linear(query_dim, hidden, bias=False)  # W
            self.key = nn.Linear(key_dim, hidden, bias=False)  # U
        elif kind == "concat":
            self.joint = nn.Linear(query_dim + key_dim, hidden, bias=False)  # W, the query's columns first
        elif kind == "general":
            self.key = nn.Linear(key_dim, query_dim, bias=False)  # W
        if kind in ("additive", "concat"):
            self.vector = nn.Parameter(torch.empty(hidden))  # v
        self.reset()

    def reset(self) -> None:
        """Glorot and Bengio's uniform weights; v as the row of a layer with one output."""
        for layer in self.children():
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]
        if self.kind in ("additive", "concat"):
            nn.init.xavier_uniform_(self.vector[None])

    def forward(self, query_BQE: Tensor, keys_BKD: Tensor) -> Tensor:
        return self.compare(query_BQE, self.prepare(keys_BKD))

    def prepare(self, keys_BKD: Tensor) -> Tensor:
        """What of the scores depends on keys alone: [B, K, A], or [B, K, E] for products."""
        if self.kind in ("additive", "general"):
            return self.key(keys_BKD)
        if self.kind == "concat":
            return keys_BKD @ self.joint.weight[:, self.query_dim :].T
        return keys_BKD

    def compare(self, query_BQE: Tensor, prepared_BKA: Tensor) -> Tensor:
        """Scores [B, Q, K] of prepared keys."""
        if self.kind in ("additive", "concat"):
            if self.kind == "additive":
                query_BQA = self.query(query_BQE)
            else:
                query_BQA = query_BQE @ self.joint.weight[:, : self.query_dim].T
            # [B, Q, K, A] is held at once: a product of score functions would not be.
            return torch.tanh(query_BQA[:, :, None] + prepared_BKA[:, None]) @ self.vector
        if self.kind == "scaled-dot":
            query_BQE = query_BQE / math.sqrt(self.query_dim)
        return query_BQE @ prepared_BKA.transpose(1, 2)

    def extra_repr(self) -> str:
        return f"kind={self.kind}"
