"""The files of a run that grow while it trains: metrics.jsonl (what the run decides), timing.jsonl (what the clock
decides: rates, memory) and tensorboard/."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, TextIO

from canon.config import Table
from canon.errors import CanonError
from canon.runs import files
from canon.storage import write_text


class CurveFiles:
    """Open files, cut back to the checkpoint that the run resumes from."""

    def __init__(self, run: Path, step: int, metrics_bytes: int, tensorboard: bool) -> None:
        path = run / "metrics.jsonl"
        self._metrics = _open_truncated(path, metrics_bytes)
        self._digest = hashlib.sha256(path.read_bytes())
        self._timing = _keep_lines(run / "timing.jsonl", step)
        self._board = _tensorboard(run, step) if tensorboard else None

    def write(self, row: dict[str, Any]) -> None:
        """A line of metrics.jsonl; a run that is killed leaves whole lines."""
        line = json.dumps(row) + "\n"
        self._digest.update(line.encode())
        self._metrics.write(line)
        self._metrics.flush()
        if self._board is not None:
            for key, value in row.items():
                if key not in ("step", "epoch"):
                    self._board.add_scalar(key, value, row["step"])

    def write_timing(self, row: dict[str, Any]) -> None:
        self._timing.write(json.dumps(row) + "\n")
        self._timing.flush()

    def mark(self) -> Table:
        """Which bytes of metrics.jsonl belong to a checkpoint written now; they are on the disk."""
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        return {"metrics_bytes": self._metrics.tell(), "metrics_sha256": self._digest.hexdigest()}


def _tensorboard(run: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise CanonError("train.tensorboard needs the package tensorboard: pip install tensorboard.") from None
    return SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)


def _open_truncated(path: Path, size: int) -> TextIO:
    """The file cut to its first `size` bytes, open at its end."""
    file = path.open("a", encoding="utf-8")
    file.truncate(size)
    file.seek(0, os.SEEK_END)
    return file


def _keep_lines(path: Path, step: int) -> TextIO:
    """The timing file, without lines after `step` and without what follows a damaged one."""
    kept = [row for row in files.rows(path)[0] if row["step"] <= step]
    write_text(path, "".join(json.dumps(row) + "\n" for row in kept))
    return path.open("a", encoding="utf-8")
