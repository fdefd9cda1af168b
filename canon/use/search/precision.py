"""Vectors in fewer bits, and scores of them.

| precision | stored | score |
| --- | --- | --- |
| float32, float16 | as it is | inner product |
| int8 | round(255 (v − low) / (high − low)) − 128, clipped; ranges by the first rows | of the restored v |
| binary | the signs, eight to a byte | Hamming distance, then the first 4 k by the query with ±1 |
Shapes: n rows, Q queries, D features.
"""

from __future__ import annotations

import numpy as np

from canon.errors import unknown

PRECISIONS = ("float32", "float16", "int8", "binary")
RESCORED = 4  # times as many rows as are asked for are scored again


def width(precision: str, dim: int) -> tuple[str, int]:
    """The type of a stored number, and how many a vector has."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    types = {"float32": "<f4", "float16": "<f2", "int8": "|i1", "binary": "|u1"}
    return types[precision], -(-dim // 8) if precision == "binary" else dim


def ranges_of(vectors_nD: np.ndarray) -> np.ndarray:
    """[2, D] lowest and highest of each dimension."""
    return np.stack([vectors_nD.min(0), vectors_nD.max(0)]).astype(np.float32)


def to_stored(vectors_nD: np.ndarray, precision: str, ranges_2D: np.ndarray | None = None) -> np.ndarray:
    if precision == "float32":
        return vectors_nD
    if precision == "float16":
        return vectors_nD.astype(np.float16)
    if precision == "binary":
        return np.packbits(vectors_nD > 0, axis=1)
    assert ranges_2D is not None
    low_D, high_D = ranges_2D
    steps = np.rint(255 * (vectors_nD - low_D) / np.maximum(high_D - low_D, 1e-12)) - 128
    return np.clip(steps, -128, 127).astype(np.int8)


def restored(stored: np.ndarray, precision: str, dim: int, ranges_2D: np.ndarray | None = None) -> np.ndarray:
    """float32 [n, D]; of signs ±1."""
    if precision == "binary":
        bits = np.unpackbits(np.asarray(stored), axis=1, count=dim)
        return bits.astype(np.float32) * 2 - 1
    if precision != "int8":
        return np.asarray(stored, dtype=np.float32)
    assert ranges_2D is not None
    low_D, high_D = ranges_2D
    return (stored.astype(np.float32) + 128) * ((high_D - low_D) / 255) + low_D


def overlap(exact_QK: np.ndarray, other_QK: np.ndarray) -> float:
    """The share of the first K that are the same."""
    same = [len(set(a) & set(b)) / max(len(a), 1) for a, b in zip(exact_QK.tolist(), other_QK.tolist(), strict=True)]
    return float(np.mean(same))
