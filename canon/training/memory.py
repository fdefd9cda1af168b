"""What to say where a step needs more memory than the device has: how much it needs, and a setting that fits.

The setting is tried, not guessed: passes over ever smaller pieces of the batch, until one fits beside what the
optimiser will keep. A batch in pieces makes the same step, so that the run goes on from its last checkpoint.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from canon.errors import TooLarge, is_out_of_memory
from canon.nn.limits import address_space, gigabytes, memory

_PAGES = Path("/proc/self/statm")  # reserved, resident, …
_WATCHED = 0.002  # seconds


def too_large(
    device: torch.device, rows: int, divisible: bool, attempt: Callable[[int], None], alone: bool = True
) -> TooLarge:
    """For a step on `rows` examples at once. attempt: a pass over so many of them, which leaves nothing; none is tried
    where this process is not alone, since others wait for this one's gradients, and not for an attempt's."""
    there = memory(device)
    owner = "this process may have" if device.type == "cpu" and there == address_space() else f"{device} has"
    has = f"{owner} {gigabytes(there)}"
    size = rows
    if divisible and rows > 1 and not alone:
        setting = f"train.micro_batch={math.ceil(rows / 2)}"
        return TooLarge(
            f"A step on {rows:,} examples at once needs more memory than there is ({has}); {setting} needs about half "
            "and learns the same.",
            setting,
        )
    while divisible and size > 1:
        size = math.ceil(size / 2)
        try:
            needed = _bytes_of(device, lambda size=size: attempt(size), rows / size)  # type: ignore[misc]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            continue
        needs = f"about {gigabytes(needed)}" if needed > there else "more memory than there is"
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
    """The most bytes that `times` as much as an attempt would take; 0 where nothing counts them."""
    if device.type != "cuda":
        return _bytes_of_process(attempt, times)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    attempt()
    return int(before + (torch.cuda.max_memory_allocated(device) - before) * times)


def _bytes_of_process(attempt: Callable[[], None], times: float) -> int:
    """The same of this process: of the memory that it reserves where that is limited, else of what is resident."""
    if not _PAGES.exists():
        attempt()
        return 0
    kind = 0 if memory() == address_space() else 1

    def now() -> int:
        return int(_PAGES.read_text().split()[kind]) * os.sysconf("SC_PAGE_SIZE")

    before, ended = now(), threading.Event()
    peak = before

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_WATCHED):
            peak = max(peak, now())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        attempt()
    finally:
        ended.set()
        watcher.join()
    return int(before + (max(peak, now()) - before) * times)
