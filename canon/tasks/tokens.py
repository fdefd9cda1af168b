"""What tasks that predict tokens have in common: sums over tokens to loss, perplexity and accuracy; guesses.

Outputs have one row per sequence: "loss" Σ −log p, "right" tokens that were the likeliest, "count" tokens.
"""

from __future__ import annotations

import math

import numpy as np

from canon import metrics
from canon.tasks.base import Outputs


def scores(outputs: Outputs) -> dict[str, float]:
    """Per token: the mean loss, e^loss, and the share that was the likeliest."""
    loss, right, count = (total(outputs[name]) for name in ("loss", "right", "count"))
    return {"loss": loss / count, "perplexity": perplexity(loss / count), "token_accuracy": right / count}


def rows(outputs: Outputs) -> list[dict[str, float]]:
    """The loss and perplexity of each sequence."""
    losses = (outputs["loss"] / outputs["count"].clip(min=1)).tolist()
    return [{"loss": loss, "perplexity": perplexity(loss)} for loss in losses]


def total(rows: np.ndarray) -> float:
    return float(rows.sum(dtype=np.float64))


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))  # e^700 is near the largest number


def floors(tokens: np.ndarray, size: int) -> dict[str, float]:
    """The loss of predictors that know nothing, or only how often each token comes."""
    shares = np.bincount(tokens, minlength=size) / len(tokens)
    return {"uniform": float(np.log(size)), "token shares": metrics.entropy(shares, base=np.e)}
