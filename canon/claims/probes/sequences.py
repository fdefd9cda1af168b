"""Claims about recurrence and attention, on the letters of Python's documentation and on small tasks of their own.

A language model here reads windows of letters drawn at random; losses are nats per letter on windows of the last tenth
of the text. Shapes: B windows, T letters, D features, K keys, V letters.
"""

from __future__ import annotations

import math
import time
from functools import cache
from pydoc_data import topics
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.attention.attend import attend
from canon.nn.attention.scores import Kind, Scores
from canon.nn.positions import sinusoids
from canon.nn.recurrence import Recurrent

Values = dict[str, Any]
_LETTERS = 200_000
_AFTER = 8  # letters of a window before the ones that are predicted where the future is cut off


@cache
def letters() -> tuple[Tensor, int]:
    """Ids of the text's letters, and how many there are."""
    text = "\n".join(topics.topics[name] for name in sorted(topics.topics))[:_LETTERS]
    known = sorted(set(text))
    number = {letter: i for i, letter in enumerate(known)}
    return torch.tensor([number[letter] for letter in text]), len(known)


def windows(draws: torch.Generator, count: int, length: int, test: bool = False) -> tuple[Tensor, Tensor]:
    """Letters [B, T] and those that follow them."""
    text, _ = letters()
    cut = len(text) * 9 // 10
    low, high = (cut, len(text)) if test else (0, cut)
    start_B1 = torch.randint(low, high - length - 1, (count, 1), generator=draws)
    place_BT = start_B1 + torch.arange(length)
    return text[place_BT], text[place_BT + 1]


class LetterModel(nn.Module):
    """An embedding, a recurrence in one or both directions, and a linear output."""

    def __init__(self, kind: str, hidden: int, bidirectional: bool = False) -> None:
        super().__init__()
        size = letters()[1]
        self.embedding = nn.Embedding(size, 32)
        self.recurrence = Recurrent(kind, 32, hidden, bidirectional=bidirectional)
        self.output = nn.Linear(hidden * (2 if bidirectional else 1), size)

    def forward(self, token_BT: Tensor) -> Tensor:
        return self.output(self.recurrence(self.embedding(token_BT))[0])


def recurrent_model(
    seed: int,
    kind: str,
    hidden: int,
    steps: int,
    length: int,
    optimizer: Literal["adam", "sgd"] = "adam",
    lr: float = 0.003,
    clip: float = 1.0,
    bidirectional: bool = False,
) -> Values:
    """A language model; bidirectional, it reads the very letters that it is to predict."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    network = LetterModel(kind, hidden, bidirectional)
    params = list(network.parameters())
    chosen = torch.optim.Adam(params, lr=lr) if optimizer == "adam" else torch.optim.SGD(params, lr=lr)
    losses, norms = [], []
    for _ in range(steps):
        token_BT, next_BT = windows(draws, 16, length)
        chosen.zero_grad()
        loss = F.cross_entropy(network(token_BT).flatten(0, 1), next_BT.flatten())
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(params, clip if clip else math.inf)))
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            break
        chosen.step()
    tenth = max(steps // 10, 1)
    curve = [[start + tenth, float(np.mean(losses[start : start + tenth]))] for start in range(0, len(losses), tenth)]
    guess = math.log(letters()[1])
    values: Values = {
        "loss": curve[-1][1],
        "learned": float(curve[-1][1] < 0.9 * guess),
        "exploded": float(not curve[-1][1] < guess),
        "loss by step": [[x, min(y, 100.0)] for x, y in curve if math.isfinite(y)],
    }
    if not bidirectional and values["exploded"] == 0:
        back = _back(network, draws, length)
        far = back[min(32, length - 1)]
        values |= {
            "decades at 32": math.log10(max(far / back[0], 1e-30)),
            "norm": [[i, v / back[0]] for i, v in enumerate(back)],
        }
    if math.isfinite(losses[-1]):
        values |= _with_and_without_future(network, draws, length)
    return values


def _back(network: LetterModel, draws: torch.Generator, length: int) -> list[float]:
    """‖∂L_T/∂x_t‖ of the last letter's loss by the embeddings, back from the last step."""
    token_BT, next_BT = windows(draws, 64, length, test=True)
    x_BTD = network.embedding(token_BT).detach().requires_grad_()
    logits_BTV = network.output(network.recurrence(x_BTD)[0])
    F.cross_entropy(logits_BTV[:, -1], next_BT[:, -1], reduction="sum").backward()
    assert x_BTD.grad is not None
    return [max(value, 1e-30) for value in x_BTD.grad.norm(dim=2).mean(0).flip(0).tolist()]


@torch.no_grad()
def _with_and_without_future(network: LetterModel, draws: torch.Generator, length: int) -> Values:
    """Loss of a letter where the window goes on after it, and where the window ends before it, as in prediction."""
    token_BT, next_BT = windows(draws, 256, length, test=True)
    seen = F.cross_entropy(network(token_BT).flatten(0, 1), next_BT.flatten())
    ends = range(_AFTER, length, max(length // 8, 1))
    cut = [F.cross_entropy(network(token_BT[:, :end])[:, -1], next_BT[:, end - 1]) for end in ends]
    return {"loss with the future": float(seen), "loss without": float(torch.stack(cut).mean())}


def linear_chain(seed: int, radius: float, steps: int) -> Values:
    """‖∂h_T/∂h_t‖ through a linear recurrence whose matrix is `radius` times a rotation: the slope of its logarithm."""
    torch.manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(32, 32, dtype=torch.float64))
    gradient = torch.randn(32, dtype=torch.float64)
    norms = []
    for _ in range(steps):
        norms.append(float(gradient.norm()))
        gradient = radius * (gradient @ turn)
    slope = float(np.polyfit(range(steps), np.log(norms), 1)[0])
    return {"slope": slope, "norm": [[i, norm / norms[0]] for i, norm in enumerate(norms)]}


class Block(nn.Module):
    """Attention and a network of two layers, of which parts can be left out."""

    def __init__(self, dim: int, heads: int, norm: str, mlp: bool, residual: bool) -> None:
        super().__init__()
        self.heads, self.norm, self.residual = heads, norm, residual
        self.projection, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim)) if mlp else None

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self._joined(x_BTD, self._attend, self.norms[0])
        return x_BTD if self.mlp is None else self._joined(x_BTD, self.mlp, self.norms[1])

    def _joined(self, x_BTD: Tensor, part: Any, norm: nn.Module) -> Tensor:
        out_BTD = part(norm(x_BTD) if self.norm == "pre" else x_BTD)
        out_BTD = x_BTD + out_BTD if self.residual else out_BTD
        return out_BTD if self.norm == "pre" else norm(out_BTD)

    def _attend(self, x_BTD: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        query, key, value = self.projection(x_BTD).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        return self.output(attend(query, key, value, causal=True).transpose(1, 2).reshape(B, T, D))


def transformer_model(
    seed: int,
    layers: int,
    dim: int,
    steps: int,
    heads: int = 4,
    norm: str = "pre",
    mlp: bool = True,
    residual: bool = True,
    lr: float = 0.002,
    warmup: int = 20,
    length: int = 48,
) -> Values:
    """A causal language model of letters by a Transformer, and its loss on other text."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    size = letters()[1]
    embedding = nn.Embedding(size, dim)
    blocks = nn.Sequential(*(Block(dim, heads, norm, mlp, residual) for _ in range(layers)))
    output = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, size)) if norm == "pre" else nn.Linear(dim, size)
    place_TD = sinusoids(torch.arange(length), dim)
    params = [*embedding.parameters(), *blocks.parameters(), *output.parameters()]
    optimizer = torch.optim.Adam(params, lr=lr, betas=(0.9, 0.98))

    def loss(test: bool, count: int) -> Tensor:
        token_BT, next_BT = windows(draws, count, length, test)
        return F.cross_entropy(output(blocks(embedding(token_BT) + place_TD)).flatten(0, 1), next_BT.flatten())

    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / max(warmup, 1))
        optimizer.zero_grad()
        now = loss(False, 16)
        now.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        losses.append(float(now.detach()))
    with torch.no_grad():
        test_loss = float(loss(True, 128))
        by_frequency = _loss_by_frequency(draws, length)
    tenth = max(steps // 10, 1)
    return {
        "test loss": test_loss,
        "loss by frequency": by_frequency,
        "loss by step": [
            [start + tenth, float(np.mean(losses[start : start + tenth]))] for start in range(0, steps, tenth)
        ],
    }


def _loss_by_frequency(draws: torch.Generator, length: int) -> float:
    """Of the letters of other text, by how often each occurs in the text that is learned from."""
    text, size = letters()
    share_V = F.normalize((torch.bincount(text[: len(text) * 9 // 10], minlength=size) + 1).double(), p=1, dim=0)
    return float(-share_V.log()[windows(draws, 128, length, test=True)[1]].mean())


def lookup(seed: int, score: Kind, dim: int, steps: int) -> Values:
    """Attention learns which of eight keys a query means, by the value that it returns: queries are turned keys.
    Queries and keys begin with variance 1, as the argument for scaling has it."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(16, 16, generator=draws))
    query_layer, key_layer = nn.Linear(16, dim, bias=False), nn.Linear(16, dim, bias=False)
    for layer in (query_layer, key_layer):
        nn.init.normal_(layer.weight, std=0.25)
    scores = Scores(score, dim, dim)
    params = [*query_layer.parameters(), *key_layer.parameters(), *scores.parameters()]
    optimizer = torch.optim.Adam(params, lr=0.003)
    losses = []
    for _ in range(steps):
        key_BKD = torch.randn(64, 8, 16, generator=draws)
        value_BKV = torch.randn(64, 8, 4, generator=draws)
        optimizer.zero_grad()
        share_BQK = torch.softmax(scores(query_layer(key_BKD @ turn), key_layer(key_BKD)), -1)
        loss = (share_BQK @ value_BKV - value_BKV).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    tenth = max(steps // 10, 1)
    return {
        "loss": float(np.mean(losses[-tenth:])),
        "loss by step": [
            [start + tenth, float(np.mean(losses[start : start + tenth]))] for start in range(0, steps, tenth)
        ],
    }


def score_time(seed: int, score: Kind, dim: int, repeats: int) -> Values:
    """The logarithm, to base 10, of the seconds of scores of 8 × 64 queries and keys: the median of some calls."""
    torch.manual_seed(seed)
    scores = Scores(score, dim, dim)
    x_BKD = torch.randn(8, 64, dim)
    seconds = []
    with torch.no_grad():
        for _ in range(repeats):
            begun = time.perf_counter()
            scores(x_BKD, x_BKD)
            seconds.append(time.perf_counter() - begun)
    return {"log seconds": math.log10(median(seconds))}


class Normed(nn.Module):
    """Batch norm over all places of a padded batch, padding among them, or layer norm of each."""

    def __init__(self, kind: str, dim: int) -> None:
        super().__init__()
        self.norm: nn.Module = nn.LayerNorm(dim) if kind == "layer" else nn.BatchNorm1d(dim)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.norm(x_BTD.flatten(0, 1)).view_as(x_BTD)


def padded_norm(seed: int, norm: str, steps: int) -> Values:
    """Which letter is most frequent in a sequence of 4 to 32 of six letters, padded to the longest of its batch: the
    error on batches of 16 and on single sequences, which have no padding."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    network = nn.ModuleList(
        [
            nn.Embedding(7, 32, padding_idx=0),
            nn.Linear(32, 64),
            Normed(norm, 64),
            nn.Linear(64, 64),
            Normed(norm, 64),
            nn.Linear(64, 6),
        ]
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)

    def batch(count: int) -> tuple[Tensor, Tensor, Tensor]:
        length_B = torch.randint(4, 33, (count,), generator=draws)
        token_BT = torch.randint(1, 7, (count, 32), generator=draws)
        token_BT = (token_BT * (torch.arange(32) < length_B[:, None]))[:, : int(length_B.max())]
        counts_BV = F.one_hot(token_BT, 7).sum(1)[:, 1:]
        return token_BT, length_B, (counts_BV + 1e-3 * torch.arange(6)).argmax(1)

    def logits(token_BT: Tensor, length_B: Tensor) -> Tensor:
        x_BTD = network[0](token_BT)
        for layer in list(network)[1:-1]:
            x_BTD = F.relu(layer(x_BTD)) if isinstance(layer, Normed) else layer(x_BTD)
        real_BT1 = (token_BT > 0)[..., None]
        return network[-1]((x_BTD * real_BT1).sum(1) / length_B[:, None])

    losses = []
    for _ in range(steps):
        token_BT, length_B, label_B = batch(16)
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(token_BT, length_B), label_B)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    network.eval()
    with torch.no_grad():
        parts = [batch(16) for _ in range(30)]
        padded = torch.cat([logits(token, length).argmax(1) != label for token, length, label in parts]).float().mean()
    late = np.array(losses[steps // 2 :])
    return {
        "error": float(padded),
        "jitter": float(np.abs(np.diff(late)).mean()),
        "loss by step": [
            [i, float(np.mean(losses[i : i + steps // 10]))] for i in range(0, steps, max(steps // 10, 1))
        ],
    }
