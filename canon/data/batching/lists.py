"""Columns of lists: an example is a list of items (the documents of a query), whose values lie end to end.

A batch of lists is {"input": [N, F], "input_lengths": [B], "input_items": [N], …} without padding: lengths stay on the
host, where layouts are made of them (canon.nn.ragged), and items are the numbers of the values in their column, by
which random numbers are drawn. Grades have {"target": [N], "target_lengths": [B], "pair_lengths": [B]}: how many pairs
of a list have unequal grades. A list without such a pair says nothing about order.
Shapes: n lists of a column, B of a batch, N items of all of them, F features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from canon.data.batching.sequences import offsets_of, places_of
from canon.data.schema import Batched


class Lists(Batched):
    """List i is values[offsets[i] : offsets[i + 1]]."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        assert offsets[0] == 0 and offsets[-1] == len(values), "lists lie end to end"
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Self:
        return cls(np.concatenate(lists), offsets_of(np.array([len(each) for each in lists], dtype=np.int64)))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def lengths(self) -> np.ndarray:
        """[n] the items of each list."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> np.ndarray:
        """[N] the list of each item."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    def take(self, indices: np.ndarray) -> Self:
        places, lengths = places_of(self.offsets, indices)
        return type(self)(self.values[places], offsets_of(lengths))

    def slice(self, start: int, stop: int) -> Self:
        """Lists [start, stop), without a copy."""
        offsets = self.offsets[start : stop + 1]
        return type(self)(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        places, lengths = places_of(self.offsets, indices)
        return {name: self.values[places], f"{name}_lengths": lengths, f"{name}_items": places}


class Grades(Lists):
    """Lists of numbers [N] that items are to be ordered by."""

    @cached_property
    def pairs(self) -> np.ndarray:
        """[n] pairs of unequal grades."""
        sizes, rows = self.lengths, self.rows
        changes = np.lexsort((self.values, rows))
        new = np.ones(len(rows), dtype=bool)
        ordered = self.values[changes]
        new[1:] = (ordered[1:] != ordered[:-1]) | (rows[1:] != rows[:-1])  # rows are in order
        alike = np.diff(np.append(np.flatnonzero(new), len(rows)))
        within = np.bincount(rows[new], weights=alike * (alike - 1) // 2, minlength=len(self)).astype(np.int64)
        return sizes * (sizes - 1) // 2 - within

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]:
        places, lengths = places_of(self.offsets, indices)
        return {name: self.values[places], f"{name}_lengths": lengths, "pair_lengths": self.pairs[indices]}
