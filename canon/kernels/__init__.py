"""Compiled versions of what other rooms can do without them: `cpu` by numba, `cuda` by Triton.

CANON_KERNELS=off runs everything without: parts of nn/ take their torch modules, and the numba kernels that have no
such twin run as the Python that they are written in, with NumPy for vectors. That is slow, tens to hundreds of times,
and needs no numba; it is there to find out whether a kernel is to blame. Numbers differ by rounding, where the order of
additions does. Each kernel's file names its plain version and the test that compares the two.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from canon.errors import CanonError

_CHOICES = {"on": True, "off": False}


def _read() -> bool:
    value = os.environ.get("CANON_KERNELS", "on")
    if value not in _CHOICES:
        raise CanonError(f'The environment variable CANON_KERNELS must be on or off, got "{value}".')
    return _CHOICES[value]


_ENABLED = _read()  # once: what is compiled is decided when a kernel's file is imported


def enabled() -> bool:
    """Whether kernels are used."""
    return _ENABLED


LINE = 16  # floats of a cache line


class Later:
    """A module of kernels, imported when something of it is asked for: many answers need none, and numba takes time."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return vars(import_module(f"{__name__}.{self._name}"))[name]
