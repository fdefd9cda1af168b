"""What every metric asks of its input before it counts anything.

Each helper returns a plain numpy array or raises a one-sentence `CanonError` naming the argument. Lists, numpy
arrays and torch CPU tensors (detached first when they carry gradients) are all accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CanonError, unknown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def array(name: str, values: ArrayLike, dims: int | None = 1) -> NDArray[Any]:
    """`values` as a non-empty array with `dims` axes (any number when None)."""
    if hasattr(values, "detach"):
        values = values.detach()
    try:
        found = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CanonError(f"{name} cannot be read as a numpy array ({error}).") from None
    if dims is not None and found.ndim != dims:
        raise CanonError(f"{name} must have {dims} axis{'' if dims == 1 else 'es'}, got shape {found.shape}.")
    if found.size == 0:
        raise CanonError(f"{name} is empty; at least one value is needed.")
    return found


def numbers(name: str, values: ArrayLike, dims: int | None = 1) -> NDArray[Any]:
    """A real-valued array without NaN; the dtype is kept, because a float32 sort costs half a float64 one."""
    found = array(name, values, dims)
    if found.dtype.kind not in "fiub":
        raise CanonError(f"{name} must be numbers, got values of type {found.dtype}.")
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise CanonError(f"{name} contains NaN at flat position {int(np.isnan(found).argmax())}.")
    return found


def same_length(first: str, a: NDArray[Any], second: str, b: NDArray[Any]) -> None:
    if len(a) != len(b):
        raise CanonError(f"{first} and {second} must have the same length, got {len(a)} and {len(b)}.")


def same_sequence_length(first: str, a: Sequence[Any], second: str, b: Sequence[Any]) -> None:
    if len(a) != len(b):
        raise CanonError(f"{first} and {second} must have the same length, got {len(a)} and {len(b)}.")
    if not len(a):
        raise CanonError(f"{first} and {second} are empty; at least one example is needed.")


def binary_labels(name: str, values: ArrayLike) -> BoolArray:
    """Labels 0 and 1 (or False and True) as a mask of the positives."""
    found = array(name, values)
    if found.dtype.kind == "b":
        return found
    if found.dtype.kind not in "fiu":
        raise CanonError(f"{name} must be 0 or 1, got values of type {found.dtype}.")
    positive = found == 1
    wrong = ~(positive | (found == 0))
    if wrong.any():
        raise CanonError(f"{name} must be 0 or 1, got {found[wrong.argmax()]} at position {int(wrong.argmax())}.")
    return positive


def choice(what: str, name: object, known: Sequence[str]) -> str:
    """`name` if it is one of `known`; otherwise the sentence that names the nearest."""
    if not isinstance(name, str) or name not in known:
        raise unknown(what, str(name), known)
    return name


def logarithm(base: float) -> Callable[[FloatArray], FloatArray]:
    """log to `base`; 2 and e go to numpy's own functions, which are exact at powers of the base."""
    if not (isinstance(base, int | float) and base > 0 and base != 1):
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
