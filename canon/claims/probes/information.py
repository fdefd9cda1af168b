"""Claims about estimates that need no network: mutual information, normalisers, two samples, codes of words.

Shapes: N draws or keys, K noise samples, V words.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.stats import hypergeom

from canon.metrics.two_sample import classifier_two_sample_test
from canon.objectives.contrastive import nce
from canon.objectives.settings import Negatives
from canon.systems.words.sampling import huffman

Values = dict[str, Any]


def information_bound(seed: int, correlation: float, batches: int) -> Values:
    """log N − InfoNCE of the best critic, log p(y | x) / p(y), of two normal numbers, whose mutual information is
    −½ log(1 − ρ²); slack is the least that is left of it, over N."""
    draws = torch.Generator().manual_seed(seed)
    information = -0.5 * math.log(1 - correlation**2)
    bounds = []
    for keys in (2, 8, 32, 128, 512):
        losses = []
        for _ in range(max(batches // keys, 4)):
            x_N = torch.randn(keys, generator=draws, dtype=torch.float64)
            y_N = correlation * x_N + math.sqrt(1 - correlation**2) * torch.randn(
                keys, generator=draws, dtype=torch.float64
            )
            spread = 1 - correlation**2
            score_NN = -((y_N[None] - correlation * x_N[:, None]) ** 2) / (2 * spread) + y_N[None] ** 2 / 2
            losses.append(float((score_NN.logsumexp(1) - score_NN.diagonal()).mean()))
        bounds.append([keys, math.log(keys) - float(np.mean(losses))])
    return {
        "slack": min(information - bound for _, bound in bounds),
        "zero": 0.0,
        "left at 512": information - bounds[-1][1],
        "bound": bounds,
    }


def normaliser(seed: int, noise: int, draws: int, steps: int) -> Values:
    """c of the model s(x) = −x²/2 + c of normal data, by NCE with noise of standard deviation 2; the normaliser of
    e^(−x²/2) is √(2π), so c should be −½ log 2π."""
    generator = torch.Generator().manual_seed(seed)
    x_N = torch.randn(draws, generator=generator)
    noise_NK = 2 * torch.randn(draws, noise, generator=generator)

    def log_noise(x: torch.Tensor) -> torch.Tensor:
        return -(x**2) / 8 - math.log(2 * math.sqrt(2 * math.pi))

    c = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam([c], lr=0.1)
    path = []
    for step in range(steps):
        optimizer.zero_grad()
        score_N, score_NK = c - x_N**2 / 2, c - noise_NK**2 / 2
        nce(score_N, score_NK, log_noise(x_N), log_noise(noise_NK)).mean().backward()
        optimizer.step()
        path.append([step, float(c.detach())])
    return {"c": path[-1][1], "path": path}


def two_samples(seed: int, shift: float, points: int) -> Values:
    """Held-out accuracy of a classifier that tells two normal samples in ten dimensions apart; 0.5 is chance."""
    random = np.random.default_rng(seed)
    first, second = random.standard_normal((2, points, 10))
    second[:, 0] += shift
    result = classifier_two_sample_test(first, second, seed=seed)
    return {"accuracy": result.accuracy, "chance": 0.5, "found": float(result.p_value < 0.05)}


def word_cost(seed: int, loss: str, law: str) -> Values:
    """Inner products of a predicted word, by the vocabulary: one for each turn of its Huffman code, or one and those
    with the noise words, whose number is a setting."""
    products = []
    for size in (2**power for power in range(8, 18)):
        counts_V = (
            np.full(size, 1000) if law == "even" else np.maximum(1e7 / np.arange(1, size + 1), 1).astype(np.int64)
        )
        if loss == "hierarchical-softmax":
            products.append([size, float((huffman(counts_V).lengths_V * counts_V).sum() / counts_V.sum())])
        else:
            products.append([size, 1 + Negatives().negatives])
    growth = [(later[1] - earlier[1]) for earlier, later in pairwise(products)]
    return {
        "growth": products[-1][1] - products[0][1],
        "least growth": min(growth),
        "most growth": max(growth),
        "products": products,
    }


def sampled_ranking(seed: int, ranks: list[int], items: int, negatives: int) -> Values:
    """NDCG of one relevant item, 1 / log₂(1 + rank), over some rankings of all items, and what it is expected to be
    where the item is ranked among so many others, drawn without replacement: h of those above it are among them."""
    curve = []
    for drawn in sorted({1, 3, 10, 30, negatives, 300, 1000, 3000, items - 1}):
        above_H = np.arange(drawn + 1)
        gain_H = 1 / np.log2(2 + above_H)
        shares = [hypergeom(items - 1, rank - 1, drawn).pmf(above_H) @ gain_H for rank in ranks]
        curve.append([drawn, float(np.mean(shares))])
    full = float(np.mean([1 / math.log2(1 + rank) for rank in ranks]))
    return {"full": full, "sampled": next(y for x, y in curve if x == negatives), "NDCG": curve}
