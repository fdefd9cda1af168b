"""What a user names: an existing file or folder, a named set, or a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from canon.data.catalogue import CATALOGUE, Dataset
from canon.data.formats import images, text
from canon.data.formats.conll import ENDINGS as CONLL
from canon.data.formats.files import ending, require_readable
from canon.data.formats.tables import ENDINGS as TABLES
from canon.errors import CanonError, border

_FILES = (*TABLES, *text.ENDINGS[:-1], *images.ENDINGS, *CONLL, ".npy", ".tar", ".tgz")
_WORD_WITH_SEPARATOR = re.compile(r"[\w.~@+-]*[/\\][\w.~@+/\\-]*")


def named_set(source: str) -> Dataset | None:
    """The named set that is meant; a file or folder of that name goes before it."""
    with border(f'The path "{ascii(source)[1:-1]}"'):
        return CATALOGUE[source] if source in CATALOGUE and not Path(source).exists() else None


def find_path(source: str | Path, named: bool = True) -> Path:
    """The file or folder that a user named, which exists and is not a device or a pipe. All user data comes in here."""
    if not str(source):
        raise CanonError("data.source is missing: name a set (canon list datasets), a file or a folder.")
    with border(f'The path "{ascii(str(source))[1:-1]}"'):
        path = Path(source).expanduser()
        require_readable(path)
        if not path.exists():
            raise missing_path(path, named)
    return path


def path_of_rows(source: str, columns: Sequence[str]) -> Path:
    """The file of rows that a user named, which exists; `columns` are those of a row."""
    try:
        return find_path(source, named=False)
    except CanonError as mistake:
        sentence = str(mistake)
        if sentence.endswith("?") or Path(source).suffix:  # a file was meant
            raise
        some = ", ".join(f'"{name}": …' for name in columns[:3]) + ", …" * (len(columns) > 3)
        raise CanonError(f"{sentence} A row is given as {{{some}}}.") from None


def file_of(source: str, text: bool = False) -> Path | None:
    """The file that an argument names; None if the argument is the text itself.

    It names a file if that exists. A missing file is an error if the argument looks like a path: it begins with ./, ../
    or ~/, is one word with a separator in it, or has the ending of a data file. text: it is a text in any case.
    """
    if text or "\n" in source or "\0" in source or _is_too_long(source):
        return None
    with border(f'The path "{ascii(source)[1:-1]}"'):
        path = Path(source).expanduser()
        if path.exists() and not path.is_dir():
            require_readable(path)
            return path
        if not _looks_like_a_path(source):
            return None
    if path.is_dir():
        raise CanonError(f'{path} is a folder; give the files in it, or --text if "{source}" is the text itself.')
    missing = str(missing_path(path, named=False))
    what = f'dd --text if "{source}" is the text itself.'
    raise CanonError(f"{missing} A{what}" if missing.endswith("?") else f"{missing[:-1]}; a{what}")


def _is_too_long(source: str) -> bool:
    """Whether no file can have this name: systems allow 255 bytes for each part of a path."""
    return len(source) >= 4096 or any(len(part.encode(errors="replace")) > 255 for part in source.split("/"))


def text_of(source: str, text: bool = False) -> str:
    """An argument that must be a text, not a file, by the same rule."""
    if (path := file_of(source, text)) is not None:
        raise CanonError(f'{path} is a file; add --text if "{source}" is the text itself.')
    return source


def _looks_like_a_path(source: str) -> bool:
    if source.startswith(("./", "../", "~/")) or ending(Path(source)) in _FILES:
        return True
    return bool(_WORD_WITH_SEPARATOR.fullmatch(source))


def missing_path(path: Path, named: bool = True) -> CanonError:
    """The error for a path that does not exist, with the nearest name in its folder or in the catalogue."""
    if re.match(r"https?:/", str(path)):
        return CanonError(f"{path} is an address: fetch the file first and give its path here.")
    siblings = (
        {item.name: str(path.with_name(item.name)) for item in path.parent.iterdir()} if path.parent.is_dir() else {}
    )
    siblings = {name: place for name, place in siblings.items() if name.isprintable()}  # half characters are not
    known = dict.fromkeys(CATALOGUE, "") if named and path.parent == Path() else {}
    near = get_close_matches(path.name, [*known, *siblings], n=1, cutoff=0.7)
    hint = f"; did you mean {siblings.get(near[0]) or near[0]}?" if near else "."
    what = "data set, file or folder" if named else "file or folder"
    return CanonError(f'There is no {what} "{path}"{hint}')
