"""Named sets drawn from mixtures of Gaussians whose density is known: what a generator should give is known exactly.

`gaussian-ring` is the ring of Metz et al. 2017, Unrolled generative adversarial networks, appendix A: eight modes at
distance 2 from the origin, σ = 0.02. Each set is drawn once, from a fixed seed; its rows are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np

from canon.data.formats.tables import Table
from canon.data.source import TableSource, array_record

ROWS = 20_000
_REACH = 3  # standard deviations from a centre that still belong to the mode


@dataclass(frozen=True)
class Mixture:
    columns: tuple[str, ...]
    centers: tuple[tuple[float, ...], ...]  # one per mode
    stds: tuple[float, ...]  # σ of each mode, the same in every direction
    shares: tuple[float, ...]

    def draw(self, rows: int, seed: int = 0) -> np.ndarray:
        """float64 [rows, columns]; RandomState's stream is promised not to change."""
        random = np.random.RandomState(seed)
        mode = random.choice(len(self.shares), rows, p=self.shares)
        return np.array(self.centers)[mode] + np.array(self.stds)[mode, None] * random.randn(rows, len(self.columns))

    def share_of_modes(self, points: np.ndarray) -> np.ndarray:
        """The share of points [N, columns] within 3σ of each centre; a point counts for its nearest in σ only."""
        distance_NM = np.linalg.norm(points[:, None] - np.array(self.centers), axis=2) / np.array(self.stds)
        near = distance_NM.min(axis=1) <= _REACH
        counts = np.bincount(distance_NM.argmin(axis=1)[near], minlength=len(self.centers))
        return counts / max(len(points), 1)


MIXTURES = {
    "gaussian-mixture": Mixture(("mixture_x",), ((-3.0,), (0.0,), (2.5,)), (0.6, 0.4, 0.8), (0.3, 0.3, 0.4)),
    "gaussian-ring": Mixture(
        ("ring_x", "ring_y"),
        tuple((2 * cos(2 * pi * mode / 8), 2 * sin(2 * pi * mode / 8)) for mode in range(8)),
        (0.02,) * 8,
        (1 / 8,) * 8,
    ),
}


def read_mixture(name: str) -> TableSource:
    mixture = MIXTURES[name]
    rows = mixture.draw(ROWS)
    cells = {column: rows[:, index] for index, column in enumerate(mixture.columns)}
    record = array_record(f"canon {name}", rows)
    return TableSource(name, {"train": Table(name, cells)}, (record,), test=0.2)


def mixture_of(columns: Sequence[str]) -> Mixture | None:
    """The mixture that a table was drawn from; its columns have names that no other table is likely to have."""
    return next((mixture for mixture in MIXTURES.values() if mixture.columns == tuple(columns)), None)
