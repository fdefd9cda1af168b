"""What a kind of data opens: parts before they are split, encoded or scaled, and what was decided while reading."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canon.data.schema import FileRecord

if TYPE_CHECKING:
    from canon.data.kinds.base import Kind

SPLITS = {
    "train": ("train", "training", "base", "tra"),
    "valid": ("valid", "dev", "val", "vali", "validation", "devel", "development", "testa", "trial"),
    "test": ("test", "testb", "t10k", "eval", "tes"),
}
_WORD = re.compile(r"t10k|[A-Z]?[a-z]+|[A-Z]+")


class Pictures(NamedTuple):
    """Images [N, C, H, W], an array or a column that decodes them, and their class indices if they have classes."""

    pixels: Any
    labels: np.ndarray | None = None


@dataclass(frozen=True)
class Source:
    name: str
    parts: dict[str, Any]  # "train", and "valid" and "test" where the source has its own: rows as the kind has them
    files: tuple[FileRecord, ...] = ()
    notes: tuple[str, ...] = ()
    test: float = 0.1  # share to hold out if there is no test part
    tokenizers: tuple[str, ...] = ()  # kinds that the named set asks for: of its text, or of source and target
    origin: dict[str, Any] = field(default_factory=dict)  # what the protocol records about the source
    kind: Kind = None  # type: ignore[assignment]  # set by Kind.open

    def size(self, part: str) -> int:
        rows = self.parts[part]
        return len(rows.pixels if isinstance(rows, Pictures) else rows)

    def scored(self) -> Any:
        """The part that a trained run is evaluated on: the test part, where there is one."""
        return self.parts.get("test") or self.parts["train"]


@dataclass(frozen=True)
class ImageSource(Source):
    """Parts are `Pictures`."""

    classes: tuple[str, ...] = ()
    white: int = 255  # the value of a white pixel


@dataclass(frozen=True)
class TableSource(Source):
    """Parts are tables."""

    label: str = ""  # the named set's own choice
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextSource(Source):
    """Parts are `TextStream` (canon/data/corpus/text_blocks.py)."""

    frequent: int | None = None  # words that come often enough for word vectors, where `check` has counted them


def array_record(name: str, *arrays: np.ndarray) -> FileRecord:
    """A record for data that no file holds: the hash of the arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return FileRecord(name, sum(array.nbytes for array in arrays), digest.hexdigest())


def split_of(path: Path) -> str:
    """The split that the name of a file or folder says: train.csv, a.valid.txt, social17train.conll, dev.tsv; or ""."""
    words = {word.lower() for word in _WORD.findall(path.name)}
    for split, names in SPLITS.items():
        if words & set(names):
            return split
    return ""


def split_inside(path: Path) -> str:
    """The split whose name is anywhere in a file's name, inside a word too: mytrainset.txt; "" for none."""
    name = path.name.lower()
    return next((split for split, names in SPLITS.items() if any(known in name for known in names[:2])), "")
