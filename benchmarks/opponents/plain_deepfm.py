"""DeepFM as deepctr-torch 0.3 trains it, in plain PyTorch: an embedding of its own for each field and part, dense Adam,
and an L2 term over whole tables in every step. It stands in for that package where it is not installed.

What is as there: ids come as columns of one float matrix in a DataLoader that shuffles; the linear part and the deep
part each look up every field by themselves; DNN 256 and 128; the loss is a sum over the batch of the cross-entropy of
probabilities plus l2 · Σ w² of all embeddings and linear weights. What is left out: its metrics and its progress bar.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class PlainDeepFM(nn.Module):
    def __init__(self, sizes: list[int], dim: int, hidden: tuple[int, ...] = (256, 128)) -> None:
        super().__init__()
        self.linear = nn.ModuleList(nn.Embedding(size, 1) for size in sizes)
        self.embeddings = nn.ModuleList(nn.Embedding(size, dim) for size in sizes)
        for table in (*self.linear, *self.embeddings):
            nn.init.normal_(table.weight, std=1e-4)
        widths = [len(sizes) * dim, *hidden]
        layers = [nn.Linear(before, after) for before, after in pairwise(widths)]
        self.dnn = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
        self.output = nn.Linear(widths[-1], 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x_BF: Tensor) -> Tensor:
        columns = [x_BF[:, place : place + 1].long() for place in range(x_BF.shape[1])]
        first = torch.cat([table(ids) for table, ids in zip(self.linear, columns, strict=True)], dim=-1).sum(-1)
        vectors = [table(ids) for table, ids in zip(self.embeddings, columns, strict=True)]
        terms_BFD = torch.cat(vectors, dim=1)
        pairs = 0.5 * (terms_BFD.sum(1, keepdim=True).square() - terms_BFD.square().sum(1, keepdim=True)).sum(2)
        logit = first + pairs + self.output(self.dnn(terms_BFD.flatten(1)))
        return torch.sigmoid(logit + self.bias).squeeze(1)

    def penalty(self, l2: float) -> Tensor:
        total = torch.zeros(1)
        for table in (*self.linear, *self.embeddings):
            total = total + torch.sum(l2 * torch.square(table.weight))
        return total.sum()


def train_plain(model: PlainDeepFM, rows_NF: Tensor, label_N: Tensor, batch: int, steps: int, l2: float) -> float:
    """So many steps; the last loss."""
    loader = DataLoader(TensorDataset(rows_NF.float(), label_N.float()), batch_size=batch, shuffle=True)
    optimizer, done, loss = torch.optim.Adam(model.parameters()), 0, torch.zeros(())
    while done < steps:
        for x_BF, y_B in loader:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy(model(x_BF), y_B, reduction="sum")
            (loss + model.penalty(l2) if l2 else loss).backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    return float(loss.detach())
