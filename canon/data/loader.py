"""Columns to batches: a seeded order that all processes share, in which any step is found by arithmetic.

The examples form one endless stream: permutation 0 of the training set, permutation 1, … Batch `s` is the slice
[s·batch, (s+1)·batch) of that stream, so every batch is full and the position after any step is known without replay.
Each process takes its contiguous share of the batch. Permutations come from Philox keyed by (seed, epoch).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from canon.data.schema import Columns, Schema, num_examples

Batch = dict[str, Tensor]

_SCALE_AHEAD_BYTES = 512 << 20  # scaling all inputs once is worth so much memory; it changes no number
_RESIDENT_SHARE = 0.25  # of a GPU's free memory that the columns may take


class Examples:
    """Columns as tensors, kept on the device where they fit, with the input scaled as the schema says."""

    def __init__(self, columns: Columns, schema: Schema, device: torch.device) -> None:
        self.size = num_examples(columns)
        self.device = device
        self._columns = {name: torch.from_numpy(c) if isinstance(c, np.ndarray) else c for name, c in columns.items()}
        self.in_memory = all(isinstance(column, Tensor) for column in self._columns.values())
        in_memory = [column for column in self._columns.values() if isinstance(column, Tensor)]
        if device.type == "cuda" and self.in_memory:
            needed = sum(column.nbytes for column in in_memory)
            if needed <= _RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
                self._columns = {name: c.to(device) for name, c in self._columns.items() if isinstance(c, Tensor)}
        trailing = (1,) * (len(schema.shape) - 1)
        self._mean = torch.tensor(schema.mean, device=device).reshape(-1, *trailing)
        self._std = torch.tensor(schema.std, device=device).reshape(-1, *trailing)
        self._scaled = schema.mean == (0.0,) and schema.std == (1.0,)
        inputs = self._columns["input"]
        if not self._scaled and isinstance(inputs, Tensor) and inputs.numel() * 4 <= _SCALE_AHEAD_BYTES:
            self._columns["input"] = self._scale(inputs.to(device))
            self._scaled = True

    @property
    def index_device(self) -> torch.device:
        """Where the rows lie, and so where indices of them belong."""
        columns = [column for column in self._columns.values() if isinstance(column, Tensor)]
        return columns[0].device if self.in_memory else torch.device("cpu")

    def take(self, indices: Tensor) -> Batch:
        """The rows at `indices`, which lie on `index_device`."""
        batch: Batch = {}
        for name, column in self._columns.items():
            if isinstance(column, Tensor):
                rows = column.index_select(0, indices)
            else:
                rows = torch.from_numpy(column.take(indices.numpy()))
            batch[name] = rows if rows.device == self.device else rows.to(self.device, non_blocking=True)
        if not self._scaled:
            batch["input"] = self._scale(batch["input"])
        return batch

    def in_order(self, size: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """All examples once, in batches; each process takes its contiguous share."""
        start, stop = shares(self.size, world)[rank]
        for first in range(start, stop, size):
            yield self.take(torch.arange(first, min(first + size, stop), device=self.index_device))

    def _scale(self, inputs: Tensor) -> Tensor:
        return (inputs.float() - self._mean) / self._std


class Loader:
    """The training batches of one process; `position` (batches served) is its whole state."""

    def __init__(
        self,
        examples: Examples,
        batch: int,
        seed: int,
        micro_batch: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.examples = examples
        self.batch = batch
        self.position = 0
        self._seed = seed
        self._share = shares(batch, world)[rank]
        self._micro = micro_batch or batch
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)
        # Rows made on the fly (image files) are made one batch ahead; slicing memory needs no worker.
        self._worker = None if examples.in_memory else ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[list[Batch]]] | None = None

    def next(self) -> list[Batch]:
        """This process's share of the next global batch, in pieces of at most `micro_batch` examples."""
        position, self.position = self.position, self.position + 1
        if self._worker is None:
            return self._make(position)
        ahead, self._ahead = self._ahead, None
        pieces = ahead[1].result() if ahead and ahead[0] == position else self._make(position)
        self._ahead = (position + 1, self._worker.submit(self._make, position + 1))
        return pieces

    def indices(self, position: int) -> Tensor:
        """The global batch at `position`, the same on every process."""
        start, stop = position * self.batch, (position + 1) * self.batch
        epoch, offset = divmod(start, self.examples.size)
        if offset + self.batch <= self.examples.size:
            return self._permutation(epoch)[offset : offset + self.batch]
        pieces = []
        while start < stop:
            epoch, offset = divmod(start, self.examples.size)
            piece = self._permutation(epoch)[offset : offset + stop - start]
            pieces.append(piece)
            start += len(piece)
        return torch.cat(pieces)

    def _make(self, position: int) -> list[Batch]:
        start, stop = self._share
        mine = self.indices(position)[start:stop]
        return [self.examples.take(mine[i : i + self._micro]) for i in range(0, len(mine), self._micro)]

    def _permutation(self, epoch: int) -> Tensor:
        """The order of one epoch; the newest one is kept, where the rows lie."""
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._permute(epoch).to(self.examples.index_device)
        return self._order

    def _permute(self, epoch: int) -> Tensor:
        key = np.array([self._seed, epoch], dtype=np.uint64)
        return torch.from_numpy(np.random.Generator(np.random.Philox(key=key)).permutation(self.examples.size))


def shares(total: int, parts: int) -> list[tuple[int, int]]:
    """Contiguous [start, stop) shares of `total` things, as even as can be."""
    bounds = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))
