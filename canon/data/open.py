"""`data.source` to a `Source`: which set, file or folder is meant, and which reader reads it."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from canon.data.catalogue import BUILTIN
from canon.data.config import DataConfig
from canon.data.schema import FileRecord
from canon.data.source import Part, Source, split_of
from canon.data.tables import ENDINGS, read_table
from canon.data.files import ending
from canon.errors import CanonError


def open_source(config: DataConfig) -> Source:
    from canon.data.builtin import read_builtin

    if config.source in BUILTIN:
        return read_builtin(config.source)
    return open_path(Path(config.source).expanduser(), config)


def open_path(path: Path, config: DataConfig, like: Source | None = None) -> Source:
    part = Part(read_table(path, config))
    return Source(path.name, "features", {"train": part}, files=(FileRecord.of(path),))
