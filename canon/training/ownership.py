"""One process owns a run while it trains: a lock of the operating system, which ends with the process.

The file `lock` in the run says who holds it, and is empty while nobody does. Reading a run takes no lock.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import IO

from canon.errors import CanonError

try:
    import fcntl
except ImportError:  # Windows: nothing stops two processes from training one run
    fcntl = None  # type: ignore[assignment]

_NAME = "lock"
_SHOWN = 200  # letters of the file in a sentence


class Ownership:
    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def take(self, run: Path, name: Path | None = None) -> None:
        """Locks a run directory, which may be moved to `name` later; a run that is locked is an error."""
        if fcntl is None:
            return
        file = (run / _NAME).open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(_SHOWN).decode(errors="replace").strip() or "another process"
            file.close()
            raise CanonError(
                f"{name or run} is being trained by {holder}: wait for it, or give another --out."
            ) from None
        except OSError:  # a file system without locks
            file.close()
            return
        file.truncate(0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        file.write(f"process {os.getpid()} on {platform.node()} since {since}\n".encode())
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None
