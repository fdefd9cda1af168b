"""Reads a foreign pickle of plain data and arrays, and nothing else: an allow-list decides what a pickle may name.

A pickle is a program; whatever it names, it can call. This reader lets it name the few functions that rebuild numpy
arrays, and refuses the file at the first other name, before anything is called.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections import OrderedDict
from io import BytesIO
from typing import IO, Any

import numpy as np

from canon.errors import CanonError, reason

_DEEPEST = 100  # containers in containers
_LARGEST = 1 << 30  # objects, each counted as often as it is shared
# What puts objects into one that is there: how many, −1 for all after the last mark.
_ADDING = {"APPEND": 1, "APPENDS": -1, "SETITEM": 2, "SETITEMS": -1, "ADDITEMS": -1, "BUILD": 1}
_GROWING = ("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET")


def _encode(text: str, encoding: str) -> bytes:
    """What protocol 2 writes for bytes; any other codec is refused."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"_codecs.encode with {encoding}")
    return text.encode("latin-1")


# __builtin__ and numpy.core are the names in older protocols and versions.
_ALLOWED: dict[str, Any] = {
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "_codecs.encode": _encode,
    "collections.OrderedDict": OrderedDict,
    **{f"{module}.{kind.__name__}": kind for module in ("builtins", "__builtin__") for kind in (set, frozenset)},
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _ALLOWED[f"{_module}._reconstruct"] = np.empty(0).__reduce__()[0]
    _ALLOWED[f"{_module}.scalar"] = np.float64(0).__reduce__()[0]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside itself")


def load(stream: IO[bytes], name: str) -> Any:
    """The object in a pickle; texts written by Python 2 come back as bytes. `name` is for errors."""
    content = BytesIO(stream.read())
    check(content, name)
    content.seek(0)
    try:
        return _Unpickler(content, encoding="bytes").load()
    except pickle.UnpicklingError as mistake:
        raise CanonError(f"{name} is not read: {mistake}, and only plain data and numpy arrays are allowed.") from None
    except Exception as mistake:  # pickle's errors have no common class
        raise CanonError(f"{name} is not a whole pickle: {reason(mistake)}.") from None


def check(stream: IO[bytes], name: str, count: int = 1) -> None:
    """Reads `count` pickles without making an object; an error where one would be nested so deeply, or share its parts
    so often, that comparing or hashing it would end the process or never end."""
    try:
        for _ in range(count):
            _walk(stream)
    except IndexError:  # where there is nothing left on a stack
        raise CanonError(f"{name} is not a whole pickle: it takes more objects than it has.") from None
    except (ValueError, KeyError, struct.error) as damage:  # as pickletools says it
        raise CanonError(f"{name} is not a whole pickle: {reason(damage)}.") from None
    except _TooLarge:
        raise CanonError(f"{name} is not read: its objects are nested more deeply than plain data is.") from None


class _TooLarge(Exception):
    pass


class _Node:
    """An object of a pickle: how deeply it is nested, and how many objects it has when none is shared."""

    __slots__ = ("depth", "size")

    def __init__(self, parts: list[_Node]) -> None:
        self.depth, self.size = 1, 1
        self.add(parts)

    def add(self, parts: list[_Node]) -> None:
        self.depth = max(self.depth, *(part.depth + 1 for part in parts)) if parts else self.depth
        self.size += sum(part.size for part in parts)
        if self.depth > _DEEPEST or self.size > _LARGEST:
            raise _TooLarge


def _walk(stream: IO[bytes]) -> None:
    """Goes through one pickle as its machine would, with a node for each object."""
    stacks: list[list[_Node]] = [[]]  # the last is in use; a mark begins another
    memo: dict[int, _Node] = {}
    plain = _Node([])

    def pop(count: int) -> list[_Node]:
        """The last `count` objects; −1: all those after the last mark, and the mark."""
        if count < 0:
            return stacks.pop()
        taken = stacks[-1][len(stacks[-1]) - count :]
        if len(taken) < count:
            raise ValueError("it takes more objects than it has")
        del stacks[-1][len(stacks[-1]) - count :]
        return taken

    for opcode, argument, _ in pickletools.genops(stream):
        code = opcode.name
        if code in _ADDING:
            parts = pop(_ADDING[code])
            stacks[-1][-1].add(parts)
        elif code in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stacks[-1][-1]
        elif code in ("GET", "BINGET", "LONG_BINGET"):
            stacks[-1].append(memo[argument])  # type: ignore[index]
        elif code == "MARK":
            stacks.append([])
        elif code == "DUP":
            stacks[-1].append(stacks[-1][-1])
        elif code in ("POP", "POP_MARK"):
            pop(1 if code == "POP" and stacks[-1] else -1)
        elif opcode.stack_before:
            marked = pickletools.markobject in opcode.stack_before
            parts = pop(-1 if marked else len(opcode.stack_before))
            stacks[-1].extend(_Node(parts) for _ in opcode.stack_after)
        else:
            stacks[-1].extend(_Node([]) if code in _GROWING else plain for _ in opcode.stack_after)
