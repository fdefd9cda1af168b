"""Python files of the user: systems, environments, probes of claims."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

_FILES: set[str] = set()  # what has been run of the user's


def module_of(path: Path, prefix: str) -> ModuleType:
    """The module that a file is now. Python's own import would take what it compiled of a file of the same size and
    second for it."""
    module = ModuleType(f"{prefix}_{path.resolve().stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # classes look their module up
    _FILES.add(str(path))
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return module


def blame(error: BaseException) -> tuple[str, bool]:
    """Where in a user's code an error may come from, and whether it does: the innermost line of theirs that it went
    through, as "mine.py, line 12"; else the files that have been run; "" where there are none."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in _FILES:
            place = f"{Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place or " or ".join(sorted({Path(file).name for file in _FILES})), bool(place)
