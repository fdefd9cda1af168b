"""What to say where a step needs more memory than the device has: how much it needs, and a setting that fits.

The setting is tried, not guessed: passes over ever smaller pieces of the batch, until one fits beside what the
optimiser will keep. A batch in pieces makes the same step, so that the run goes on from its last checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from canon.errors import TooLarge, is_out_of_memory
from canon.nn.limits import gigabytes, memory


def too_large(device: torch.device, rows: int, divisible: bool, attempt: Callable[[int], None]) -> TooLarge:
    """For a step on `rows` examples at once. attempt: a pass over so many of them, which leaves nothing."""
    has = f"{device} has {gigabytes(memory(device))}"
    size = rows
    while divisible and size > 1:
        size = math.ceil(size / 2)
        try:
            needed = _bytes_of(device, lambda size=size: attempt(size), rows / size)  # type: ignore[misc]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            continue
        needs = f"about {gigabytes(needed)}" if needed else "more memory than there is"
        setting = f"train.micro_batch={size}"
        return TooLarge(
            f"A step on {rows:,} examples at once needs {needs}, and {has}; {setting} fits and learns the same.",
            setting,
        )
    if divisible:
        return TooLarge(f"A step on one example needs more memory than {has}; choose a smaller network (system.…).")
    return TooLarge(
        f"A step on {rows:,} examples, which must stay together, needs more memory than there is ({has}); choose a "
        "smaller train.batch."
    )


def _bytes_of(device: torch.device, attempt: Callable[[], None], times: float) -> int:
    """The most bytes that `times` as much as an attempt would take; 0 where the device does not count them."""
    if device.type != "cuda":
        attempt()
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    attempt()
    return int(before + (torch.cuda.max_memory_allocated(device) - before) * times)
