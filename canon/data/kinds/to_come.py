"""Kinds of data that canon recognises but has no system for yet: sparse features.

Each is recognised by its lines, so that such a file is not taken for a table of numbers or a text. A chapter that
brings systems for one gives its kind a file of its own here, which reads it.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.formats.letor import sparse_lines
from canon.data.kinds.base import Kind
from canon.data.kinds.parts import files_in, leading_file
from canon.data.settings import Common
from canon.data.source import Source, split_of
from canon.errors import CanonError

NO_SYSTEM = "canon has no system for it yet, which a later chapter brings"
_LOOKED = 50  # lines


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


SPARSE = SparseKind()
