"""The operations of canon/kernels/cpu/lanes.py as small arrays of NumPy: what CANON_KERNELS=off runs.

Lanes after an array's end are read as 0 and not written to; a compiled kernel has room there. Asking for a cache line
does nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 16


def lanes(array: Any, index: Any) -> Any:
    values = np.zeros(LANES, np.float32)
    there = array[index : index + LANES]
    values[: len(there)] = there
    return values


def put(array: Any, index: Any, value: Any) -> None:
    there = array[index : index + LANES]
    there[:] = value[: len(there)]


def fetch(array: Any, index: Any) -> None: ...


fetch_to_read = fetch


def same(value: Any) -> Any:
    return np.full(LANES, value, np.float32)


def everywhere(array: Any, index: Any) -> Any:
    return same(array[index])


def fused(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def total(value: Any) -> Any:
    return value.sum()


def totals(*twelve: Any) -> Any:
    sums = np.zeros(LANES, np.float32)
    sums[:6] = [value.sum() for value in twelve[:6]]
    sums[8:14] = [value.sum() for value in twelve[6:]]
    return sums


def greatest(value: Any) -> Any:
    return value.max()


def bounded(value: Any, least: Any, most: Any) -> Any:
    return np.where(value < least, least, np.where(value > most, most, value))


def nearest(value: Any) -> Any:
    return np.rint(value)


def power_of_two(value: Any) -> Any:
    return np.ldexp(np.float32(1), value.astype(np.int32))


def exponent(value: Any) -> Any:
    return (np.frexp(value)[1] - 1).astype(np.float32)


def mantissa(value: Any) -> Any:
    return np.frexp(value)[0] * np.float32(2)


def where_counted(value: Any, sign: Any) -> Any:
    return np.where(sign != 0, value, np.float32(1))


def once(value: Any) -> Any:
    return np.where(np.arange(LANES) < 6, value, np.float32(0))


def twice(value: Any) -> Any:
    return np.where(np.arange(LANES) % 8 < 6, value[np.arange(LANES) % 8], np.float32(0))
