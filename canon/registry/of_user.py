"""A system in a file of Python of the user: FILE.py, or FILE.py:PRESET. The file's SYSTEM is its record."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from canon.errors import CanonError, border
from canon.registry.record import System
from canon.user_code import module_of

_NAME = re.compile(r"(?P<path>.+\.py)(?::(?P<preset>[\w-]+))?")
RECORD = "SYSTEM"  # what the record is called in the file
_RECORD = re.compile(rf"^{RECORD}\b[^=\n]*=", re.MULTILINE)


class SystemFile(NamedTuple):
    path: Path
    preset: str


def place_of(name: str) -> SystemFile | None:
    """The file and the preset that "rbf.py:tiny" names; None for the name of a system of canon."""
    match = _NAME.fullmatch(name)
    return SystemFile(Path(match["path"]), match["preset"] or "") if match else None


def is_there(name: str) -> bool:
    """Whether `name` is a file with a record in it. The file is only read: environments and texts are Python too."""
    place = place_of(name)
    if place is None or not place.path.expanduser().is_file():
        return False
    return bool(_RECORD.search(place.path.expanduser().read_text(encoding="utf-8", errors="replace")))


def system_in(path: Path) -> System:
    """The record in a file as the file is now, under the file's name, by which it is found again."""
    file = path.expanduser()
    if not file.is_file():
        raise CanonError(f"There is no file {path}, which a system is named by; give the path from here.")
    system = _record(file.resolve(), hashlib.sha256(file.read_bytes()).hexdigest())
    return replace(system, name=str(path))


@cache  # so that a file which did not change has one Config
def _record(file: Path, digest: str) -> System:
    with border(file.name, "cannot be imported"):
        module = module_of(file, f"canon_system_{digest[:12]}")
    system = vars(module).get(RECORD)
    if not isinstance(system, System):
        raise CanonError(f"{file.name} has no record of a system: {RECORD} = canon.registry.System(…).")
    if system.recipe or system.data_recipe:
        raise CanonError(f"{file.name}: leave recipe out, which is one of canon's; settings go in a TOML file.")
    cls = system.module.rpartition(":")[2]
    for name in ("Config", cls):
        if not isinstance(vars(module).get(name), type):
            raise CanonError(
                f"{file.name} has no class {name}: a system needs Config, and the class in {RECORD}.module."
            )
    return replace(system, module=f"{module.__name__}:{cls}")
