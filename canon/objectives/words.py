"""What learners of words and of labels lower in their kernels, as far as a task must know it: what guesses cost.

Formulas are in canon/objectives/table.py; the kernels, canon/kernels/cpu/word2vec.py, fasttext.py and classifier.py,
compute them. Shapes: L labels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LEAST = 1e-300  # a share of 0 adds nothing to an entropy


class OfWords:
    separate = False  # whether every label is decided by itself, so that an example may have several or none

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def floors(self) -> dict[str, float]:
        """The loss of a pair of words where everything is as likely as not."""
        return {}

    def label_floors(self, shares_L: np.ndarray) -> dict[str, float]:
        """The losses of guesses of labels that have these shares of the examples."""
        return {"uniform": math.log(len(shares_L)), "label shares": float(_costs(shares_L).sum())}


class NegativeSampling(OfWords):
    def floors(self) -> dict[str, float]:
        """Each of a pair's outputs costs log 2."""
        return {"even odds": (1 + self.settings.negatives) * math.log(2)}

    def label_floors(self, shares_L: np.ndarray) -> dict[str, float]:
        return {}


class OneVsAll(OfWords):
    separate = True

    def label_floors(self, shares_L: np.ndarray) -> dict[str, float]:
        return {"label shares": float((_costs(shares_L) + _costs(1 - shares_L)).sum())}


def _costs(shares_L: np.ndarray) -> np.ndarray:
    """−p log p."""
    return -shares_L * np.log(np.maximum(shares_L, _LEAST))
