"""What the opponents' scripts share: the moments of their steps, printed at the end for benchmarks/end_to_end.py."""

# mypy: ignore-errors

from __future__ import annotations

import json
import time

import torch


class Clock:
    """Marks each step; `report` prints steps per second of the second half, and the peak of CUDA's memory."""

    def __init__(self) -> None:
        self._marks = [time.perf_counter()]

    def tick(self) -> None:
        self._marks.append(time.perf_counter())

    def report(self, **scores: float) -> None:
        steps = len(self._marks) - 1
        half = steps // 2
        rate = (steps - half) / max(self._marks[-1] - self._marks[half], 1e-9)
        memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        print("CLOCK " + json.dumps({"steps": steps, "steps_per_second": rate, "cuda_memory": memory, **scores}))
