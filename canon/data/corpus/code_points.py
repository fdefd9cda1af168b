"""The class of every character, by which the kernels of a corpus tell words apart (canon/kernels/cpu/corpus.py)."""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

import numpy as np

from canon.data.text.vocabularies import HAN
from canon.kernels.cpu import corpus as kernels


@lru_cache(maxsize=1)
def code_point_classes() -> np.ndarray:
    """The class of every code point, uint8 [0x110000]."""
    found = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        kind = unicodedata.category(character)[0]
        if kind == "N":
            found[code] = kernels.DIGIT
        elif kind in "LM":
            found[code] = kernels.LETTER
        elif character.isspace() and not "\x1c" <= character <= "\x1f":  # separators of data are no white space
            found[code] = kernels.SPACE
    found[ord("_")] = kernels.LETTER
    for first, last in _han_ranges():
        found[first : last + 1] = kernels.SINGLE
    return found


def _han_ranges() -> list[tuple[int, int]]:
    ends = HAN.split("-")  # "a-bc-d": the last of one range stands before the first of the next
    flat = [character for part in ends for character in part]
    return [(ord(first), ord(last)) for first, last in zip(flat[::2], flat[1::2], strict=True)]
