"""What the readers of one kind of file hand to `read`: parts before they are split, encoded or scaled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.schema import FileRecord, InputKind

SPLITS = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "vali", "dev", "validation"),
    "test": ("test", "t10k", "eval"),
}


@dataclass(frozen=True)
class Part:
    """Examples that lie together: a table, images [N, C, H, W], documents or pairs; class indices beside images."""

    inputs: Any  # Table | np.ndarray | Column | list[str] | Pairs
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Source:
    name: str
    kind: InputKind
    parts: dict[str, Part]  # "train", and "valid" and "test" where the source has its own
    classes: tuple[str, ...] = ()  # images only
    label: str = ""  # tables: the named set's own choice
    features: tuple[str, ...] = ()
    files: tuple[FileRecord, ...] = ()
    notes: tuple[str, ...] = ()
    test: float = 0.1  # share held out where there is no test part
    white: int = 255  # the value of a white pixel
    tokenizers: tuple[str, ...] = ()  # kinds that the named set asks for: of its text, or of source and target
    origin: dict[str, Any] = field(default_factory=dict)  # what the protocol says of the source


def array_record(name: str, *arrays: np.ndarray) -> FileRecord:
    """A record for data that no file holds: the hash of the arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return FileRecord(name, sum(array.nbytes for array in arrays), digest.hexdigest())


def split_of(path: Path) -> str:
    """The split that a file's or folder's name tells: train.csv, ptb.valid.txt.xz, dev.tsv, t10k-images …, else ""."""
    words = path.name.lower().replace("-", ".").replace("_", ".").split(".")
    for split, names in SPLITS.items():
        if any(word in names for word in words):
            return split
    return ""
