"""JSON in data files: whole texts, or an object on each line; what is wrong is a sentence with file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from canon.data.formats.files import ending, read_text, whole_lines
from canon.errors import CanonError, reason
from canon.storage import parse_json

ENDINGS = (".jsonl", ".ndjson", ".json")


def parse(text: str, where: str) -> Any:
    """What a JSON text holds; `where` is its file and line."""
    try:
        value = parse_json(text, where)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # raises where half a character is among it
    except CanonError as refusal:
        if isinstance(mistake := refusal.__cause__, json.JSONDecodeError):
            raise CanonError(f"{where}: not JSON ({mistake.msg} at character {mistake.pos + 1}).") from mistake
        raise
    except UnicodeEncodeError as mistake:
        raise CanonError(f"{where}: {reason(mistake)}; correct or remove it.") from None
    return value


def rows(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """The number of each line that is not blank, and what it holds; of a .json that is one list, what that holds."""
    if is_list(path, encoding):
        whole = parse(read_text(path, encoding), str(path))
        yield from enumerate(whole, start=1)
        return
    for number, line in enumerate(whole_lines(path, encoding), start=1):
        if line.strip():
            yield number, parse(line.rstrip("\n"), f"{path}, line {number}")


def is_list(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a .json file is one list rather than a value on each line."""
    if ending(path) != ".json":
        return False
    return next((line for line in whole_lines(path, encoding) if line.strip()), "").lstrip().startswith("[")


def objects(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """`rows` of a file that has an object on each line."""
    for number, row in rows(path, encoding):
        if not isinstance(row, dict):
            raise CanonError(f'{path}, line {number}: each line must be an object, as {{"text": "…", "label": "…"}}.')
        yield number, row


def flattened(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """`objects` without objects in them: {"a": {"b": 1}} becomes {"a.b": 1}."""
    return ((number, dict(_flat("", row))) for number, row in objects(path, encoding))


def _flat(prefix: str, row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def first_object(path: Path, encoding: str = "utf-8") -> dict[str, Any] | None:
    """What the first line holds, to recognise a file; None where that is not an object."""
    try:
        _, row = next(rows(path, encoding), (0, None))
    except CanonError:
        return None
    return row if isinstance(row, dict) else None
