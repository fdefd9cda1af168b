"""A step's forward and backward pass as CUDA graphs: recorded before the first step for a few sizes, then replayed.

A small network keeps an H200 busy for 4 ms of a step whose 600 launches take the host 20 ms or more; a replay takes one
launch. Sizes must repeat, so batches of sequences are filled up: tokens end to end with extra sequences that nothing
reads, targets with IGNORE. `plan` chooses the sizes by the first batches of the run, so that a resumed run has the same
ones. All graphs take turns in one memory, that of the largest, which is recorded first; nothing of it outlives a replay
but the loss. All layouts are in fixed memory (`FixedLayout`), into which each batch's are written, and so are the
gradients; random numbers follow the generator's seed as they do without graphs. What a task does in its loss must not
wait for the device. With CANON_KERNELS=off the passes are run one by one, which tests/training/test_graphs.py compares
with replays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.contracts import IGNORE
from canon.data.batching.loader import Batch
from canon.kernels import enabled
from canon.nn.ragged import FixedLayout
from canon.tasks.base import Turn

SAMPLES = 24  # batches that the sizes are chosen by
_MOST = 8  # sizes
_COMMON, _RARE = 2.6, 6.0  # standard deviations: 99 % of batches are within the first, all but one in 10⁹ the second
_EVEN = 64  # what numbers of tokens are rounded up to
_TARGETS = "target"


@dataclass(frozen=True)
class Size:
    """What batches are filled up to."""

    sequences: int
    rows: dict[str, int]

    def room_for(self, batch: Batch, longest: int) -> bool:
        """Whether a batch fits, with the sequences that take up what is filled in."""
        for name, size in self.rows.items():
            lengths = batch.get(f"{name}_lengths")
            if len(batch[name]) > size:
                return False
            if lengths is not None and len(lengths) + -(-(size - len(batch[name])) // longest) > self.sequences:
                return False
        return True


def plan(batches: Sequence[Batch], longest: int, of_sequences: tuple[str, ...] = ()) -> list[Size]:
    """The sizes for batches like these, smallest first. What has as many rows as the input goes with it; of the rest
    there is room for six standard deviations more than the mean."""
    counts = {name: np.array([len(batch[name]) for batch in batches]) for name in _rows(batches[0])}
    of_input = {name for name, count in counts.items() if (count == counts["input"]).all()}
    low, high = _around(counts["input"], _COMMON)
    bounds = [*np.linspace(low, high, _MOST - 1), _around(counts["input"], _RARE)[1]]
    inputs = sorted({_rounded(bound) for bound in bounds})
    rest = {name: _rounded(_around(count, _RARE)[1]) for name, count in counts.items() if name not in of_input}
    # Sequences to fill up with: from one size of the input to the next, or as far as the other counts spread.
    spread = [more - less for less, more in pairwise([int(counts["input"].min()), *inputs])]
    spread += [2 * (rest[name] - math.floor(counts[name].mean())) for name in _layouts(batches[0]) & rest.keys()]
    lengths = [max(len(batch[f"{name}_lengths"]) for name in _layouts(batch)) for batch in batches]
    sequences = math.ceil(_around(np.array(lengths), _RARE)[1]) + max(-(-most // longest) for most in spread)
    sizes = []
    for size in inputs:
        rows = {**dict.fromkeys(of_input, size), **rest}
        sizes.append(Size(sequences, rows | {name: sequences for name in rows if name in of_sequences}))
    return sizes


def _around(counts: np.ndarray, deviations: float) -> tuple[float, float]:
    """What counts like these stay within; at least what they are."""
    mean, spread = float(counts.mean()), float(counts.std())
    return min(counts.min(), mean - deviations * spread), max(counts.max(), mean + deviations * spread)


def _rounded(count: float) -> int:
    return math.ceil(count / _EVEN) * _EVEN


def _rows(batch: Batch) -> list[str]:
    return [name for name in batch if not name.endswith("_lengths")]


def _layouts(batch: Batch) -> set[str]:
    return {name for name in ("input", _TARGETS) if f"{name}_lengths" in batch}


@dataclass
class Recorded:
    """The memory that batches of one size are written into, and the graph of its pass."""

    batch: dict[str, Any]
    layouts: dict[str, FixedLayout]
    graph: torch.cuda.CUDAGraph | None = None
    loss: Tensor = field(default_factory=lambda: torch.empty(0))
    observed: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, size: Size, batch: Batch, longest: int, device: torch.device, of_sequences: tuple[str, ...]
    ) -> Recorded:
        """Room for batches like this one, with what is filled in alone."""
        rows = {name: batch[name].new_empty((count, *batch[name].shape[1:])) for name, count in size.rows.items()}
        layouts = {
            name: FixedLayout(size.rows[name], size.sequences, longest, device) for name in sorted(_layouts(batch))
        }
        known = cls({**rows, **{f"{name}_layout": layout for name, layout in layouts.items()}}, layouts)
        known.fill({name: rows[:0] for name, rows in batch.items()}, of_sequences)
        return known

    def fill(self, batch: Batch, of_sequences: tuple[str, ...]) -> None:
        for name in _rows(batch):
            held, count = self.batch[name], len(batch[name])
            held[:count].copy_(batch[name])
            held[count:].fill_(IGNORE if name in (_TARGETS, *of_sequences) else 0)
        for name, layout in self.layouts.items():
            layout.fill(batch[f"{name}_lengths"])


class Graphs:
    """`work` (a batch to a loss, after its backward pass) by graphs."""

    def __init__(
        self,
        work: Callable[[Batch], Tensor],
        parameters: list[nn.Parameter],
        longest: int,
        turn: Turn | None = None,
        of_sequences: tuple[str, ...] = (),
        accumulates: bool = False,
    ) -> None:
        """longest: the length that no sequence exceeds. turn: where `work` keeps what it observes. of_sequences: labels
        of which each sequence has one. accumulates: whether a step has several batches, whose gradients add up."""
        self._work, self._parameters, self._longest = work, parameters, longest
        self._turn, self._of_sequences, self._accumulates = turn or Turn(), of_sequences, accumulates
        self._device = parameters[0].device
        self._learning: list[nn.Parameter] = []  # what the loss reaches
        self._gradients: list[Tensor] = []
        self._sizes: list[Size] = []
        self._recorded: list[Recorded] = []

    def prepare(self, batches: Iterable[Batch]) -> None:
        """Records all sizes, of which `batches` are examples; the smaller ones where there is no room for all."""
        if not enabled():
            return
        examples = list(batches)
        self._sizes = plan(examples, self._longest, self._of_sequences)
        state, observed = torch.cuda.get_rng_state(self._device), self._turn.observed
        self._turn.observed = {}
        while self._sizes and not self._have_room(examples):
            torch.cuda.empty_cache()  # of the recordings, which nothing holds any more
            self._sizes.pop()
        self._turn.observed = observed
        torch.cuda.set_rng_state(state, self._device)
        self._point()

    def _have_room(self, examples: list[Batch]) -> bool:
        """Records the sizes if they fit; while an error is handled, its traceback would hold what was recorded."""
        try:
            self._record_all(examples)
        except torch.OutOfMemoryError:
            return False
        return True

    def _record_all(self, examples: list[Batch]) -> None:
        room = (examples[0], self._longest, self._device, self._of_sequences)
        recorded = [Recorded.of(size, *room) for size in self._sizes]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # once without recording, in which libraries make themselves ready
            for known in reversed(recorded):
                self._pass(known.batch)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.empty_cache()
        pool = torch.cuda.graph_pool_handle()
        for known in reversed(recorded):
            known.graph, self._turn.observed = torch.cuda.CUDAGraph(), {}
            with torch.cuda.graph(known.graph, pool=pool, capture_error_mode="thread_local"):
                known.loss = self._pass(known.batch)
            known.observed = self._turn.observed
        self._recorded = recorded

    def begin(self) -> None:
        """A step begins: gradients that add up do so from 0."""
        if self._accumulates and self._gradients:
            torch._foreach_zero_(self._gradients)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss; its gradients are those of the parameters, or are added to them."""
        at = next((i for i, size in enumerate(self._sizes) if size.room_for(batch, self._longest)), None)
        if at is None:
            loss = self._pass(batch)
            self._point()
            return loss
        known = self._recorded[at]
        known.fill(batch, self._of_sequences)
        assert known.graph is not None
        known.graph.replay()
        for name, (total, count) in known.observed.items():
            self._turn.observe(name, total, count)
        return known.loss

    def _pass(self, batch: Batch) -> Tensor:
        for parameter in self._parameters:
            parameter.grad = None
        loss = self._work(batch)
        if not self._gradients:
            self._learning = [parameter for parameter in self._parameters if parameter.grad is not None]
            self._gradients = [torch.zeros_like(parameter) for parameter in self._learning]
        new = [parameter.grad for parameter in self._learning if parameter.grad is not None]
        if self._accumulates:
            torch._foreach_add_(self._gradients, new)
        else:
            torch._foreach_copy_(self._gradients, new)
        for parameter in self._learning:
            parameter.grad = None
        return loss

    def _point(self) -> None:
        """The optimiser finds the gradients at the parameters."""
        for parameter, gradient in zip(self._learning, self._gradients, strict=True):
            parameter.grad = gradient
