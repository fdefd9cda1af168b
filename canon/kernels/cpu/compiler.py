"""What all kernels share: numba's compiler, with a cache that knows when any of them has changed, and random bits.

numba keeps what it compiled beside a kernel's file and looks at that file alone: a kernel that calls one of another
file would go on calling the old one. Here the cache is a folder named after the contents of all files with kernels.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError

try:
    import numba
except ModuleNotFoundError:
    raise CanonError('Word vectors need numba; install it with pip install "deepcanon[words]".') from None


def _sources() -> list[bytes]:
    """The text of every file that speaks of numba."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))
    return [text for text in texts if b"numba" in text or b"canon.kernels.cpu.compiler" in text]


def _use_own_cache() -> None:
    digest = hashlib.sha256(b"\0".join(_sources())).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "canon" / "kernels"
    settings: Any = numba.config
    folder = Path(settings.CACHE_DIR or cache) / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # numba then finds a place of its own
    settings.CACHE_DIR = str(folder)


_use_own_cache()
njit: Any = numba.njit
# A part of kernels allocates nothing; without reference counts two threads have no counter to fight over.
part = njit(nogil=True, boundscheck=False, error_model="numpy", forceinline=True, _nrt=False)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: from one state to the next
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


@part
def mixed(x: Any) -> Any:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): 64 bits that look random from any 64."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)
