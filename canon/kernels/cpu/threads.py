"""Threads of our own for compiled kernels, which let go of Python's lock, while torch's stand aside.

torch's threads go on asking for work for some milliseconds after every operation that was shared among them, and keep
processors busy that a kernel's threads need: on two cores, sharing a step of decoding then takes as long as not sharing
it. So where a loop calls a kernel again and again, torch works in one thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from threading import Lock

import torch

from canon.kernels import enabled

_lock = Lock()
_loops = 0  # that torch stands aside for, in all threads of Python
_before = 1  # torch's number of threads before the first of them


@contextmanager
def own_threads(wanted: bool = True) -> Iterator[None]:
    """torch works in one thread within, if `wanted`."""
    global _loops, _before
    if not wanted:
        yield
        return
    with _lock:
        if _loops == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _loops += 1
    try:
        yield
    finally:
        with _lock:
            _loops -= 1
            if _loops == 0:
                torch.set_num_threads(_before)


def has_kernels() -> bool:
    """Whether numba is there to compile kernels with, and CANON_KERNELS does not turn them off."""
    return enabled() and _has_numba()


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None


def threads() -> int:
    """As many as torch had before it stood aside; one where it does not."""
    return _before if _loops else 1


def share(work: Callable[[int, int], None], size: int, unit: int) -> None:
    """work(first, count) for parts of `size` that are whole units, one for each thread."""
    units = size // unit
    number = min(threads(), units)
    if number < 2:
        work(0, size)
        return
    bounds = [units * i // number * unit for i in range(number)] + [size]
    parts = [(first, last - first) for first, last in pairwise(bounds)]
    others = [_pool(number - 1).submit(work, *part) for part in parts[1:]]
    work(*parts[0])
    for part, other in zip(parts[1:], others, strict=True):
        if other.cancel():  # no thread has come to it yet
            work(*part)
        else:
            other.result()


@cache
def _pool(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "canon")
