"""Outputs of a batch as those of a split are: arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor


def arrays(outputs: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    return {name: rows.detach().numpy() for name, rows in outputs.items()}
