"""A neural ranker as allRank 1.4 trains it, in plain PyTorch: slates padded to one length, item by item in Python.

It stands in for that package, which does not install with a current torch. What is as there: each query is padded to
the slate length, or cut to it by chance, when the loader asks for it; one linear layer, a Transformer encoder without
positions whose attention is masked, one linear layer; ListNet on padded slates; Adam. What is left out: its pass over
the training set for metrics after each epoch, and its checkpoints.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

PADDED = -1.0


class Slates(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, queries: list[tuple[np.ndarray, np.ndarray]], length: int) -> None:
        self.queries, self.length = queries, length

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        x, y = self.queries[place]
        if len(x) > self.length:
            kept = np.random.default_rng(place).choice(len(x), self.length, replace=False)
            return torch.from_numpy(x[kept]).float(), torch.from_numpy(y[kept]).float()
        short = self.length - len(x)
        x, y = np.pad(x, ((0, short), (0, 0))), np.pad(y, (0, short), constant_values=PADDED)
        return torch.from_numpy(x).float(), torch.from_numpy(y).float()


class PaddedRanker(nn.Module):
    def __init__(self, features: int, dim: int, layers: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Linear(features, dim)
        block = nn.TransformerEncoderLayer(dim, heads, hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.output = nn.Linear(dim, 1)

    def forward(self, x_BSF: Tensor, padded_BS: Tensor) -> Tensor:
        scores_BS: Tensor = self.output(self.encoder(self.embed(x_BSF), src_key_padding_mask=padded_BS)).squeeze(2)
        return scores_BS


def list_net(scores_BS: Tensor, grades_BS: Tensor, padded_BS: Tensor) -> Tensor:
    scores_BS = scores_BS.masked_fill(padded_BS, -torch.inf)
    wanted_BS = grades_BS.masked_fill(padded_BS, -torch.inf).softmax(1)
    terms_BS = (wanted_BS * scores_BS.log_softmax(1)).masked_fill(padded_BS, 0)
    return -terms_BS.sum(1).mean()


def train_padded(model: PaddedRanker, slates: Slates, batch: int, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for x_BSF, y_BS in DataLoader(slates, batch_size=batch, shuffle=True):
            padded_BS = y_BS == PADDED
            optimizer.zero_grad()
            list_net(model(x_BSF, padded_BS), y_BS, padded_BS).backward()
            optimizer.step()
