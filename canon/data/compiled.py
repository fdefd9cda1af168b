"""numba's compiler for the kernels of all rooms, with a cache that knows when any of them has changed.

numba keeps what it compiled beside a kernel's file and looks at that file alone: a kernel that calls one of another
file would go on calling the old one. Here the cache is a folder named after the contents of all files with kernels.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from canon.errors import CanonError

try:
    import numba
except ModuleNotFoundError:
    raise CanonError('Word vectors need numba; install it with pip install "deepcanon[words]".') from None


def _sources() -> list[bytes]:
    """The text of every file that speaks of numba."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))
    return [text for text in texts if b"numba" in text or b"canon.data.compiled" in text]


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
