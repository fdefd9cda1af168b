"""Texts sorted by class: a folder of texts for each class (aclImdb, 20 Newsgroups), or a file of lines (pos.txt).

Both may lie below train and test folders; of files, the names may say the split too (pos_train.txt). A file in a class
folder is one text; of a class's file, each line that is not blank is one. The class of a file is the part of its name
that differs between files: rt-polarity.pos and rt-polarity.neg are pos and neg.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from canon.data.formats.cells import listed
from canon.data.formats.files import COMPRESSIONS, ending, lines, read_text
from canon.data.formats.foreign import is_readable
from canon.data.formats.images import folder_record, visible
from canon.data.formats.layout import first_lines, layout_of
from canon.data.formats.rows import Rows, TextRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.kinds.parts import files_in, ignored, inner
from canon.data.schema import FileRecord
from canon.data.source import SPLITS, split_of
from canon.errors import CanonError

ENDINGS = (".txt", ".text", "")
_DATA = (*TABLES, ".md", ".rst")  # tables, or chapters of a text
_UNLABELLED = ("unsup", "unlabeled", "unlabelled")
# Classes that files of lines are named after; others may be chapters of a text.
_NAMES = ("pos", "neg", "positive", "negative", "neutral", "spam", "ham", "true", "false", "fake", "real", "yes", "no")
_FEWEST = 3  # lines of a class whose name is not a usual one
_WORD = re.compile(r"[^\W_]+")


class ClassFiles(NamedTuple):
    what: str  # file or folder
    parts: dict[str, dict[str, list[Path]]]  # by split and class


def class_files(folder: Path, known: bool = False) -> ClassFiles | None:
    """The files of each class of a folder; None where they are not sorted by class. known: files of lines must have
    usual names of classes."""
    folder = inner(folder)
    folders = [item for item in visible(folder) if item.is_dir()]
    roots = {split_of(item): item for item in folders if split_of(item)}
    roots = roots if "train" in roots else {"train": folder}
    by_folder = {split: _folders(root) for split, root in roots.items()}
    if all(by_folder.values()):
        return ClassFiles("folder", {split: by_folder[split] for split in SPLITS if split in by_folder})
    parts: dict[str, dict[str, list[Path]]] = {}
    for split, root in roots.items():
        for name, path in _by_name(root, ENDINGS if root != folder else ()):
            parts.setdefault(split_of(path) or split, {}).setdefault(name, []).append(path)
    names = set(parts.get("train", ()))
    single = all(set(part) == names and all(len(files) == 1 for files in part.values()) for part in parts.values())
    if len(names) < 2 or "" in names or not single:
        return None
    every = [path for part in parts.values() for files in part.values() for path in files]
    usual = names <= set(_NAMES)
    if not usual and (known or _are_numbered(names) or not all(map(_has_examples, every))):
        return None
    return ClassFiles("file", {split: parts[split] for split in SPLITS if split in parts})


def _are_numbered(names: set[str]) -> bool:
    """Whether names are numbers, or differ by them alone, as those of chapters and shards do."""
    bare = {re.sub(r"[\d-]+", "", name) for name in names}
    return "" in bare or len(bare) < len(names)


def _folders(root: Path) -> dict[str, list[Path]]:
    """The texts of each class's folder; empty where there are not two or more folders that hold texts alone."""
    folders = [item for item in visible(root) if item.is_dir() and item.name.lower() not in _UNLABELLED]
    files = {item.name: visible(item) for item in folders}
    texts = all(items and all(_is_text(item) for item in items) for items in files.values())
    return files if len(files) > 1 and texts else {}


def _is_text(path: Path) -> bool:
    # 20 Newsgroups has numbers for names, such as 49960.
    if not path.is_file() or path.name.endswith("ubyte"):
        return False
    return ending(path) in ENDINGS or (ending(path) not in _DATA and is_readable(path))


def _has_examples(path: Path) -> bool:
    """Whether the lines of a file may be texts of one class: some lines with letters, no table of pairs, and no blank
    lines between paragraphs."""
    layout = layout_of(path, "")
    tabs = layout is not None and layout.delimiter == "\t"
    lines = "\n".join(first_lines(path, "")).strip().split("\n")
    lettered = sum(any(map(str.isalpha, line)) for line in lines)
    return not tabs and all(map(str.strip, lines)) and lettered >= max(_FEWEST, len(lines) / 2)


def _by_name(root: Path, endings: Sequence[str]) -> list[tuple[str, Path]]:
    """The class of each file of lines, and the file; endings: those that a text may have, () for any."""
    files = files_in(root)
    named = [item for item in files if ending(item).removeprefix(".") in _NAMES]
    if not all(item in named or (_is_text(item) and (not endings or ending(item) in endings)) for item in files):
        return []
    words = [[word for word in _WORD.findall(_stem(item)) if not split_of(Path(word))] for item in files]
    shared = set.intersection(*map(set, words)) if words else set()
    return [
        ("-".join(word for word in words_of_file if word not in shared), item)
        for words_of_file, item in zip(words, files, strict=True)
    ]


def _stem(path: Path) -> str:
    """The name without the endings of texts and of compression, in lower case."""
    name = path.name.lower()
    for suffix in (*COMPRESSIONS, *ENDINGS):
        name = name.removesuffix(suffix)
    return name


def read_classes(folder: Path, files: ClassFiles, encoding: str) -> tuple[dict[str, Rows], FileRecord, tuple[str, ...]]:
    """The texts of each split, one record for all files, and notes."""
    parts: dict[str, Rows] = {}
    for split, by_class in files.parts.items():
        texts: list[str] = []
        labels: list[tuple[str, ...]] = []
        places: list[str] = []
        for name, paths in by_class.items():
            start = len(texts)
            for path in paths:
                if files.what == "folder":
                    texts.append(read_text(path, encoding).strip())
                    places.append(str(path))
                    continue
                filled = [(number, line) for number, line in enumerate(lines(path, encoding), start=1) if line.strip()]
                texts += [line.strip() for _, line in filled]
                places += [f"{path}, line {number}" for number, _ in filled]
            if len(texts) == start:
                raise CanonError(f"{paths[0]} is empty.")
            labels += [(name,)] * (len(texts) - start)
        parts[split] = TextRows(str(folder), places.__getitem__, texts, None, labels)
    every = sorted(path for by_class in files.parts.values() for paths in by_class.values() for path in paths)
    note = f"Each {files.what} is a class: {listed(list(files.parts['train']))}."
    read = {place for path in every for place in (path, *path.parents)}
    looked = [folder, *(item for item in visible(folder) if item.is_dir() and split_of(item))]
    others = [item for place in looked for item in visible(place) if item not in read]
    return parts, folder_record(folder, every), (note, *ignored(folder, others))
