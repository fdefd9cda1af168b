"""Sentences with a tag for each word: CoNLL's columns and CoNLL-U, as shared tasks and treebanks publish them.

CoNLL: a word a line, columns separated by tabs or spaces, a blank line after each sentence; the word is the first
column (the second where the first counts the words) and the tag the last. CoNLL-U (Nivre et al. 2016): ten columns
separated by tabs; the word is FORM, the tag UPOS; comments, words of several tokens (1-2) and empty nodes (1.1) are
skipped. data.features and data.label choose the columns of word and tag by number, or by name where the file is CoNLL-U
or names its columns: in its first line, or as `# global.columns = …`. A character followed by the digit of its place in
a word (科0, as in Weibo's NER) is read without the digit; a line with a tag alone has a blank as its character.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from canon.data.formats.cells import counted, unknown_in
from canon.data.formats.files import ending, lines
from canon.data.formats.layout import first_lines
from canon.data.formats.rows import TagRows
from canon.data.text.tags import is_entities, scheme
from canon.errors import CanonError

ENDINGS = (".conllu", ".conll", ".iob", ".iob2", ".bio", ".bioes", ".bmes", ".ner")
FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
_OTHERS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
WORDS = ("word", "words", "token", "tokens", "form", "char", "character")  # names of the words' column
_FEWEST = 6  # words by whose tags a file is recognised, unless these are entities
_LONGEST_WORD = 60
_DOCUMENT = "-DOCSTART-"  # CoNLL 2003's line between documents
_CUT = 0.9  # share of words that are a character and a digit, where all end in one
_GLOBAL = re.compile(r"#\s*global\.columns\s*=\s*(.+)")


class _Columns(NamedTuple):
    """How many columns there are, what they are called, and which are word and tag (from 0; −1 for none)."""

    width: int
    names: tuple[str, ...]
    header: bool  # whether the first line names them
    word: int
    tag: int


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _is_comment(path: Path, line: str, width: int) -> bool:
    """A line of CoNLL that begins with # may be a word: it then has as many columns as the others."""
    return line.startswith("#") and (ending(path) == ".conllu" or len(_cells(line)) != width)


def _filled(path: Path, peeked: Sequence[str]) -> list[list[str]]:
    """The columns of the first lines, without comments."""
    filled = [line for line in peeked if line.strip() and not line.startswith(_DOCUMENT)]
    widths = Counter(len(_cells(line)) for line in filled)
    width = widths.most_common(1)[0][0] if widths else 0
    return [_cells(line) for line in filled if not _is_comment(path, line, width)]


def is_conll(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file has columns of words: by its ending, or since all lines have as many columns, or are blank."""
    if ending(path) in ENDINGS:
        return True
    try:
        peeked = first_lines(path, encoding)
    except CanonError:
        return False
    filled = _filled(path, peeked)
    widths = {len(cells) for cells in filled}
    short = all(len(cells[0]) < _LONGEST_WORD and " " not in cells[0].strip() for cells in filled)
    return len(widths) == 1 and widths.pop() > 1 and short and any(not line.strip() for line in peeked[:-1])


def has_tags(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file has words with tags beyond doubt: its last column has entities, or few different words."""
    if ending(path) in ENDINGS:
        return True
    if ending(path) in _OTHERS or not is_conll(path, encoding):
        return False
    tags = [cells[-1].strip() for cells in _filled(path, first_lines(path, encoding))]
    if is_entities(set(tags)):
        return True
    several = len(tags) >= _FEWEST and 2 * len(set(tags)) <= len(tags)
    # Lines of a text may have as many words each; tags without tabs before them are in capitals.
    tabs = all("\t" in line for line in first_lines(path, encoding) if line.strip())
    sure = tabs or (all(tag == tag.upper() for tag in tags) and any(map(str.isupper, tags)))
    return several and sure and not any(" " in tag or not tag or tag[0].isdigit() for tag in tags)


def _sentences(path: Path, encoding: str, width: int) -> Iterator[tuple[int, list[list[str]]]]:
    """The number of each sentence's first line, and its rows, which have `width` columns."""
    rows: list[list[str]] = []
    first = 0
    for number, line in enumerate(lines(path, encoding), start=1):
        if not line.strip():
            if rows:
                yield first, rows
            rows = []
            continue
        cells = _cells(line)
        if cells[0] == _DOCUMENT or _is_comment(path, line, width):
            continue
        if len(cells) == width - 1 and line[0].isspace():
            cells = [" ", *cells]
        if len(cells) != width:
            have = counted(len(cells), "column")
            raise CanonError(f"{path}, line {number}: {have}, but the lines before it have {width}.")
        first = first if rows else number
        rows.append(cells)
    if rows:
        yield first, rows


def _columns(path: Path, encoding: str, label: str, features: Sequence[str]) -> _Columns:
    peeked = first_lines(path, encoding)
    filled = _filled(path, peeked)
    if not filled:
        raise CanonError(
            f"{path} has no sentences; write a word and its tag on each line, and a blank line after each sentence."
        )
    width = len(filled[0])
    have = counted(width, "column")
    names, header = _names(peeked, filled[0])
    universal = ending(path) == ".conllu" or (width == len(FIELDS) and not names)
    if universal and width < len(FIELDS):
        raise CanonError(f"{path} has {have}; CoNLL-U has {len(FIELDS)}, separated by tabs.")
    names = FIELDS if universal else names
    if len(features) > 1:
        raise CanonError(f"data.features must name the words' column; got {len(features)}.")
    counts = width > 2 and not universal and _counts(peeked)
    usual = (1, 3) if universal else (int(counts), width - 1 if width > 1 else -1)
    word = _place(path, "data.features", features[0], names, width) if features else usual[0]
    tag = _place(path, "data.label", label, names, width) if label else usual[1]
    if word == tag:
        raise CanonError(f"data.label: column {tag + 1} of {path} has the words; give another of its {have}.")
    return _Columns(width, names, header, word, tag)


def _names(peeked: Sequence[str], first: list[str]) -> tuple[tuple[str, ...], bool]:
    """What the file calls its columns, and whether its first line does."""
    for line in peeked[:20]:
        if named := _GLOBAL.match(line):
            return tuple(name.lower() for name in named[1].split()), False
    plain = tuple(cell.strip().lower() for cell in first)
    header = any(cell in WORDS for cell in plain) and len(set(plain)) == len(plain) > 1
    return (plain, True) if header else ((), False)


def _counts(peeked: Sequence[str]) -> bool:
    """Whether the first column counts the words of each sentence."""
    numbers = [cells[0] for line in peeked if (cells := _cells(line)) and line.strip() and not line.startswith("#")]
    known = [int(number) for number in numbers if number.isdecimal()]
    return len(known) == len(numbers) > 1 and {b - a for a, b in pairwise(known) if b > a} == {1}


def _place(path: Path, setting: str, name: str, names: Sequence[str], width: int) -> int:
    """The column of a name or of a number from 1."""
    if name.lower() in names:
        return names.index(name.lower())
    if name.isdecimal() and 0 < int(name) <= width:
        return int(name) - 1
    if names:
        raise unknown_in(setting, "column", name, names)
    raise CanonError(f'{setting} must be the number of a column, 1 to {width}, since {path} names none; got "{name}".')


def read_conll(
    path: Path, encoding: str = "utf-8", label: str = "", features: Sequence[str] = ()
) -> tuple[TagRows, tuple[str, ...]]:
    """All sentences of a file, and notes on what was decided."""
    columns = _columns(path, encoding, label, features)
    universal = columns.names == FIELDS
    words: list[list[str]] = []
    tags: list[list[str]] = []
    starts: list[int] = []
    for first, rows in _sentences(path, encoding, columns.width):
        if columns.header and not starts and tuple(cell.strip().lower() for cell in rows[0]) == columns.names:
            rows = rows[1:]
        if universal:
            rows = [row for row in rows if row[0].isdigit()]
        if not rows:
            continue
        words.append([row[columns.word] for row in rows])
        tags.append([row[columns.tag] for row in rows] if columns.tag >= 0 else [])
        starts.append(first)
    if not starts:
        raise CanonError(f"{path} has no sentences; write a word and its tag on each line.")
    notes: list[str] = []
    every = [word for sentence in words for word in sentence]
    numbered = all(len(word) > 1 and word[-1].isdigit() for word in every)
    if numbered and sum(len(word) == 2 for word in every) > _CUT * len(every):
        words = [[word[:-1] for word in sentence] for sentence in words]
        notes.append(f"{path.name}: each character is followed by a digit, which is left out.")
    if columns.tag >= 0:
        notes += [_said(columns), *entity_notes(tags)]
    return TagRows(str(path), lambda row: f"line {starts[row]}", words, tags if columns.tag >= 0 else None), tuple(
        notes
    )


def _said(columns: _Columns) -> str:
    called = [
        f"column {place + 1}" + (f" ({columns.names[place]})" if columns.names else "")
        for place in (columns.word, columns.tag)
    ]
    more = "; data.features and data.label choose others" if columns.width > 2 else ""
    return f"The words are {called[0]}, the tags are {called[1]}{more}."


def entity_notes(tags: Sequence[Sequence[str]]) -> list[str]:
    """What form of entities the tags are, if they are any."""
    form = scheme(tags)
    return [f"The tags are entities in {form} form, scored by the F1 of whole entities."] if form else []
