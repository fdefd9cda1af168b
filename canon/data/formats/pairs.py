"""Parallel text: sentences and what they become, from two files side by side or from one table.

Two files belong together by their names, train.en and train.de (also train.en.gz, train.en.txt); line k of one is line
k of the other. A table has two columns: tab-separated with or without a header line, CSV, JSON lines or Parquet.
Pairs with an empty side are dropped and counted in a note; all else that is wrong is one sentence with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from canon.data.checking import alignment
from canon.data.formats.files import COMPRESSIONS, ending, lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import read_table
from canon.data.settings import Columns
from canon.data.source import SPLITS, split_of
from canon.errors import CanonError, unknown

TABS = (".tsv", ".tab")
_PEEK = 20  # lines looked at for tabs
# ISO 639-1, and what toolkits call the two sides.
LANGUAGES = (
    " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja "
    "jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd "
    "ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr "
    "ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu src tgt trg "
)
_REGION = re.compile(r"[-_][a-z]{2,4}$", re.IGNORECASE)  # pt-BR, zh_CN, zh-Hans
_COLUMNS = (("source", "target"), ("src", "tgt"), ("src", "trg"), ("input", "output"), ("question", "answer"))


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
        raise _unequal(source_file, source, target_file, target)
    del source[shorter:], target[shorter:]  # blank lines at a file's end are not sentences
    if source == target:
        raise CanonError(f"{source_file} and {target_file} hold the same text; the target must be in another language.")
    return _kept(f"{source_file} and {target_file.name}", source, target)


def _unequal(source_file: Path, source: list[str], target_file: Path, target: list[str]) -> CanonError:
    counts = f"{source_file} has {len(source):,} line{'s' * (len(source) > 1)} and {target_file} has {len(target):,}"
    shorter, length = min(((source_file, len(source)), (target_file, len(target))), key=lambda row: row[1])
    line = alignment.broken_line(source, target)
    if length - line <= 2:
        return CanonError(f"{counts}: {shorter.name} seems to be cut short after line {length:,}.")
    return CanonError(
        f"{counts}: each line must be the translation of the same line of the other file, "
        f"and they seem to part at about line {line + 1:,}."
    )


def _kept(name: str, source: Sequence[str], target: Sequence[str], numbers: Sequence[int] = ()) -> Read:
    """The pairs with both sides, stripped; `numbers` are the lines they stand on, else they stand on every line."""
    both = [(one.strip(), other.strip()) for one, other in zip(source, target, strict=True)]
    kept = [pair for pair in both if pair[0] and pair[1]]
    if not kept:
        raise CanonError(f"{name}: there is no pair of texts.")
    notes = []
    if len(kept) < len(both):
        row = next(row for row, pair in enumerate(both) if not (pair[0] and pair[1]))
        line = numbers[row] if numbers else row + 1
        left_out = len(both) - len(kept)
        empty = f"{left_out:,} of {len(both):,} pairs have an empty side and are left out"
        notes.append(f"{name}: {empty} (the first on line {line:,}).")
    return Pairs([one for one, _ in kept], [other for _, other in kept]), tuple(notes)


# Files of a folder


def _sides(folder: Path) -> dict[str, dict[str, Path]]:
    """{"train": {"en": train.en, "de": train.de.gz}, …}: files by stem and last ending."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        name = path.name
        for suffix in (*COMPRESSIONS, ".txt"):
            name = name.removesuffix(suffix)
        stem, dot, language = name.rpartition(".")
        if stem and dot and path.is_file() and not name.startswith("."):
            found.setdefault(stem, {}).setdefault(language, path)
    return found


def _is_language(name: str) -> bool:
    return f" {_REGION.sub('', name).lower()} " in LANGUAGES


def pair_languages(folder: Path) -> tuple[str, ...]:
    """The languages that a folder has side by side; () if it holds no parallel text."""
    found = set()
    for sides in _sides(folder).values():
        languages = [name for name in sides if _is_language(name)]
        found |= set(languages) if len(languages) > 1 else set()
    return tuple(sorted(found))


def pair_files(folder: Path, source_lang: str = "", target_lang: str = "") -> dict[str, tuple[Path, Path]]:
    """The two files of each split: {"train": (train.en, train.de), "valid": (val.en, val.de), …}."""
    languages = pair_languages(folder)
    stems = _sides(folder)
    there = {name for sides in stems.values() for name in sides}
    if not languages and not {source_lang, target_lang} & there:
        raise CanonError(
            f"{folder} has no parallel text: two files such as train.en and train.de, a sentence on each line."
        )
    if not (source_lang and target_lang):
        example = ", ".join(f'"{name}"' for name in (*languages, "en", "de")[:2])
        raise CanonError(
            f"{folder} has the languages {', '.join(languages)}; "
            f"say from which to which with data.languages = [{example}]."
        )
    for language in (source_lang, target_lang):
        if language not in there:
            sentence = str(unknown("language", language, languages))
            raise CanonError(f"data.languages: {sentence[0].lower()}{sentence[1:]}")
    if source_lang == target_lang:
        raise CanonError(f'data.languages: both are "{source_lang}"; name two.')
    return _by_split(folder, stems, source_lang, target_lang)


def _by_split(
    folder: Path, stems: dict[str, dict[str, Path]], source_lang: str, target_lang: str
) -> dict[str, tuple[Path, Path]]:
    whole = {stem: sides for stem, sides in stems.items() if source_lang in sides and target_lang in sides}
    found: dict[str, str] = {}
    for stem in whole:
        split = split_of(Path(stem)) or ("train" if len(whole) == 1 else "")
        if split in found:
            names = f"{found[split]}.{source_lang} and {stem}.{source_lang}"
            raise CanonError(f"{folder}: {names} both seem to be the {split} part; keep one.")
        if split:
            found[split] = stem
    for stem, sides in stems.items():
        half = [language for language in (source_lang, target_lang) if language in sides]
        if len(half) == 1 and (split_of(Path(stem)) or "train") not in found:
            missing = target_lang if half[0] == source_lang else source_lang
            raise CanonError(f"{folder} has {sides[half[0]].name} but no {stem}.{missing}.")
    if "train" not in found:
        raise CanonError(f"{folder} has no train.{source_lang} with a train.{target_lang} beside it.")
    order = [split for split in SPLITS if split in found]
    return {split: (whole[found[split]][source_lang], whole[found[split]][target_lang]) for split in order}


# One table


def read_pair_table(path: Path, columns: Sequence[str] = (), encoding: str = "utf-8") -> Read:
    """Two columns of a table: those named, else its only two, else source and target."""
    if columns and len(columns) != 2:
        raise CanonError(f"data.features must name two columns, source and target; got {len(columns)}.")
    if ending(path) in TABLES and ending(path) not in TABS:
        table = read_table(path, Columns(encoding=encoding))
        first, second = _choose(path, table.names, columns)
        return _kept(str(path), table.texts(first).tolist(), table.texts(second).tolist())
    rows = list(_tab_rows(path, encoding))
    names = next((cells for _, cells in rows if cells), None)
    if names is None:
        raise CanonError(f"{path} is empty.")
    if columns or len(names) > 2 or _is_header(names):
        chosen = [names.index(name) for name in _choose(path, names, columns)]
        rows = [row for row in rows if row[1] is not names]
    else:
        chosen = [0, 1]
    for line, cells in rows:
        if cells and len(cells) != len(names):
            raise CanonError(f"{path}, line {line}: {len(cells)} cells, but there are {len(names)} columns.")
    source, target = ([cells[index] if cells else "" for _, cells in rows] for index in chosen)
    return _kept(str(path), source, target, [line for line, _ in rows])


def has_tabs(path: Path, encoding: str = "utf-8") -> bool:
    """Whether each of the first lines has a tab."""
    try:
        filled = [line for line in islice(lines(path, encoding), _PEEK) if line.strip()]
    except CanonError:
        return False
    return bool(filled) and all("\t" in line for line in filled)


def _tab_rows(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line; none for a blank line."""
    for number, line in enumerate(lines(path, encoding), start=1):
        cells = line.split("\t")
        if len(cells) == 1 and line.strip():
            raise CanonError(f"{path}, line {number}: there is no tab; each line is source, tab, target.")
        yield number, cells if len(cells) > 1 else []


def _is_header(names: Sequence[str]) -> bool:
    """Whether two cells are names of columns rather than a pair of texts."""
    plain = tuple(name.strip().lower() for name in names)
    return plain in _COLUMNS or (all(map(_is_language, plain)) and plain[0] != plain[1])


def _choose(path: Path, names: Sequence[str], columns: Sequence[str]) -> tuple[str, str]:
    for name in columns:
        if name not in names:
            sentence = str(unknown("column", name, names)).replace(f'"{name}"', f'"{name}" in {path}', 1)
            raise CanonError(f"data.features: {sentence[0].lower()}{sentence[1:]}")
    if columns:
        return columns[0], columns[1]
    if len(names) == 2:
        return names[0], names[1]
    plain = {name.strip().lower(): name for name in names}
    for source, target in _COLUMNS:
        if source in plain and target in plain:
            return plain[source], plain[target]
    listed = ", ".join(f'"{name[:20]}"' for name in names[:6])
    raise CanonError(
        f"{path} has {len(names)} columns, {listed}{', …' if len(names) > 6 else ''}; "
        "name source and target in its first line and in data.features."
    )
