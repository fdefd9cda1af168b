"""Environments whose states are the cells of a grid: its letters, which way each action goes, and a cell in text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.dynamics import Dynamics

STEPS = {"←": (0, -1), "↓": (1, 0), "→": (0, 1), "↑": (-1, 0), "·": (0, 0)}  # rows down and columns right
_ARROWS = {step: arrow for arrow, step in STEPS.items()}


@dataclass(frozen=True)
class CellGrid:
    rows: int
    cols: int
    letters: str  # of each cell, row by row: S start, G goal, H hole, C cliff, or a space

    def text(self, cell: int) -> str:
        """The grid with one cell in brackets."""
        marked = [f"[{letter}]" if place == cell else f" {letter} " for place, letter in enumerate(self.letters)]
        return "\n".join("".join(marked[row * self.cols : (row + 1) * self.cols]) for row in range(self.rows))


def grid_of(env: EnvironmentCopy) -> CellGrid | None:
    """By a map `desc` (FrozenLake), a `shape` (CliffWalking), or `names` in a row (canon's walk)."""
    inner, size = env.env.unwrapped, env.observation.size
    known = {**{name: value for name, value in vars(type(inner)).items() if name == "names"}, **vars(inner)}
    if not size or env.wrapped:
        return None
    if isinstance(desc := known.get("desc"), np.ndarray) and desc.size == size and desc.ndim == 2:
        letters = "".join(cell.decode() if isinstance(cell, bytes) else str(cell) for cell in desc.ravel())
        return CellGrid(desc.shape[0], desc.shape[1], letters.replace("F", " "))
    if isinstance(shape := known.get("shape"), tuple) and len(shape) == 2 and shape[0] * shape[1] == size:
        return CellGrid(shape[0], shape[1], _lettered(env.model, known.get("_cliff"), size))
    if isinstance(names := known.get("names"), str) and len(names) == size:
        return CellGrid(1, size, names)
    return None


def _lettered(model: Dynamics | None, cliff: object, size: int) -> str:
    letters = np.full(size, " ")
    if model is not None:
        ends = model.ends & (model.probability > 0)
        letters[np.unique(model.after[ends])] = "G"
        letters[model.start > 0] = "S"
    if isinstance(cliff, np.ndarray) and cliff.size == size:
        letters[cliff.ravel().astype(bool)] = "C"
    return "".join(letters.tolist())


def arrows_of(model: Dynamics, grid: CellGrid) -> list[str]:
    """Which way each action goes, on average over all cells."""
    place = np.stack(np.divmod(np.arange(model.num_states), grid.cols), axis=1)
    moved = place[model.after] - place[:, None, None, :]  # [S, A, K, 2]
    near = (np.abs(moved).sum(axis=3) <= 1) & ~model.ends  # what jumps is no step
    mean = (np.where(near, model.probability, 0)[..., None] * moved).sum(axis=(0, 2))  # [A, 2]
    arrows = []
    for down, right in mean.tolist():
        larger = (np.sign(down), 0) if abs(down) > abs(right) else (0, np.sign(right))
        arrows.append(_ARROWS[int(larger[0]), int(larger[1])])
    return arrows
