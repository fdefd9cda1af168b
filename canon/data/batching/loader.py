"""Columns to batches: a seeded order that all processes share, in which arithmetic gives any step.

The examples form one endless stream: permutation 0 of the training set, permutation 1, … Batch `s` is the slice
[s·batch, (s+1)·batch) of that stream, so every batch is full and the position after any step is known without replay.
Each process takes its contiguous share of the batch. Permutations come from Philox keyed by (seed, epoch).
Sentences may be batched by tokens instead (`ByLength`), and windows of a text are read as streams (`Streams`).
Where a task composes its examples (hides words, pairs sentences), it does so here, with numbers keyed by the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.epochs import batches_of, generator
from canon.data.schema import Batched, Columns, Schema, num_examples

Batch = dict[str, Tensor]
# (columns, rows of them, their places in the global batch, random numbers) to the arrays of a batch
Compose = Callable[[Columns, np.ndarray, np.ndarray, Draws], dict[str, np.ndarray]]

_SCALE_AHEAD_BYTES = 512 << 20  # scaling all inputs once is worth so much memory; it changes no number
_RESIDENT_SHARE = 0.25  # of a GPU's free memory that the columns may take
_POOL = 100  # batches whose sentences are sorted by length together: more is less padding, less is more chance


class Examples:
    """Columns as tensors, kept on the device where they fit, with the input scaled as the schema says."""

    def __init__(self, columns: Columns, schema: Schema, device: torch.device, compose: Compose | None = None) -> None:
        self.size = num_examples(columns)
        self.device = device
        self._all, self._compose = columns, compose
        read = {name: c for name, c in columns.items() if c.dtype != object}  # strings are for scoring
        self._columns = {name: torch.from_numpy(c) if isinstance(c, np.ndarray) else c for name, c in read.items()}
        tensors = {name: column for name, column in self._columns.items() if isinstance(column, Tensor)}
        self.in_memory = len(tensors) == len(self._columns)
        if device.type == "cuda" and self.in_memory:
            needed = sum(column.nbytes for column in tensors.values())
            if needed <= _RESIDENT_SHARE * torch.cuda.mem_get_info(device)[0]:
                self._columns = {name: column.to(device) for name, column in tensors.items()}
        trailing = (1,) * (len(schema.shape) - 1)
        self._mean, self._std = (torch.tensor(each, device=device).reshape(-1, *trailing) for each in schema.scaling)
        self._scaled = schema.scaling == ((0.0,), (1.0,))
        inputs = self._columns["input"]
        if not self._scaled and isinstance(inputs, Tensor) and inputs.numel() * 4 <= _SCALE_AHEAD_BYTES:
            self._columns["input"] = self._scale(inputs.to(device))
            self._scaled = True

    @property
    def index_device(self) -> torch.device:
        """Where the rows lie, and so where indices of them belong."""
        columns = [column for column in self._columns.values() if isinstance(column, Tensor)]
        return columns[0].device if self.in_memory else torch.device("cpu")

    @property
    def ready(self) -> bool:
        """Whether taking rows is slicing memory where they are needed: then nothing is gained by taking them ahead."""
        return self.in_memory and self.index_device.type == self.device.type

    def take(self, indices: Tensor, first: int = 0, draws: Draws = EVALUATION) -> Batch:
        """The rows at `indices`, which lie on `index_device`; in training, `first` is the place of the first of them in
        the global batch."""
        if self._compose is not None:
            asked = indices.numpy()
            places = asked if draws is EVALUATION else np.arange(first, first + len(asked))
            arrays = self._compose(self._all, asked, places, draws)
            return {key: self._send(key, array) for key, array in arrays.items()}
        batch: Batch = {}
        for name, column in self._columns.items():
            if isinstance(column, Tensor):
                rows = column.index_select(0, indices)
            elif isinstance(column, Batched):
                batch |= {key: self._send(key, array) for key, array in column.batch(name, indices.numpy()).items()}
                continue
            else:
                rows = torch.from_numpy(column.take(indices.numpy()))
            if rows.device != self.device:
                rows = (rows.pin_memory() if self.device.type == "cuda" else rows).to(self.device, non_blocking=True)
            batch[name] = rows
        if not self._scaled:
            batch["input"] = self._scale(batch["input"])
        return batch

    def _send(self, name: str, rows: np.ndarray) -> Tensor:
        """Tokens to the device; lengths stay on the host, which makes layouts of them."""
        tensor = torch.from_numpy(rows)
        if name.endswith("_lengths"):
            return tensor
        return (tensor.pin_memory() if self.device.type == "cuda" else tensor).to(self.device, non_blocking=True)

    def stream_rows(self, count: int) -> Iterator[Tensor]:
        """All windows once, as `count` streams side by side; towards the end some streams are over."""
        order = Streams(math.ceil(self.size / count) * count, count)
        for position in range(order.steps):
            rows = order.indices(position)
            yield rows[rows < self.size]

    def streams(self, count: int) -> Iterator[Batch]:
        return (self.take(rows) for rows in self.stream_rows(count))

    def in_order(self, size: int) -> Iterator[Batch]:
        """All examples once, in batches."""
        for first in range(0, self.size, size):
            yield self.take(torch.arange(first, min(first + size, self.size), device=self.index_device))

    def _scale(self, inputs: Tensor) -> Tensor:
        return (inputs.float() - self._mean) / self._std


class Order(Protocol):
    """Which rows make the global batch at a position, the same on every process."""

    per_epoch: float  # batches

    def indices(self, position: int) -> Tensor: ...


class Shuffled:
    """Every epoch a permutation; batches run on from one into the next."""

    def __init__(self, size: int, batch: int, seed: int, device: torch.device | None = None) -> None:
        self.size, self.batch, self.seed, self.device = size, batch, seed, device
        self.per_epoch = size / batch
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def indices(self, position: int) -> Tensor:
        start, stop = position * self.batch, (position + 1) * self.batch
        pieces = []
        while start < stop:
            epoch, offset = divmod(start, self.size)
            piece = self._permutation(epoch)[offset : offset + stop - start]
            pieces.append(piece)
            start += len(piece)
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0]

    def _permutation(self, epoch: int) -> Tensor:
        """The order of one epoch; the newest one is kept, where the rows lie."""
        if epoch != self._epoch:
            order = torch.from_numpy(generator(self.seed, epoch).permutation(self.size))
            self._epoch, self._order = epoch, order.to(self.device)
        return self._order


class ByLength:
    """Batches of about `tokens` tokens, sentences of similar length together, composed and ordered again in every
    epoch.

    A permutation is cut into pools, each pool sorted by length, and the whole cut where its running number of tokens
    passes multiples of total / n: n = ⌈total / tokens⌉ batches in every epoch, so positions stay arithmetic.
    """

    def __init__(self, keys: np.ndarray, weights: np.ndarray, tokens: int, seed: int) -> None:
        self.keys, self.weights, self.seed = keys, weights, seed
        self.batches = batches_of(weights, tokens)
        self.per_epoch: float = self.batches
        self._epoch = -1
        self._cut: list[np.ndarray] = []

    def indices(self, position: int) -> Tensor:
        epoch, index = divmod(position, self.batches)
        if epoch != self._epoch:
            self._epoch, self._cut = epoch, self._compose(epoch)
        return torch.from_numpy(self._cut[index])

    def _compose(self, epoch: int) -> list[np.ndarray]:
        draws = generator(self.seed, epoch)
        order = draws.permutation(len(self.keys))
        pools = max(self.batches // _POOL, 1)
        # A stable sort keeps sentences of equal length in the order they were drawn.
        order = np.concatenate(
            [pool[np.argsort(self.keys[pool], kind="stable")] for pool in np.array_split(order, pools)]
        )
        done = np.cumsum(self.weights[order])
        bounds = np.searchsorted(done, done[-1] * np.arange(1, self.batches) / self.batches, side="right")
        # Each batch has a sentence at least, even where one is longer than a batch.
        bounds = np.maximum.accumulate(np.maximum(bounds, np.arange(1, self.batches)) - np.arange(self.batches - 1))
        bounds = np.minimum(bounds + np.arange(self.batches - 1), len(order) - np.arange(self.batches - 1, 0, -1))
        cut = np.split(order, bounds)
        return [cut[i] for i in draws.permutation(self.batches)]


class Streams:
    """A text as `batch` streams side by side: position p is the p-th window of each, and state can be carried on."""

    def __init__(self, size: int, batch: int) -> None:
        self.steps = size // batch
        self.per_epoch: float = self.steps
        self._starts = torch.arange(batch) * self.steps

    def indices(self, position: int) -> Tensor:
        return self._starts + position % self.steps


class Piece(NamedTuple):
    """What a process takes at once, and which rows of the global batch that is."""

    batch: Batch
    share: tuple[int, int, int]  # [start, stop) of total


class Loader:
    """The training batches of one process; `position` (batches served) is its whole state."""

    def __init__(
        self, examples: Examples, order: Order, micro_batch: int = 0, rank: int = 0, world: int = 1, seed: int = 0
    ) -> None:
        self.examples, self.order, self.seed, self.position = examples, order, seed, 0
        self._micro, self._rank, self._world = micro_batch, rank, world
        # Rows made on the fly (image files, sentences) or brought to a GPU are taken one batch ahead.
        self._worker = None if examples.ready else ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[list[Piece]]] | None = None

    @property
    def at_start(self) -> bool:
        """Whether the next batch is the first of an epoch, where streams begin."""
        return self.position % self.order.per_epoch == 0

    @property
    def in_pieces(self) -> bool:
        """Whether a batch comes in several pieces."""
        return len(self._make(0)) > 1

    def preview(self, count: int) -> Iterator[Batch]:
        """The pieces of the first batches of the run, wherever it is now."""
        for position in range(count):
            yield from (piece.batch for piece in self._make(position))

    def next(self) -> list[Piece]:
        """This process's share of the next global batch, in pieces of at most `micro_batch` examples."""
        position, self.position = self.position, self.position + 1
        if self._worker is None:
            return self._make(position)
        ahead, self._ahead = self._ahead, None
        pieces = ahead[1].result() if ahead and ahead[0] == position else self._make(position)
        self._ahead = (position + 1, self._worker.submit(self._make, position + 1))
        return pieces

    def _make(self, position: int) -> list[Piece]:
        rows = self.order.indices(position)
        start, stop = shares(len(rows), self._world)[self._rank]
        if start == stop:  # fewer rows than processes: one of another's, which the loop gives no weight
            start = min(start, len(rows) - 1)
            stop = start + 1
        pieces, draws = [], Draws(self.seed, position)
        for first in range(start, stop, self._micro or stop - start):
            last = min(first + (self._micro or stop), stop)
            pieces.append(Piece(self.examples.take(rows[first:last], first, draws), (first, last, len(rows))))
        return pieces


def shares(total: int, parts: int) -> list[tuple[int, int]]:
    """Contiguous [start, stop) shares of `total` things, as even as can be."""
    bounds = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(bounds))
