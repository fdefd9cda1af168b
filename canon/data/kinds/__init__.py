"""Kinds of data: what data is, independent of the system that reads it. The table of kinds, and functions to open data.

A named set is of one kind. A file or folder is of the first kind in `KINDS` that recognises it; a table can also be
taken for texts with labels, running text, pairs of texts, questions with choices or sentences, where a system reads
those.
To add a kind: one file here with an object like these, one line in `KINDS`, and its name in an encoding's `kinds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canon.data.formats.files import ending, undecoded
from canon.data.formats.foreign import instead_of
from canon.data.formats.images import visible
from canon.data.kinds.base import Kind
from canon.data.kinds.choices import CHOICES
from canon.data.kinds.clicks import CLICKS
from canon.data.kinds.environments import ENVIRONMENTS
from canon.data.kinds.images import IMAGES
from canon.data.kinds.interactions import INTERACTIONS
from canon.data.kinds.labelled import LABELLED
from canon.data.kinds.parallel import PARALLEL
from canon.data.kinds.parts import files_in
from canon.data.kinds.queries import QUERIES
from canon.data.kinds.questions import QUESTIONS
from canon.data.kinds.sentences import SENTENCES
from canon.data.kinds.table import TABLE
from canon.data.kinds.tagged import TAGGED
from canon.data.kinds.text import TEXT
from canon.data.kinds.word_tests import WORD_TESTS
from canon.data.paths import find_path, named_set
from canon.data.source import Source
from canon.errors import CanonError, border, unknown

__all__ = ["KINDS", "Kind", "accepts", "find", "kind_for", "kind_of", "open_for"]

KINDS: tuple[Kind, ...] = (
    QUESTIONS,
    CHOICES,
    QUERIES,
    INTERACTIONS,
    CLICKS,
    TAGGED,
    SENTENCES,
    LABELLED,
    IMAGES,
    PARALLEL,
    TABLE,
    TEXT,
    WORD_TESTS,
    ENVIRONMENTS,
)


def find(name: str) -> Kind:
    by_name = {kind.name: kind for kind in KINDS}
    if name not in by_name:
        raise unknown("kind of data", name, by_name)
    return by_name[name]


def kind_of(config: Any) -> Kind:
    """The kind of `config.source`; `accepts` says which others it can be read as."""
    if (kind := _recognised(config)) is None:
        raise _unknown(find_path(config.source), config)
    return kind


def _recognised(config: Any) -> Kind | None:
    if (record := named_set(config.source)) is not None:
        return find(record.kind)
    if (named := by_name(config)) is not None:
        return named
    path = find_path(config.source)
    for kind in KINDS:
        if config.format in kind.formats or (config.format == "auto" and kind.sniff(path, config)):
            return kind
    return None


def by_name(config: Any) -> Kind | None:
    """The kind of a source that is neither a named set nor a path."""
    with border(f'The path "{ascii(config.source)[1:-1]}"'):
        if not config.source or Path(config.source).expanduser().exists():
            return None
    return next((kind for kind in KINDS if kind.sniff_name(config.source, config)), None)


def _unknown(path: Path, config: Any) -> CanonError:
    formats = [name for kind in KINDS for name in kind.formats]
    if config.format != "auto":
        return unknown("data.format", config.format, ("auto", *formats))
    if path.is_dir() and not visible(path):
        return CanonError(f"{path} is an empty folder.")
    if path.is_file() and (mistake := undecoded(path, config.encoding)) is not None:
        return mistake
    for file in files_in(path):
        if instead := instead_of(file):
            return CanonError(f"{file} {instead}.")
    wrong = f': the ending "{ending(path)}" is unknown' if path.is_file() else " has no files of a known format"
    return CanonError(f"{path}{wrong}; set data.format to one of {', '.join(formats)}.")


def accepts(kind: Kind, config: Any, home: Kind | None = None) -> str:
    """Why `config.source` can be read as this kind; "" if it cannot. home: its own kind, where that is known."""
    home = home or _recognised(config)
    if home is kind:
        return f"{config.source} is {kind.singular}"
    if (record := named_set(config.source)) is not None:
        return kind.sniff_set(record) if home is TABLE else kind.sniff_kind(record.name, home)  # type: ignore[arg-type]
    if by_name(config) is not None:
        return ""
    path = find_path(config.source)
    if home is TABLE or (home is not None and home.is_table(path, config)):
        return kind.sniff(path, config) if kind is TABLE else kind.sniff_table(path, config)
    running = home is None or home is TEXT or home.is_running(path, config)
    if running:
        return kind.sniff_text(path, config)
    return kind.sniff_kind(path.name, home) if home is not None else ""


def open_for(kinds: Sequence[Kind], config: Any, system: str = "This system") -> Source:
    """The source as the first of the kinds that `system` reads and that accept it."""
    return kind_for(kinds, config, system).source(config)


def kind_for(kinds: Sequence[Kind], config: Any, system: str) -> Kind:
    """The first of the kinds that `system` reads and that accept the source."""
    for kind in kinds:
        if accepts(kind, config):
            return kind
    wanted = " or ".join(dict.fromkeys(kind.plural for kind in kinds))
    settings = "".join(dict.fromkeys(kind.named_by for kind in kinds))
    raise CanonError(f"{system} reads {wanted}, but {config.source} is {kind_of(config).singular}{settings}.")
