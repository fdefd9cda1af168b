"""Criteo's logs: tab-separated lines without names of 13 counts and 26 hashed categories, after a label where clicks
are known; an empty cell is missing."""

from __future__ import annotations

import re
from pathlib import Path

from canon.data.formats.layout import first_lines

NUMBERS = tuple(f"I{number}" for number in range(1, 14))
CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
LABEL = "click"
NAMES = (LABEL, *NUMBERS, *CATEGORIES)
_LOOKED = 50  # lines
_LINE = re.compile(r"([01]\t)?(-?\d*\t){13}([0-9a-f]{0,8}\t){25}[0-9a-f]{0,8}")


def criteo_columns(path: Path, encoding: str) -> tuple[str, ...]:
    """The columns of a file, by its first lines; () where it is another sort of file."""
    filled = [line for line in first_lines(path, encoding)[:_LOOKED] if line.strip()]
    if not filled or not all(map(_LINE.fullmatch, filled)):
        return ()
    return NAMES[len(NAMES) - len(filled[0].split("\t")) :]
