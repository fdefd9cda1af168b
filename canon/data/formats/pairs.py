"""Parallel text: sentences and what they become, from two files side by side or from one table.

Two files belong together by their names, train.en and train.de (also train.en.gz, train.en.txt); line k of one is line
k of the other. A table has two columns: tab-separated with or without a header line, CSV, JSON lines or Parquet.
Pairs with an empty side are dropped and counted in a note; anything else that is wrong is an error with file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from canon.data.checking import alignment
from canon.data.formats.cells import ragged, unknown_in
from canon.data.formats.files import COMPRESSIONS, lines
from canon.data.formats.layout import layout_of
from canon.data.formats.names import TRANSLATED, is_language
from canon.data.formats.tables import read_table
from canon.data.settings import Columns
from canon.data.source import SPLITS, split_of
from canon.errors import CanonError


@dataclass(frozen=True)
class Pairs:
    source: list[str]
    target: list[str]
    references: list[tuple[str, ...]] | None = None  # all right targets of each, where there may be several

    def __len__(self) -> int:
        return len(self.source)

    def take(self, indices: Sequence[int] | np.ndarray) -> Pairs:
        rows = [int(index) for index in indices]
        references = None if self.references is None else [self.references[row] for row in rows]
        return Pairs([self.source[row] for row in rows], [self.target[row] for row in rows], references)


Read = tuple[Pairs, tuple[str, ...]]  # and notes


# Two files


def read_pair_files(source_file: Path, target_file: Path, encoding: str = "utf-8") -> Read:
    """Line k of the one file with line k of the other."""
    source, target = list(lines(source_file, encoding)), list(lines(target_file, encoding))
    for path, texts in ((source_file, source), (target_file, target)):
        if not any(text.strip() for text in texts):
            raise CanonError(f"{path} is empty.")
    shorter = min(len(source), len(target))
    if any(text.strip() for text in (*source[shorter:], *target[shorter:])):
        raise _unequal({source_file: source, target_file: target})
    del source[shorter:], target[shorter:]  # blank lines at a file's end are not sentences
    if source == target:
        raise CanonError(f"{source_file} and {target_file} hold the same text; the target must be in another language.")
    return _kept(f"{source_file} and {target_file.name}", source, target)


def _unequal(files: dict[Path, list[str]]) -> CanonError:
    (source_file, source), (target_file, target) = files.items()
    counts = f"{source_file} has {len(source):,} line{'s' * (len(source) > 1)} and {target_file} has {len(target):,}"
    shorter = min(files, key=lambda path: len(files[path]))
    line = alignment.broken_line(source, target)
    if len(files[shorter]) - line <= 2:
        return CanonError(f"{counts}: {shorter.name} seems to be cut short after line {len(files[shorter]):,}.")
    return CanonError(
        f"{counts}: each line must be the translation of the same line of the other file, "
        f"and they seem to differ from about line {line + 1:,}."
    )


def _kept(name: str, source: Sequence[str], target: Sequence[str], numbers: Sequence[int] = ()) -> Read:
    """The pairs with both sides, stripped; `numbers` are their lines, by default 1, 2, 3 …"""
    both = [(one.strip(), other.strip()) for one, other in zip(source, target, strict=True)]
    kept = [pair for pair in both if pair[0] and pair[1]]
    if not kept:
        raise CanonError(f"{name}: there is no pair of texts; every line has an empty side.")
    notes: tuple[str, ...] = ()
    if len(kept) < len(both):
        row = next(row for row, pair in enumerate(both) if not (pair[0] and pair[1]))
        line = numbers[row] if numbers else row + 1
        empty = f"{len(both) - len(kept):,} of {len(both):,} pairs have an empty side and are left out"
        notes = (f"{name}: {empty} (the first on line {line:,}).",)
    return Pairs([one for one, _ in kept], [other for _, other in kept]), notes


# Files of a folder


def _sides(folder: Path) -> dict[str, dict[str, Path]]:
    """{"train": {"en": train.en, "de": train.de.gz}, …}: files by stem and last ending."""
    sides: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        name = path.name
        for suffix in (*COMPRESSIONS, ".txt"):
            name = name.removesuffix(suffix)
        stem, dot, language = name.rpartition(".")
        if stem and dot and path.is_file() and not name.startswith("."):
            sides.setdefault(stem, {}).setdefault(language, path)
    return sides


def pair_languages(folder: Path) -> tuple[str, ...]:
    """The languages that a folder has side by side; () if it has no parallel text."""
    together = [[name for name in sides if is_language(name)] for sides in _sides(folder).values()]
    return tuple(sorted({name for languages in together if len(languages) > 1 for name in languages}))


def pair_files(folder: Path, source_lang: str = "", target_lang: str = "") -> dict[str, tuple[Path, Path]]:
    """The two files of each split: {"train": (train.en, train.de), "valid": (val.en, val.de), …}."""
    languages = pair_languages(folder)
    stems = _sides(folder)
    there = {name for sides in stems.values() for name in sides}
    if not languages and not {source_lang, target_lang} & there:
        raise CanonError(
            f"{folder} has no parallel text; give two files such as train.en and train.de, a sentence on each line."
        )
    if not (source_lang and target_lang):
        example = ", ".join(f'"{name}"' for name in (*languages, "en", "de")[:2])
        raise CanonError(
            f"{folder} has the languages {', '.join(languages)}; "
            f"say from which to which with data.languages = [{example}]."
        )
    for language in (source_lang, target_lang):
        if language not in there:
            raise unknown_in("data.languages", "language", language, languages)
    if source_lang == target_lang:
        raise CanonError(f'data.languages: both are "{source_lang}"; name two.')
    whole = {stem: sides for stem, sides in stems.items() if source_lang in sides and target_lang in sides}
    stem_of: dict[str, str] = {}
    for stem in whole:
        split = split_of(Path(stem)) or ("train" if len(whole) == 1 else "")
        if split in stem_of:
            names = f"{stem_of[split]}.{source_lang} and {stem}.{source_lang}"
            raise CanonError(f"{folder}: {names} both seem to be the {split} part; keep one.")
        if split:
            stem_of[split] = stem
    for stem, sides in stems.items():
        half = [language for language in (source_lang, target_lang) if language in sides]
        if len(half) == 1 and (split_of(Path(stem)) or "train") not in stem_of:
            missing = target_lang if half[0] == source_lang else source_lang
            raise CanonError(f"{folder} has {sides[half[0]].name} but no {stem}.{missing}.")
    if "train" not in stem_of:
        raise CanonError(f"{folder} has no train.{source_lang} with a train.{target_lang} beside it.")
    sides_of = {split: whole[stem_of[split]] for split in SPLITS if split in stem_of}
    return {split: (sides[source_lang], sides[target_lang]) for split, sides in sides_of.items()}


# One table


def read_pair_table(path: Path, columns: Sequence[str] = (), encoding: str = "utf-8", delimiter: str = "") -> Read:
    """Two columns of a table: those named, else its only two, else source and target."""
    layout = layout_of(path, encoding, delimiter, table=True)
    if layout is None or layout.delimiter != "\t":
        table = read_table(path, Columns(encoding=encoding, delimiter=delimiter))
        first, second = choose_columns(path, table.names, columns)
        pairs, notes = _kept(str(path), table.texts(first).tolist(), table.texts(second).tolist())
        return pairs, (*table.notes, *notes)
    rows = list(_tab_rows(path, encoding, layout.skip))
    first_cells = next((cells for _, cells in rows if cells), None)
    if first_cells is None:
        raise CanonError(f"{path} is empty.")
    names = list(layout.names) if layout.bare else first_cells
    chosen = [names.index(name) for name in choose_columns(path, names, columns)]
    if not layout.bare:
        rows = [row for row in rows if row[1] is not first_cells]
    for line, cells in rows:
        if cells and len(cells) != len(names):
            raise ragged(path, line, cells, names)
    source, target = ([cells[index] if cells else "" for _, cells in rows] for index in chosen)
    pairs, notes = _kept(str(path), source, target, [line for line, _ in rows])
    return pairs, (*layout.notes(path, delimiter), *notes)


def _tab_rows(path: Path, encoding: str, skip: int) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line after the skipped ones; none for a blank line."""
    for number, line in enumerate(islice(lines(path, encoding), skip, None), start=skip + 1):
        cells = line.split("\t")
        if len(cells) == 1 and line.strip():
            raise CanonError(f"{path}, line {number}: there is no tab; write source, tab, target on each line.")
        yield number, cells if len(cells) > 1 else []


def choose_columns(path: Path | str, names: Sequence[str], columns: Sequence[str] = ()) -> tuple[str, str]:
    """The columns of source and target: those asked for, else the only two, else those with such names."""
    if columns and len(columns) != 2:
        raise CanonError(f"data.features must name two columns, source and target; got {len(columns)}.")
    for name in columns:
        if name not in names:
            raise unknown_in("data.features", "column", name, names, path)
    if columns:
        return columns[0], columns[1]
    if len(names) == 2:
        return names[0], names[1]
    plain = {name.strip().lower(): name for name in names}
    for source, target in TRANSLATED:
        if source in plain and target in plain:
            return plain[source], plain[target]
    listed = ", ".join(f'"{name[:20]}"' for name in names[:6])
    raise CanonError(
        f"{path} has {len(names)} columns, {listed}{', …' if len(names) > 6 else ''}; "
        "name source and target in its first line and in data.features."
    )
