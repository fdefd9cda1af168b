"""What tasks that predict tokens have in common: sums over tokens to loss, perplexity and accuracy; guesses.

Outputs have one row per sequence: "loss" Σ −log p, "right" tokens that were the likeliest, "count" tokens.
"""

from __future__ import annotations

import math

import numpy as np

from canon import metrics
from canon.data.batching.passages import Passages
from canon.data.batching.sequences import Uneven, Windows
from canon.data.schema import Columns
from canon.tasks.base import Outputs

_SAMPLE = 1 << 24  # tokens that are counted


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


def of_split(columns: Columns) -> np.ndarray | None:
    """The tokens that a split asks for."""
    targets = columns.get("target", columns.get("input"))
    targets = targets.tokens if isinstance(targets, Windows | Uneven | Passages) else targets
    return targets if isinstance(targets, np.ndarray) and len(targets) else None


def shortfall(outputs: Outputs, asked: np.ndarray, known: np.ndarray, size: int) -> str:
    """asked, known: tokens of the split and of training; each token's share in training is one more than counted."""
    counts = np.bincount(known[:_SAMPLE], minlength=size) + 1.0
    floor = float(-np.log(counts / counts.sum())[asked[:_SAMPLE]].mean())
    reached = total(outputs["loss"]) / max(total(outputs["count"]), 1)
    said = f"no better than how often each token comes: loss {reached:.4f} against {floor:.4f}"
    return said if reached >= floor else ""


def floors(tokens: np.ndarray, size: int) -> dict[str, float]:
    """The loss of predictors that know nothing, or only how often each token comes."""
    shares = np.bincount(tokens, minlength=size) / len(tokens)
    return {"uniform": float(np.log(size)), "token shares": metrics.entropy(shares, base=np.e)}
