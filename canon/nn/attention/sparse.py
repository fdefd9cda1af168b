"""Which layers of a Transformer see only a band: all, every other one, or none.

Brown et al. 2020, GPT-3 (arXiv:2005.14165), section 2.1: alternating dense and locally banded layers, after Child et
al. 2019, Sparse Transformer (1904.10509). `windows` gives each layer its window; the kernel is banded.py.
Deviations: the band alone, without Child et al.'s strided part, as GPT-3's text has it.
"""

from __future__ import annotations

from typing import Literal

from canon.errors import CanonError

Sparse = Literal["none", "banded", "alternating"]


def windows(sparse: Sparse, num_layers: int, window: int) -> list[int]:
    """The window of each layer, 0 for one that sees everything; the first of an alternating stack does."""
    if sparse == "none":
        return [0] * num_layers
    if window < 1:
        raise CanonError(f'system.window must be a positive whole number for system.sparse = "{sparse}", got {window}.')
    return [0 if sparse == "alternating" and layer % 2 == 0 else window for layer in range(num_layers)]
