"""One vector for each text from the hidden states of its tokens.

Reimers and Gurevych 2019 (arXiv:1908.10084), section 3 (cls, mean, max); Muennighoff 2022 (2202.08904), equation 2
(weighted-mean); Gao, Yao and Chen 2021 (2104.08821), section 3 and table 5 (cls-mlp, first-last, top-2). Tokens of a
text's frame ([CLS], [SEP]) count, as in sentence-transformers. Deviations: `first-last` reads the first layer's output,
as the authors' code does, not the embeddings.
Shapes: N tokens of S texts end to end, D features of the states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from canon.nn.ragged import Layout

# Which states a way of pooling reads, of the list of all: the last, or the mean of two.
STATES: dict[str, tuple[int, ...]] = {"first-last": (1, -1), "top-2": (-2, -1)}
HAVE_MLP = ("cls-mlp", "cls-mlp-train")
FIRST = ("cls", *HAVE_MLP)  # of one token, which the frame must have


def first_token(x_ND: Tensor, layout: Layout) -> Tensor:
    return x_ND.index_select(0, layout.starts)


def last_token(x_ND: Tensor, layout: Layout) -> Tensor:
    return x_ND.index_select(0, layout.ends)


def mean(x_ND: Tensor, layout: Layout) -> Tensor:
    return layout.mean(x_ND)


def mean_sqrt(x_ND: Tensor, layout: Layout) -> Tensor:
    """Σ h_t / √n."""
    return layout.mean(x_ND) * layout.device_lengths[:, None].to(x_ND.dtype).sqrt()


def weighted_mean(x_ND: Tensor, layout: Layout) -> Tensor:
    """Σ t h_t / Σ t, t = 1 … n."""
    weight_N = (layout.positions + 1).to(x_ND.dtype)
    sums_SD = x_ND.new_zeros(layout.size, x_ND.shape[1]).index_add(0, layout.rows, x_ND * weight_N[:, None])
    lengths_S = layout.device_lengths.to(x_ND.dtype)
    return sums_SD / (lengths_S * (lengths_S + 1) / 2)[:, None]


def maximum(x_ND: Tensor, layout: Layout) -> Tensor:
    return layout.pad(x_ND, fill=float("-inf")).amax(1)


_POOLS: dict[str, Callable[[Tensor, Layout], Tensor]] = {
    "cls": first_token,
    "cls-mlp": first_token,
    "cls-mlp-train": first_token,
    "mean": mean,
    "max": maximum,
    "mean-sqrt": mean_sqrt,
    "weighted-mean": weighted_mean,
    "last": last_token,
    "first-last": mean,
    "top-2": mean,
}
POOLINGS = tuple(_POOLS)


class SentencePooling(nn.Module):
    """Several ways of pooling side by side: [S, ways · D]."""

    def __init__(self, ways: tuple[str, ...], dim: int, cls_last: bool = False) -> None:
        """cls_last: whether the frame has its [CLS] at the end."""
        super().__init__()
        self.ways, self.cls_last = ways, cls_last
        self.mlp = nn.Linear(dim, dim) if set(ways) & set(HAVE_MLP) else None

    def forward(self, hidden: Any, layout: Layout) -> Tensor:
        """hidden: the states [N, D] of all layers, embeddings first."""
        return torch.cat([self._pooled(way, hidden, layout) for way in self.ways], dim=1)

    def _pooled(self, way: str, hidden: Any, layout: Layout) -> Tensor:
        states = STATES.get(way)
        x_ND = hidden[-1] if states is None else (hidden[states[0]] + hidden[states[1]]) / 2
        pool = last_token if way in FIRST and self.cls_last else _POOLS[way]
        pooled_SD = pool(x_ND, layout)
        if self.mlp is not None and (way == HAVE_MLP[0] or (way == HAVE_MLP[1] and self.training)):
            pooled_SD = torch.tanh(self.mlp(pooled_SD))
        return pooled_SD
