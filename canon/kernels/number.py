"""How many threads our own work takes: as many as torch's where torch is loaded, so that one number holds for both."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_asked = 0


def threads() -> int:
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else _asked or most()


def set_threads(number: int) -> None:
    """0: as many as there are cores."""
    global _asked
    _asked = number
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(number or most())


def most() -> int:
    """As torch counts: OMP_NUM_THREADS, else the cores that this process may use."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if (given := os.environ.get(name, "").partition(",")[0].strip()).isdigit() and int(given):
            return int(given)
    try:
        ours = os.sched_getaffinity(0)
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
    return len({_core(processor) for processor in ours})


def _core(processor: int) -> str:
    """What the threads of one core share."""
    try:
        return Path(_SIBLINGS.format(processor)).read_text()
    except OSError:
        return str(processor)
