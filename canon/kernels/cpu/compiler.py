"""What all numba kernels share: the compiler, with a cache that knows when any of them has changed, and random bits.

numba keeps what it compiled beside a kernel's file and looks at that file alone: a kernel that calls one of another
file would go on calling the old one. Here the cache is a folder named after the contents of all files with kernels, so
that a version is compiled once; versions that nobody has used for a while leave the cache.
With CANON_KERNELS=off `njit` and `part` leave a function as it is: its source is its plain version. So kernels are
written for both: numbers that may not stay as narrow as an array has them are widened where they are read, and sums of
float64 begin with one, since NumPy's scalars, unlike numba's, take the width of the other operand over Python's.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError
from canon.kernels import enabled
from canon.storage import cache_folder

_KEPT, _RESTING = 3, 600  # other versions that stay, and seconds for which one was not used that leaves
_VERSION = re.compile(r"[0-9a-f]{16}|\.[0-9a-f]{16}\.leaving")


def _compiler() -> tuple[Any, Any]:
    """numba's njit and register_jitable."""
    try:
        import numba
        from numba.extending import register_jitable
    except ModuleNotFoundError:
        raise CanonError(
            'Kernels need numba; install it with pip install "deepcanon[words]", or set CANON_KERNELS=off in the '
            "environment to do without, slowly."
        ) from None
    _use_own_cache(numba.config)
    _announce()
    return numba.njit, register_jitable


def _announce() -> None:
    """Says on a terminal that kernels are compiled, where they are: it takes seconds, and is done once."""
    from numba.core import event

    class Notice(event.Listener):
        def on_start(self, _event: Any) -> None:
            if sys.stderr.isatty() and not printed:
                printed.append(True)
                print("Compiling kernels for this processor; they are kept for the next time.", file=sys.stderr)

        def on_end(self, _event: Any) -> None:
            pass

    printed: list[bool] = []
    event.register("numba:compile", Notice())


def _use_own_cache(settings: Any) -> None:
    digest = hashlib.sha256(b"\0".join(_sources())).hexdigest()[:16]
    folder = Path(settings.CACHE_DIR or cache_folder() / "kernels") / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # used now, as `purge` sees
    except OSError:
        return  # numba then finds a place of its own
    settings.CACHE_DIR = str(folder)
    purge(folder)


def purge(current: Path) -> None:
    """Removes other versions beside `current`, but for the few used last. A process that still runs one of them
    compiles again what it has not loaded yet: numba takes a file that is missing for one that was never there."""
    versions = []
    with suppress(OSError):
        for path in current.parent.iterdir():
            if path != current and _VERSION.fullmatch(path.name) and not path.is_symlink():
                with suppress(OSError):  # another process was first
                    versions.append((path.stat().st_mtime, path))
    versions.sort(reverse=True)
    for used, path in versions[_KEPT:]:
        if time.time() - used > _RESTING:
            leaving = path if path.name.startswith(".") else path.with_name(f".{path.name}.leaving")
            with suppress(OSError):  # taken away whole, so that nobody finds half a version
                if leaving != path:
                    path.rename(leaving)
                shutil.rmtree(leaving, ignore_errors=True)


def _sources() -> list[bytes]:
    """The text of every file that speaks of numba."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))
    return [text for text in texts if b"numba" in text or b"canon.kernels.cpu.compiler" in text]


def _uncompiled(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    """`njit` that compiles nothing; numbers of 64 bits run over without a warning, as they do in compiled code."""
    if function is None:
        return _uncompiled

    @wraps(function)
    def work(*given: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*given)

    return work


njit, register_jitable = _compiler() if enabled() else (_uncompiled, _uncompiled)
# A part of kernels allocates nothing; without reference counts two threads have no counter to fight over.
part = njit(nogil=True, boundscheck=False, error_model="numpy", forceinline=True, _nrt=False)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: from one state to the next
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


@part
def mixed(x):
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): 64 bits that look random from any 64."""
    x = (x ^ (x >> _30)) * _FIRST
    x = (x ^ (x >> _27)) * _SECOND
    return x ^ (x >> _31)
