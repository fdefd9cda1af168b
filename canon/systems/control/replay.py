"""The newest transitions in a ring, drawn uniformly; a checkpoint of it writes only what is new.

Lin 1992, Self-improving reactive agents based on reinforcement learning, planning and teaching.
Transitions are numbered from 0. The ring has room for `capacity` and one segment more, so that a full segment
does not change until nothing in it can be drawn any more: a checkpoint holds it as a group that never changes.
Deviations: none.
Shapes: B transitions drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from canon.contracts import Transitions, Unchanging

_SEGMENTS, _LEAST = 16, 256  # of a whole ring, and transitions of one at least


class Experience(NamedTuple):
    before: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    terminated: np.ndarray


class Ring:
    def __init__(self, capacity: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.segment = max(-(-capacity // _SEGMENTS), _LEAST)
        self.capacity, self.added = capacity, 0
        self._rows = (-(-capacity // self.segment) + 1) * self.segment
        self._arrays = Experience(
            np.zeros((self._rows, *shape), dtype),
            np.zeros(self._rows, np.int32),
            np.zeros(self._rows, np.float32),
            np.zeros((self._rows, *shape), dtype),
            np.zeros(self._rows, bool),
        )

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, moved: Transitions) -> None:
        places = (self.added + np.arange(len(moved.actions))) % self._rows
        for array, values in zip(self._arrays, moved, strict=False):
            array[places] = values
        self.added += len(moved.actions)

    def draw(self, count: int, random: np.random.Generator) -> Experience:
        return self._at(self.added - 1 - random.integers(len(self), size=count))

    def newest(self, count: int) -> Experience:
        """In order."""
        return self._at(np.arange(max(self.added - count, 0), self.added))

    def _at(self, numbers_B: np.ndarray) -> Experience:
        places_B = numbers_B % self._rows
        return Experience(*(array[places_B] for array in self._arrays))

    def tensors(self) -> dict[str, Mapping[str, Any]]:
        """A group for each whole segment of which something can still be drawn, and one for the rest."""
        first = max(self.added - self.capacity, 0) // self.segment
        last = self.added // self.segment
        groups: dict[str, Mapping[str, Any]] = {
            _name(number): Unchanging(self._segment(number, self.segment)) for number in range(first, last)
        }
        return groups | {"recent": self._segment(last, self.added % self.segment)}

    def _segment(self, number: int, rows: int) -> dict[str, np.ndarray]:
        start = number * self.segment % self._rows
        return {name: array[start : start + rows] for name, array in self._arrays._asdict().items()}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], added: int) -> None:
        self.added = added
        last = added // self.segment
        for number in range(max(added - self.capacity, 0) // self.segment, last + 1):
            kept = tensors["recent" if number == last else _name(number)]
            for name, rows in self._segment(number, added % self.segment if number == last else self.segment).items():
                rows[:] = kept[name]


def _name(number: int) -> str:
    return f"replay-{number:06d}"
