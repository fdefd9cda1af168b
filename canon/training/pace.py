"""How fast a run goes: examples per second, share of the device's peak, memory, seconds over all sittings."""

from __future__ import annotations

import time

from canon.config import Table
from canon.contracts import Learner, World
from canon.training.world import peak_memory, peak_rate

_RECENT = 10.0  # seconds


class Pace:
    """A clock that starts now, at `step`, after `seconds` of earlier sittings."""

    def __init__(self, learner: Learner, batch: int, world: World, step: int, seconds: float) -> None:
        peak = peak_rate(world) if learner.flops_per_example else 0.0
        # The share of the device's best rate that one example per second takes.
        self._share = learner.flops_per_example / peak if peak else 0.0
        self._learner, self._batch, self._world = learner, batch, world
        self._first, self._before = step, seconds
        self._begun = time.perf_counter()
        self._marks = [(self._begun, step)]  # moments of the last seconds

    def seconds(self) -> float:
        """Of training, over all sittings."""
        return self._before + time.perf_counter() - self._begun

    def rate(self, step: int) -> float:
        """Examples per second in this sitting."""
        return (step - self._first) * self._batch / max(time.perf_counter() - self._begun, 1e-9)

    def recent(self, step: int) -> float:
        """Examples per second in the last seconds: on a busy machine it differs from that of the whole sitting."""
        now = time.perf_counter()
        while len(self._marks) > 1 and self._marks[1][0] <= now - _RECENT:
            self._marks.pop(0)
        (before, first), newest = self._marks[0], self._marks[-1][0]
        if now - newest >= 1:
            self._marks.append((now, step))
        return (step - first) * self._batch / max(now - before, 1e-9)

    def cost(self, step: int, seconds: float) -> Table:
        """The cost in result.json; `seconds` of training."""
        return {
            "seconds": round(seconds, 3),
            "examples": step * self._batch,
            "examples_per_second": round(self.rate(step), 1),
            "parameters": self._learner.num_parameters,
            "memory_bytes": peak_memory(self._world),
            "device": self._world.kind,
            "processes": self._world.size,
        }

    def timing(self, step: int) -> dict[str, float]:
        """A line of timing.jsonl."""
        rate = self.rate(step)
        return {
            "step": step,
            "seconds": round(self.seconds(), 3),
            "examples_per_second": round(rate, 1),
            "share_of_peak": rate * self._share,
            "memory_bytes": peak_memory(self._world),
        }

    def text(self, rate: float) -> str:
        """Examples, tokens or words per second; share of the device's peak; memory."""
        parts, unit = self._learner.unit
        share = f", {rate * self._share:.1%} of peak" if self._share else ""
        return f"{rate * parts:,.0f} {unit}/s{share}, {peak_memory(self._world) / 2**20:,.0f} MB"
