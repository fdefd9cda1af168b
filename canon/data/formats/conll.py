"""Sentences with a tag for each word: CoNLL's columns and CoNLL-U, as shared tasks and treebanks publish them.

CoNLL: a word a line, columns parted by tabs or spaces, a blank line behind each sentence; the word is the first column
and the tag the last, unless data.label gives a column's number. CoNLL-U (Nivre et al. 2016): ten columns parted by
tabs; the word is FORM, the tag UPOS unless data.label names another (xpos, deprel, feats); comments, words of several
tokens (1-2) and empty nodes (1.1) are passed over. A character with the digit of its place in a word behind it (科0, as
Weibo's NER has it) is read without the digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from canon.data.formats.files import ending, lines
from canon.data.formats.rows import TagRows
from canon.errors import CanonError, unknown

ENDINGS = (".conllu", ".conll", ".iob", ".iob2", ".bio", ".ner")
FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
_PEEK = 2000  # lines looked at to tell the format
_DOCUMENT = "-DOCSTART-"  # CoNLL 2003's line between documents
_CUT = 0.9  # share of words that are a character and a digit, where all end in one


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def is_conll(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file has columns of words: by its ending, or since all lines have as many columns, or none."""
    if ending(path) in ENDINGS:
        return True
    try:
        some = list(islice(lines(path, encoding), _PEEK))
    except CanonError:
        return False
    filled = [_cells(line) for line in some if line.strip()]
    widths = {len(cells) for cells in filled}
    short = all(len(cells[0]) < 60 for cells in filled)
    return len(widths) == 1 and widths.pop() > 1 and short and any(not line.strip() for line in some)


def _is_universal(path: Path, width: int) -> bool:
    return ending(path) == ".conllu" or width == len(FIELDS)


def _sentences(path: Path, encoding: str) -> Iterator[tuple[int, list[list[str]]]]:
    """The number of each sentence's first line, and its rows; every row has as many columns as the first of all."""
    rows: list[list[str]] = []
    first, width = 0, 0
    for number, line in enumerate(lines(path, encoding), start=1):
        if not line.strip():
            if rows:
                yield first, rows
            rows = []
            continue
        if line.startswith("#") and (ending(path) == ".conllu" or "\t" not in line):
            continue
        cells = _cells(line)
        if cells[0] == _DOCUMENT:
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise CanonError(f"{path}, line {number}: {_count(len(cells))}, but the lines before it have {width}.")
        if not rows:
            first = number
        rows.append(cells)
    if rows:
        yield first, rows


def _count(number: int) -> str:
    return f"{number} column" + "s" * (number != 1)


def _columns(path: Path, width: int, label: str) -> tuple[int, int]:
    """Where word and tag stand; −1 for a file of words alone."""
    if _is_universal(path, width):
        if width < len(FIELDS):
            raise CanonError(f"{path} has {_count(width)}; CoNLL-U has {len(FIELDS)}, parted by tabs.")
        name = label.lower() or "upos"
        if name not in FIELDS:
            sentence = str(unknown("column", label, FIELDS))
            raise CanonError(f"data.label: {sentence[0].lower()}{sentence[1:]}")
        return 1, FIELDS.index(name)
    if not label:
        return 0, width - 1 if width > 1 else -1
    if not label.isdigit() or not 1 < int(label) <= width:
        raise CanonError(
            f'data.label: {path} has {_count(width)}; give the tag\'s as a number from 2 to {width}, got "{label}".'
        )
    return 0, int(label) - 1


def read_conll(path: Path, encoding: str = "utf-8", label: str = "") -> tuple[TagRows, tuple[str, ...]]:
    """All sentences of a file, and notes on what was decided."""
    words: list[list[str]] = []
    tags: list[list[str]] = []
    starts: list[int] = []
    place = (0, 0)
    for first, rows in _sentences(path, encoding):
        if not starts:
            place = _columns(path, len(rows[0]), label)
        if _is_universal(path, len(rows[0])):
            rows = [row for row in rows if row[0].isdigit()]
        if not rows:
            continue
        words.append([row[place[0]] for row in rows])
        tags.append([row[place[1]] for row in rows] if place[1] >= 0 else [])
        starts.append(first)
    if not starts:
        raise CanonError(f"{path} has no sentences; each line is a word and its tag, and a blank line parts sentences.")
    notes = []
    if _has_digits(words):
        words = [[word[:-1] for word in sentence] for sentence in words]
        notes.append(f"{path.name}: each character has a digit behind it, which is left out.")
    found = TagRows(str(path), lambda row: f"line {starts[row]}", words, tags if place[1] >= 0 else None)
    return found, tuple(notes)


def _has_digits(words: list[list[str]]) -> bool:
    every = [word for sentence in words for word in sentence]
    return all(len(word) > 1 and word[-1].isdigit() for word in every) and (
        sum(len(word) == 2 for word in every) > _CUT * len(every)
    )
