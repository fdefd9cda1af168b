"""The outputs of a network for all rows of a split: a part at a time, spread over the processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from canon.contracts import World
from canon.data.batching.loader import Examples, shares
from canon.tasks.base import Carries, OfLists, Outputs, Training, Turn
from canon.training.devices import shared_generator

_STREAMS = 16  # of a text: one would be exact from its first word to its last, and much slower


class Evaluation:
    """network: in evaluation mode while this is used, and whole where the task needs that."""

    def __init__(
        self, network: nn.Module, task: Training, world: World, dtype: torch.dtype, pause: Callable[[], None]
    ) -> None:
        self._network, self._task, self._world, self._dtype, self._pause = network, task, world, dtype, pause

    def outputs(self, examples: Examples, sharded: bool, careful: bool) -> Outputs:
        task, world = self._task, self._world
        carries = isinstance(task, Carries)
        # Shards of one network must go through it together, so then every process does all rows; so it does of a text,
        # and where there are fewer rows than processes.
        spread = world.size > 1 and not sharded and not carries and examples.size >= world.size
        rank, size = (world.rank, world.size) if spread else (0, 1)
        all_shares = shares(examples.size, size)
        first, stop = all_shares[rank]
        if carries:
            parts: Iterable[Tensor] = examples.stream_rows(min(_STREAMS, examples.size))
        else:
            rows = torch.arange(first, stop, device=examples.index_device)
            turns = math.ceil(max(end - start for start, end in all_shares) / task.at_once)  # of every process
            parts = [rows[i * task.at_once :][: task.at_once] for i in range(turns)]
        merged = self._merged(examples, parts, first, stop, Turn(careful=careful))
        return {name: (world.gather(rows) if spread else rows).numpy() for name, rows in merged.items()}

    def _merged(
        self, examples: Examples, parts: Iterable[Tensor], first: int, stop: int, turn: Turn
    ) -> dict[str, Tensor]:
        """The outputs of rows [first, stop), a part at a time. Filled as they come, each row in its place: a text is
        read as streams side by side, and small outputs kept between large logits would leave holes in memory. Outputs
        of lists have as many rows as there are items, which lie in order."""
        task, device = self._task, self._world.device
        merged: dict[str, Tensor] = {}
        pieces: dict[str, list[Tensor]] = {}
        start = first
        for rows in parts:
            self._pause()
            if not len(rows):
                continue
            batch = examples.take(rows)
            end = min(start + task.at_once, stop)
            turn.generator = shared_generator(0, 0, device)  # every run is judged with the same noise
            turn.share, start = (start, end, examples.size), end
            with torch.autocast(device.type, self._dtype, enabled=self._dtype != torch.float32):
                outputs = task.run(self._network, batch, turn)
            if isinstance(task, OfLists):
                for name, values in outputs.items():
                    pieces.setdefault(name, []).append(values.float().cpu())
                continue
            places = (rows - first).cpu()
            for name, values in outputs.items():
                if name not in merged:
                    merged[name] = torch.empty((stop - first, *values.shape[1:]))
                merged[name][places] = values.float().cpu()
        return merged or {name: torch.cat(parts) for name, parts in pieces.items()}
