"""A folder or file of another project, opened through the one door and read at once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from canon import interop


def read_folder(path: str | Path) -> Any:
    """What is recognised there and its weights, so that whatever does not fit is refused here."""
    origin: Any = interop.open(path, "weights")
    weights = {name: getattr(origin.weights, name) for name in ("left_out", *vars(origin.weights))}
    notes = origin.tensors_for(SimpleNamespace(), None)[1]
    return SimpleNamespace(system=origin.system, notes=notes, **weights)
