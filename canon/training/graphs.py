"""A step's forward and backward pass as CUDA graphs: recorded once for each shape of batch, then replayed.

A small network keeps an H200 busy for 4 ms of a step whose 600 launches take the host 20 ms or more; a replay takes one
launch. Shapes must repeat, so batches of sequences are filled up: tokens end to end to the next multiple of 512 with
extra sequences that nothing reads, targets with IGNORE. All layouts are in fixed memory (`FixedLayout`), into which
each batch's are written. Gradients are added into tensors that stay; random numbers follow the generator's seed as
they do without graphs. What a task does in its loss must not wait for the device. With CANON_KERNELS=off the
passes are run one by one, which tests/training/test_graphs.py compares with replays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.contracts import IGNORE
from canon.data.batching.loader import Batch
from canon.kernels import enabled
from canon.nn.ragged import FixedLayout
from canon.tasks.base import Turn

_TOKENS = 512  # what numbers of tokens are rounded up to
_SEQUENCES = 128
_MOST = 64  # graphs that are kept; shapes beyond are run without
_WARM = 2  # runs before the first recording, in which libraries make themselves ready


class Filled:
    """A batch of a shape that repeats: `tokens` are its tensors filled up, `lengths` those of its sequences."""

    def __init__(self, batch: Batch, longest: int, of_sequences: tuple[str, ...] = ()) -> None:
        self.lengths = {name: batch[f"{name}_lengths"] for name in ("input", "target") if f"{name}_lengths" in batch}
        rows = {name: tokens for name, tokens in batch.items() if not name.endswith("_lengths")}
        sizes = {name: len(tokens) + -len(tokens) % _TOKENS for name, tokens in rows.items()}
        # Room for the sequences that take up what was filled in.
        spare = max(-(-(sizes[name] - len(rows[name])) // longest) for name in self.lengths)
        self.sequences = max(len(lengths) for lengths in self.lengths.values()) + spare
        self.sequences += -self.sequences % _SEQUENCES
        sizes |= {name: self.sequences for name in rows if name in of_sequences}
        self.tokens = {
            name: F.pad(
                tokens, (0, sizes[name] - len(tokens)), value=IGNORE if name in ("target", *of_sequences) else 0
            )
            for name, tokens in rows.items()
        }
        self.key = (self.sequences, *sizes.values())
        self._longest = longest

    def layouts(self, device: torch.device) -> dict[str, FixedLayout]:
        layouts = {}
        for name, lengths in self.lengths.items():
            layouts[name] = FixedLayout(len(self.tokens[name]), self.sequences, self._longest, device)
            layouts[name].fill(lengths)
        return layouts


class RecordedStep:
    """One graph with the memory that it reads and writes."""

    def __init__(self, tokens: dict[str, Tensor], layouts: dict[str, FixedLayout]) -> None:
        self.layouts = layouts
        self.batch: dict[str, Any] = {**tokens, **{f"{name}_layout": layout for name, layout in layouts.items()}}
        self.graph = torch.cuda.CUDAGraph()
        self.loss: Tensor = torch.empty(0)
        self.observed: dict[str, tuple[Any, Any]] = {}


class Graphs:
    """`work` (a batch to a loss, after its backward pass) by graphs."""

    def __init__(
        self,
        work: Callable[[Batch], Tensor],
        parameters: list[nn.Parameter],
        longest: int,
        turn: Turn | None = None,
        of_sequences: tuple[str, ...] = (),
    ) -> None:
        """longest: the length that no sequence exceeds. turn: where `work` keeps what it observes. of_sequences: labels
        of which each sequence has one."""
        self._work, self._parameters, self._longest = work, parameters, longest
        self._turn, self._of_sequences = turn or Turn(), of_sequences
        self._device = parameters[0].device
        self._gradients: list[Tensor] = []
        self._pool = torch.cuda.graph_pool_handle()
        self._known: dict[tuple[Any, ...], RecordedStep] = {}

    def clear(self) -> None:
        """All gradients become 0, where they are."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if gradients:
            torch._foreach_zero_(gradients)

    def __call__(self, batch: Batch) -> Tensor:
        """The loss; gradients are added to those that are there."""
        if not enabled():
            return self._work(batch)
        filled = Filled(batch, self._longest, self._of_sequences)
        known = self._known.get(filled.key)
        if known is None:
            if len(self._known) == _MOST:
                return self._work(batch)
            known = self._known[filled.key] = RecordedStep(filled.tokens, filled.layouts(self._device))
            self._record(known)
        else:
            for name, tokens in filled.tokens.items():
                known.batch[name].copy_(tokens)
            for name, lengths in filled.lengths.items():
                known.layouts[name].fill(lengths)
        known.graph.replay()
        for name, (total, count) in known.observed.items():
            self._turn.observe(name, total, count)
        return known.loss

    def _record(self, known: RecordedStep) -> None:
        state = torch.cuda.get_rng_state(self._device)
        observed = dict(self._turn.observed)
        before = [gradient.clone() for gradient in self._gradients]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM):
                self._work(known.batch)
        torch.cuda.current_stream().wait_stream(stream)
        if not self._gradients:  # what the loss reaches; the rest has none, as outside
            self._gradients = [p.grad for p in self._parameters if p.grad is not None]
            before = [torch.zeros_like(gradient) for gradient in self._gradients]
        self._turn.observed = {}
        with torch.cuda.graph(known.graph, pool=self._pool, capture_error_mode="thread_local"):
            known.loss = self._work(known.batch)
        known.observed, self._turn.observed = self._turn.observed, observed
        torch._foreach_copy_(self._gradients, before)
        torch.cuda.set_rng_state(state, self._device)
