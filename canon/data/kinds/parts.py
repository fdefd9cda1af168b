"""Which files of a folder are its train, valid and test parts, and which are not data.

A part is found by train, valid, dev or test in a file's name, between other words or inside one. README, LICENSE and
the like are never data, nor are files in another format than the others; notes list what is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.layout import first_lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import canonical
from canon.data.source import SPLITS, split_inside, split_of
from canon.errors import CanonError

_ABOUT = re.compile(
    r"(read[-_ ]?me|licen[cs]e|copying|citation|change(log|s)|notice|authors|contributing|dataset[-_]infos?|makefile|"
    r"requirements|sources|credits|about)(?![a-z])|_",
    re.IGNORECASE,
)
_README = re.compile(r"(?<![^\W_])(README|LICEN[CS]E)(?![^\W_])")  # anywhere in a name
_CLASSES = re.compile(r"(class|label)(es|s)?([-_ ]?(name|list|dict|map)s?)?(\.(txt|names|text))?", re.IGNORECASE)


class Parts(NamedTuple):
    files: dict[str, Path]  # by split
    notes: list[str]


def is_about(path: Path) -> bool:
    """Whether a file describes data rather than being data, by its name: README.md, LICENSE, _about.txt, class.txt."""
    return bool(_ABOUT.match(path.name) or _README.search(path.name) or _CLASSES.fullmatch(path.name))


def files_in(path: Path) -> list[Path]:
    """The file itself, or the files of a folder that may be data; where it holds only a folder, that folder's files."""
    if path.is_file():
        return [path]
    items = visible(path)
    files = [item for item in items if item.is_file() and not is_about(item)]
    folders = [item for item in items if item.is_dir()]
    return files_in(folders[0]) if len(folders) == 1 and not files else files


def inner(folder: Path) -> Path:
    """Of a folder that holds nothing but a folder of folders, as unpacked archives do, that one."""
    items = [item for item in visible(folder) if not is_about(item)] if folder.is_dir() else []
    alone = len(items) == 1 and items[0].is_dir() and not split_of(items[0])
    return inner(items[0]) if alone and any(item.is_dir() for item in visible(items[0])) else folder


def leading_file(path: Path) -> Path | None:
    """The file by which a path is recognised: itself; in a folder the training part, else a table, else the largest."""
    ranked = [
        (split_of(item) != "train", split_inside(item) != "train", ending(item) not in TABLES, -size, item)
        for item in files_in(path)
        for size in (item.stat().st_size,)
    ]
    return min(ranked)[-1] if ranked else None


_FOLD = re.compile(r"(?:train|valid|dev|val|test)[-_.]?(\d+)(?!\w)", re.IGNORECASE)


def of_fold(files: Sequence[Path], fold: int | None, path: Path) -> list[Path]:
    """The files of one fold among train_0, train_1 …, dev_0, dev_1 …, and all files without a fold."""
    numbers = {item: int(match[1]) for item in files if (match := _FOLD.search(item.name))}
    if fold is None:
        return list(files)
    if fold not in numbers.values():
        listed = ", ".join(map(str, sorted(set(numbers.values())))) or "none"
        raise CanonError(f"{path} has no files for data.fold = {fold}; its folds: {listed}.")
    return [item for item in files if numbers.get(item, fold) == fold]


def parts_of(
    path: Path,
    holds: Callable[[Path], bool],
    what: str = "files",
    fold: int | None = None,
    beside: Callable[[Path], bool] = lambda file: False,
) -> Parts:
    """The file of each split; `holds` says whether a file is of the wanted format, `beside` whether it belongs to
    another, so that no note says that it is ignored. fold: see `of_fold`."""
    if path.is_file():
        return Parts({"train": path}, [])
    data, notes = of_fold([item for item in files_in(path) if holds(item)], fold, path), []
    if not data:
        raise CanonError(f"{path} has no {what} that can be read; give one file.")
    if any("mismatched" in item.name for item in data) and any("_matched" in item.name for item in data):
        left = [item.name for item in data if "mismatched" in item.name]
        data = [item for item in data if item.name not in left]
        notes.append(f"{', '.join(left)}: left out; evaluate it with canon evaluate RUN --data FILE.")
    by_split: dict[str, Path] = {"train": data[0]} if len(data) == 1 else _named(path, data)
    unknown = [item for item in data if item not in by_split.values()]
    if "train" not in by_split and len(unknown) == 1:
        by_split["train"] = unknown[0]
        notes.append(f"{unknown[0].name} is the training part, since no file is named train.")
    if "train" not in by_split:
        raise CanonError(f"{path} has {len(data)} {what}, none of them named train; give one file.")
    others = [item for item in visible(data[0].parent) if item.is_file() and item not in by_split.values()]
    others = [item for item in others if not beside(item)]
    notes += ignored(path, [item for item in others if not any(item.name in note for note in notes)])
    return Parts({split: by_split[split] for split in SPLITS if split in by_split}, notes)


def ignored(path: Path, files: Sequence[Path]) -> list[str]:
    """A note on files of a folder that are not read."""
    some = ", ".join(item.name for item in files[:8]) + (f" and {len(files) - 8} more" if len(files) > 8 else "")
    return [f"Ignored in {path.name}: {some}."] if files else []


def _named(path: Path, data: list[Path]) -> dict[str, Path]:
    """The file of each split by its name; a name that has the split inside a word counts if no other does."""
    by_split: dict[str, list[Path]] = {}
    for split_by in (split_of, split_inside):
        for split, files in _grouped(data, split_by).items():
            by_split.setdefault(split, files)
    for split, files in by_split.items():
        if len(files) > 1:
            named = ", ".join(item.name for item in files[:3]) + (", …" if len(files) > 3 else "")
            raise CanonError(
                f"{path}: {named} all seem to be the {split} part; give one file, and others in data.valid and "
                "data.test; or data.fold, where their names end in numbers."
            )
    return {split: files[0] for split, files in by_split.items()}


def _grouped(data: list[Path], split_by: Callable[[Path], str]) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = {}
    for item in data:
        if split := split_by(item):
            groups.setdefault(split, []).append(item)
    return groups


def class_names(folder: Path, encoding: str, values: list[str]) -> tuple[dict[str, str], str]:
    """Names for classes that are numbers, from class.txt or labels.txt in the folder of their file; and a note. Empty
    where there is no such file, or its lines are not as many as the numbers need."""
    numbers = {canonical(value) for value in values}
    for item in sorted(item for item in folder.iterdir() if _CLASSES.fullmatch(item.name) and item.is_file()):
        try:
            names = [line.strip() for line in first_lines(item, encoding) if line.strip()]
        except CanonError:
            continue
        # They count from 0 or from 1, which the first or the last number says.
        for start, sign in ((0, "0"), (1, str(len(names)))):
            known = {str(number): name for number, name in enumerate(names, start=start)}
            most = 2 * len(numbers) > len(names) == len(set(names))
            if sign in numbers and numbers <= set(known) and most:
                shown = ", ".join(f"{number} is {name}" for number, name in list(known.items())[:3])
                return known, f"{item.name} names the classes: {shown}{', …' if len(known) > 3 else ''}."
    return {}, ""
