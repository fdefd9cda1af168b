"""Reads a foreign pickle of plain data and arrays, and nothing else: an allow-list decides what a pickle may name.

A pickle is a program; whatever it names, it can call. This reader lets it name the few functions that numpy arrays are
rebuilt by, and refuses the file at the first other name, before anything is called.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from canon.errors import CanonError


def _encode(text: str, encoding: str) -> bytes:
    """What protocol 2 writes for bytes; any other codec is refused."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"_codecs.encode with {encoding}")
    return text.encode("latin-1")


def _allowed() -> dict[tuple[str, str], Callable[..., Any]]:
    allowed: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _encode,
        ("collections", "OrderedDict"): OrderedDict,
    }
    for module in ("builtins", "__builtin__"):  # the latter in protocols 0 to 2
        allowed[module, "set"], allowed[module, "frozenset"] = set, frozenset
    # numpy's own functions, by whatever name this numpy keeps them.
    rebuild: Any = np.empty(0).__reduce__()[0]
    scalar: Any = np.float64(0).__reduce__()[0]
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        allowed[module, "_reconstruct"], allowed[module, "scalar"] = rebuild, scalar
    return allowed


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _allowed()[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside itself")


def load(stream: IO[bytes], name: str) -> Any:
    """The object in a pickle; texts written by Python 2 come back as bytes. `name` is for the sentence."""
    try:
        return _Unpickler(stream, encoding="bytes").load()
    except pickle.UnpicklingError as mistake:
        raise CanonError(f"{name} is not read: {mistake}, and only plain data and numpy arrays are allowed.") from None
    except (
        EOFError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        MemoryError,
        OverflowError,
    ) as mistake:
        raise CanonError(f"{name} is not a whole pickle ({mistake or 'it is cut short'}).") from None
