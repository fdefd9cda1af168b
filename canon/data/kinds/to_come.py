"""Kinds of data that canon recognises but has no system for yet: sparse features and interactions.

Each is recognised by its lines, so that such a file is not taken for a table of numbers or a text. A chapter that
brings systems for one gives its kind a file of its own here, which reads it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.formats.cells import parse_number
from canon.data.formats.files import ending
from canon.data.formats.layout import first_lines, layout_of
from canon.data.formats.letor import sparse_lines
from canon.data.kinds.base import Kind
from canon.data.kinds.parts import files_in, leading_file
from canon.data.settings import Common
from canon.data.source import Source, split_of
from canon.errors import CanonError

NO_SYSTEM = "canon has no system for it yet, which a later chapter brings"
_LOOKED = 50  # lines
_USER = re.compile(r"(user|customer|visitor|member|reviewer|session|uid)([-_ ]?(id|no|name))?")
_ITEM = re.compile(
    r"(item|movie|product|song|track|artist|book|isbn|business|video|anime|game|article|iid|mid)([-_ ]?(id|no))?"
)
_REST = re.compile(
    r"(rating|score|stars|count|plays?|weight|event|action|time|timestamp|date|unixtime)s?|play[-_ ]?count"
)
_FEWEST_ITEMS = 10  # different numbers of users and of items by which columns without names are recognised
_MOST_RATINGS = 11  # different ratings
_TIME = 1e8  # seconds since 1970 are more


class Unread(Kind):
    """A kind that nothing reads."""

    untrained = ""  # its name says so

    settings = Common
    example: ClassVar[str]  # of a line

    @abstractmethod
    def holds(self, path: Path, encoding: str) -> bool:
        """Whether a file is one of this kind, by its first lines."""

    def sniff(self, path: Path, config: Any) -> str:
        """By the file that a folder is recognised by; where none is named as a part is, any will do."""
        files = files_in(path)
        named = any(map(split_of, files))
        leading = leading_file(path)
        held = any(self._holds(file, config.encoding) for file in files if file == leading or not named)
        return f"{path.name} has lines such as {self.example}" if held else ""

    def _holds(self, file: Path, encoding: str) -> bool:
        try:
            return self.holds(file, encoding)
        except CanonError:  # not text
            return False

    def read(self, path: Path, config: Any, like: Source | None = None) -> NoReturn:
        raise CanonError(f"{path} is {self.singular}.")

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> NoReturn:
        raise CanonError(f"{record.name} is {self.singular}.")

    def check(self, report: CheckReport, config: Any) -> NoReturn:
        raise CanonError(f"{config.source} is {self.singular}.")


class SparseKind(Unread):
    name = "sparse"
    singular = f"sparse features (svmlight or libFM: a label, then number:value); {NO_SYSTEM}"
    plural = "sparse features"
    plural_zh = "稀疏特征"
    formats = ("svmlight",)
    example = "1 4:1 13:0.5"

    def holds(self, path: Path, encoding: str) -> bool:
        lines = sparse_lines(path, encoding)
        return bool(lines) and not any(match["query"] for match in lines)


class InteractionKind(Unread):
    name = "interactions"
    singular = f"interaction data (user, item, and perhaps rating and time); {NO_SYSTEM}"
    plural = "interactions"
    plural_zh = "用户与物品的交互"
    formats = ("interactions",)
    example = "user, item, rating, time"

    def holds(self, path: Path, encoding: str) -> bool:
        if ending(path) == ".dat" and all("::" in line for line in first_lines(path, encoding)[:_LOOKED]):
            rows = [line.split("::") for line in first_lines(path, encoding) if line.strip()]
            return _are_numbered(rows)
        layout = layout_of(path, encoding)
        if layout is None or not 2 <= len(layout.names) <= 5:
            return False
        if layout.bare:
            rows = [line.split(layout.delimiter) for line in first_lines(path, encoding) if line.strip()]
            return _are_numbered(rows)
        plain = [name.strip().lower() for name in layout.names]
        users, items = (any(map(known.fullmatch, plain)) for known in (_USER, _ITEM))
        return users and items and all(map(_is_known, plain))


def _is_known(name: str) -> bool:
    return any(known.fullmatch(name) for known in (_USER, _ITEM, _REST))


def _are_numbered(rows: list[list[str]]) -> bool:
    """Whether columns without names are users, items and perhaps ratings and times, all numbers: both repeat, ratings
    are few, times are seconds. Two features with a class are alike but for the order, so users must come in order."""
    columns = [[parse_number(cell) for cell in column] for column in zip(*rows, strict=False)]
    if not 2 <= len(columns) <= 4 or any(value is None for column in columns for value in column):
        return False
    numbers = [[value for value in column if value is not None] for column in columns]
    users, items, *rest = numbers
    if not all(value.is_integer() and value >= 0 for value in (*users, *items)):
        return False
    if len(set(items)) < _FEWEST_ITEMS or (rest and len(set(rest[0])) > _MOST_RATINGS):
        return False
    if len(rest) == 2:
        return min(rest[1]) > _TIME
    once = len(set(zip(users, items, strict=True))) == len(users)
    return once and users == sorted(users) and 2 * len(set(users)) <= len(users)


SPARSE, INTERACTIONS = SparseKind(), InteractionKind()
