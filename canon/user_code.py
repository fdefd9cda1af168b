"""Python files of the user: probes of claims, environments."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


def module_of(path: Path, prefix: str) -> ModuleType:
    """The module that a file is now. Python's own import would take what it compiled of a file of the same size and
    second for it."""
    module = ModuleType(f"{prefix}_{path.resolve().stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # classes look their module up
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return module
