"""The modules of canon.kernels.cpu as CANON_KERNELS=off makes them, beside the compiled ones of this process."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from unittest import mock

ROOM = "canon.kernels"
NAMES = (
    "classifier",
    "cooccurrence",
    "corpus",
    "factors",
    "fasttext",
    "glove",
    "lanes",
    "least_squares",
    "neighbours",
    "subwords",
    "top_items",
    "vectors",
    "word2vec",
    "words",
)


def compiled(name: str) -> ModuleType:
    return import_module(f"{ROOM}.cpu.{name}")


@cache
def plain_modules() -> dict[str, ModuleType]:
    """Imported once more with the switch off; afterwards sys.modules is as it was."""
    import_module(f"{ROOM}.cpu")

    def ours() -> list[str]:
        return [name for name in sys.modules if name == ROOM or name.startswith(f"{ROOM}.")]

    before = {name: sys.modules.pop(name) for name in ours()}
    try:
        with mock.patch.dict(os.environ, {"CANON_KERNELS": "off"}):
            return {name: import_module(f"{ROOM}.cpu.{name}") for name in NAMES}
    finally:
        for name in ours():
            del sys.modules[name]
        sys.modules |= before
        sys.modules["canon"].kernels = before[ROOM]  # type: ignore[attr-defined]


def plain(name: str) -> ModuleType:
    return plain_modules()[name]
