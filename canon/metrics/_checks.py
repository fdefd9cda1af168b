"""What every metric asks of its input before it counts anything.

Each helper returns a plain numpy array or raises a one-sentence `CanonError` naming the argument. Lists, numpy
arrays and torch CPU tensors (detached first when they carry gradients) are all accepted.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.errors import CanonError, border, unknown

_PLAIN = (bool, int, float, complex, type(None))  # not texts

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def array(name: str, values: ArrayLike, dims: int | None = 1) -> NDArray[Any]:
    """`values` as a non-empty array with `dims` axes (any number when None)."""
    with border(name, "cannot be read as an array"):
        if hasattr(values, "detach"):
            values = values.detach()
        x = np.asarray(values)
        if x.dtype.kind in "OU":
            x = _texts_alone(name, values, x)
    if dims is not None and x.ndim != dims:
        raise CanonError(f"{name} must have {dims} axis{'' if dims == 1 else 'es'}, got shape {x.shape}.")
    if x.size == 0:
        raise CanonError(f"{name} is empty; at least one value is needed.")
    return x


def _texts_alone(name: str, values: ArrayLike, x: NDArray[Any]) -> NDArray[Any]:
    """An array of texts alone: numpy turns other values among them into texts, or keeps them as objects."""
    items = x.ravel() if isinstance(values, np.ndarray) or x.dtype.kind == "O" else values
    listed = items if isinstance(items, np.ndarray | list | tuple) else [items]
    other = next((place for place, value in enumerate(listed) if isinstance(value, _PLAIN)), None)
    if other is None and x.dtype.kind == "O":
        other = next((place for place, value in enumerate(listed) if not isinstance(value, str)), None)
    if other is not None:
        raise CanonError(f"{name} must be all numbers or all texts, got {listed[other]!r} at position {other}.")
    return x.astype(str)


def numbers(name: str, values: ArrayLike, dims: int | None = 1, finite: bool = False) -> NDArray[Any]:
    """A real-valued array without NaN, without infinite numbers where `finite`; the dtype is kept, because a float32
    sort costs half a float64 one."""
    x = array(name, values, dims)
    if x.dtype.kind not in "fiub":
        raise CanonError(f"{name} must be numbers, got values of type {x.dtype}.")
    if x.dtype.kind == "f" and np.isnan(x).any():
        raise CanonError(f"{name} contains NaN at flat position {int(np.isnan(x).argmax())}.")
    if finite and x.dtype.kind == "f" and np.isinf(x).any():
        raise CanonError(f"{name} contains an infinite number at flat position {int(np.isinf(x).argmax())}.")
    return x


def unit_interval(name: str, values: ArrayLike, dims: int | None = 1) -> NDArray[Any]:
    """Numbers from 0 to 1."""
    p = numbers(name, values, dims)
    if p.min() < 0 or p.max() > 1:
        raise CanonError(f"{name} must lie in [0, 1], got values from {p.min():g} to {p.max():g}.")
    return p


def classes(name: str, values: ArrayLike, dims: int | None = 1) -> NDArray[Any]:
    """Names of classes: texts, or whole numbers of any type."""
    x = array(name, values, dims)
    if x.dtype.kind == "f":
        whole = np.isfinite(x) & (x == np.floor(x))
        if not whole.all():
            place = int((~whole).argmax())
            shown = "NaN" if np.isnan(x.ravel()[place]) else f"{x.ravel()[place]:g}"
            raise CanonError(f"{name} contains {shown} at position {place}; classes are whole numbers or texts.")
    elif x.dtype.kind not in "iubU":
        raise CanonError(f"{name} must be whole numbers or texts, got values of type {x.dtype}.")
    return x


def number(name: str, value: object, finite: bool = True) -> float:
    """One number, which may be NaN or infinite unless `finite`."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise CanonError(f"{name} must be a number, got {value!r}.")
    if finite and not np.isfinite(value):
        raise CanonError(f"{name} must be a finite number, got {value}.")
    return float(value)


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CanonError(f"{name} must be a text, got {value!r}.")
    return value


def texts(name: str, values: object) -> list[str]:
    """A list of texts, not one text."""
    return [text(f"{name}, number {place},", value) for place, value in enumerate(sequence(name, values))]


def sequence(name: str, values: object) -> Sequence[Any]:
    """A list or the like, not one text."""
    # An array of one number has a length by its class, but not by itself.
    listed = hasattr(values, "__len__") and hasattr(values, "__getitem__") and getattr(values, "ndim", 1) > 0
    if isinstance(values, str | bytes | Mapping) or not listed:
        raise CanonError(f"{name} must be a list, got {reprlib.repr(values)}.")
    return values  # type: ignore[return-value]


def tokens(name: str, values: object) -> Sequence[Hashable]:
    """A list of tokens that can be counted and compared."""
    listed = sequence(name, values)
    for place, token in enumerate(listed):
        if token is None or not isinstance(token, Hashable):
            raise CanonError(f"{name}, number {place}, is not a token: {reprlib.repr(token)}.")
    return listed


def same_length(first: str, a: Sized, second: str, b: Sized) -> None:
    if len(a) != len(b):
        raise CanonError(f"{first} and {second} must have the same length, got {len(a)} and {len(b)}.")


def same_sequence_length(first: str, a: Sequence[Any], second: str, b: Sequence[Any]) -> None:
    same_length(first, sequence(first, a), second, sequence(second, b))
    if not len(a):
        raise CanonError(f"{first} and {second} are empty; at least one example is needed.")


def binary_labels(name: str, values: ArrayLike) -> BoolArray:
    """Labels 0 and 1 (or False and True) as a mask of the positives."""
    x = array(name, values)
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind not in "fiu":
        raise CanonError(f"{name} must be 0 or 1, got values of type {x.dtype}.")
    positive = x == 1
    wrong = ~(positive | (x == 0))
    if wrong.any():
        raise CanonError(f"{name} must be 0 or 1, got {x[wrong.argmax()]} at position {int(wrong.argmax())}.")
    return positive


def choice(what: str, name: object, known: Sequence[str]) -> str:
    """`name` if it is one of `known`; otherwise the sentence that names the nearest."""
    if not isinstance(name, str) or name not in known:
        raise unknown(what, str(name), known)
    return name


def logarithm(base: float) -> Callable[[FloatArray], FloatArray]:
    """log to `base`; 2 and e go to numpy's own functions, which are exact at powers of the base."""
    if number("base", base) <= 0 or base == 1:
        raise CanonError(f"base must be a positive number other than 1, got {base}.")
    if base == 2:
        return np.log2
    if base == np.e:
        return np.log
    scale = float(np.log(base))
    return lambda x: np.log(x) / scale


def cutoff(k: int | None) -> int | None:
    """k as a positive whole number, or None for the whole list."""
    if k is None:
        return None
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise CanonError(f"k must be a positive whole number or None for the whole list, got {k}.")
    return int(k)
