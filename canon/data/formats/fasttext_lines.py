"""fastText's lines: `__label__x __label__y text`.

Every word that begins with `__label__` is a label, wherever it is in the line, and the rest is the text.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from canon.data.formats.files import lines
from canon.data.formats.rows import TextRows
from canon.errors import CanonError

PREFIX = "__label__"
_PEEK = 20  # lines looked at for a label
SPACE = " \t\n\r\v\f\0"  # between words in fastText: nothing beyond ASCII
_LABEL = re.compile(rf"(?:(?<=[{SPACE}])|^){PREFIX}([^{SPACE}]*)")
_FIRST = re.compile(rf"{PREFIX}([^{SPACE}]*)(.*)", re.DOTALL)
_FORM = "write labels and text on each line, as in __label__positive a fine film"


def is_labelled(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file is fastText's: a label is among its first lines."""
    return any(_LABEL.search(line) for line in islice(lines(path, encoding), _PEEK))


def without_labels(line: str) -> str:
    return _parse(line)[1]


def _parse(line: str) -> tuple[tuple[str, ...], str]:
    """The labels of a line, each once, and its text."""
    first = _FIRST.match(line)
    if first and PREFIX not in first[2]:  # one label, the first word: most lines
        return (first[1],), first[2]
    return tuple(dict.fromkeys(_LABEL.findall(line))), _LABEL.sub("", line).strip(SPACE)


def read_lines(path: Path, encoding: str = "utf-8") -> TextRows:
    texts, labels, numbers = [], [], []
    known: dict[tuple[str, ...], tuple[str, ...]] = {}  # one object for equal labels
    for number, line in enumerate(lines(path, encoding), start=1):
        if not line.strip():
            continue
        names, text = _parse(line)
        if not names or "" in names:
            wrong = f"{PREFIX} has no name after it" if names else "there is no label"
            raise CanonError(f"{path}, line {number}: {wrong}; {_FORM}.")
        texts.append(text)
        numbers.append(number)
        labels.append(known.setdefault(names, names))
    if not texts:
        raise CanonError(f"{path} is empty.")
    return TextRows(str(path), lambda row: f"line {numbers[row]}", texts, None, labels)
