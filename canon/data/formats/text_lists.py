"""Queries with a list of texts that belong to each and a list of others that do not, as tools for retrieval write them.

{"query": "…", "pos": ["…", "…"], "neg": ["…"]} in JSON lines or Parquet. Each text that belongs to a query makes a row;
all rows have equally many of the others, the first ones, as many as every query has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canon.data.formats import json_lines
from canon.data.formats.files import ending
from canon.data.formats.row_dicts import row_dicts
from canon.data.formats.rows import SentenceRows
from canon.errors import CanonError

_QUERY = ("query", "anchor", "question")
_RIGHT = ("pos", "positive", "positives")
_WRONG = ("neg", "negative", "negatives", "hard_negatives")


def has_lists(path: Path) -> tuple[str, ...]:
    """The columns of a file of queries with lists of texts, by its first row; () if it is another."""
    first: dict[str, Any] | None = None
    if path.is_file() and ending(path) in json_lines.ENDINGS:
        first = json_lines.first_object(path, "")
    elif path.is_file() and ending(path) == ".parquet":
        first = next((row for _, row in row_dicts(path)), None)
    if first is None:
        return ()
    known = [next((name for name in names if name in first), "") for names in (_QUERY, _RIGHT, _WRONG)]
    query, right, _ = known
    lists = [first[name] for name in known[1:] if name and isinstance(first[name], list)]
    are_texts = all(isinstance(text, str) for texts in lists for text in texts)
    return tuple(name for name in known if name) if query and right and lists and are_texts else ()


def read_lists(path: Path) -> tuple[SentenceRows, str]:
    """The rows, and a note on what a row is."""
    query, right, *wrong = has_lists(path)
    rows: list[tuple[str, str, list[str]]] = []
    places, groups = [], []
    for number, (where, row) in enumerate(row_dicts(path)):
        negatives = _texts(where, wrong[0], row.get(wrong[0])) if wrong else []
        for positive in _texts(where, right, row.get(right)):
            rows.append((_text(where, query, row.get(query)), positive, negatives))
            places.append(where.removeprefix(f"{path}, "))
            groups.append(number)
    if not rows:
        raise CanonError(f'{path}: every list "{right}" is empty.')
    most = min(len(negatives) for *_, negatives in rows)
    sentences = [(text, positive, *negatives[:most]) for text, positive, negatives in rows]
    several = groups if len(set(groups)) < len(groups) else []
    with_others = f' with {most} of "{wrong[0]}", as many as every row has' if wrong else ""
    note = f'{path.name}: each text of "{right}" is a row{with_others}.'
    return SentenceRows(str(path), lambda row: places[row], sentences, groups=several), note


def _texts(where: str, name: str, value: Any) -> list[str]:
    """A text alone, or a list of texts."""
    return [_text(where, name, text) for text in (value if isinstance(value, list) else [value] if value else [])]


def _text(where: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise CanonError(f'{where}: "{name}" must hold texts, got {value!r:.40}.')
    return value
