"""JSON in data files: whole texts, or an object on each line; what is wrong is a sentence with file and line.

Rows of Parquet, which have lists and structs too, are read as such objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from canon.data.formats import parquet
from canon.data.formats.files import ending, read_text, whole_lines
from canon.errors import CanonError, reason
from canon.storage import parse_json

ENDINGS = (".jsonl", ".ndjson", ".json")
WITH_LISTS = (*ENDINGS, ".parquet")
_ARTICLES = "paragraphs"  # of SQuAD, which has tables inside


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


def rows(path: Path, encoding: str = "utf-8", batch: int = parquet.BATCH) -> Iterator[tuple[int, Any]]:
    """The number of each line that is not blank, and what it holds; of a .json that is one value, what is in that."""
    if ending(path) == ".parquet":
        yield from enumerate(parquet.rows(path, batch), start=1)
        return
    if is_whole(path, encoding):
        whole = parse(read_text(path, encoding), str(path))
        if isinstance(whole, dict) and "train" in whole and all(isinstance(part, list) for part in whole.values()):
            parts = " and ".join(f"{name}.json" for name in list(whole)[:2])
            raise CanonError(
                f"{path} has the parts {', '.join(list(whole)[:4])} in one object: write each to a file of its own, "
                f'{parts}, a list of objects such as {{"text": "…", "label": "…"}}.'
            )
        yield from enumerate(_items(whole), start=1)
        return
    for number, line in enumerate(whole_lines(path, encoding), start=1):
        if line.strip():
            yield number, parse(line.rstrip("\n"), f"{path}, line {number}")


def is_whole(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a .json file is one value rather than a value on each line: by its first lines."""
    if ending(path) != ".json":
        return False
    first, *more = list(islice((line.strip() for line in whole_lines(path, encoding) if line.strip()), 2)) or [""]
    return first.startswith("[") or not more or not (first.endswith("}") and more[0].startswith("{"))


def _items(whole: Any) -> list[Any]:
    """The objects in a list; in an object the one list of them, or its rows or columns, as pandas writes
    them: it has more rows than columns."""
    if isinstance(whole, list) or not isinstance(whole, dict):
        return whole if isinstance(whole, list) else [whole]
    lists = [value for value in whole.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(lists) == 1 and _ARTICLES not in lists[0][0]:
        return lists[0]
    inside = list(whole.values())
    if all(isinstance(value, dict) for value in inside) and len(inside) > max(map(len, inside), default=0):
        return inside
    columns = [list(value.values()) if isinstance(value, dict) else value for value in whole.values()]
    sizes = {len(column) if isinstance(column, list) else 0 for column in columns}
    if len(columns) > 1 and len(sizes) == 1 and sizes.pop() > 1:
        return [dict(zip(whole, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return [whole]


def objects(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """`rows` of a file that has an object on each line."""
    for number, row in rows(path, encoding):
        if not isinstance(row, dict):
            raise CanonError(f'{path}, line {number}: each line must be an object, as {{"text": "…", "label": "…"}}.')
        yield number, row


def flattened(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """`objects` without objects in them: {"a": {"b": 1}} becomes {"a.b": 1}."""
    return ((number, dict(flat(row))) for number, row in objects(path, encoding))


def flat(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an object, those of objects in it under names with a dot."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def first_object(path: Path, encoding: str = "utf-8") -> dict[str, Any] | None:
    """What the first line holds, to recognise a file; None where that is not an object."""
    try:
        _, row = next(rows(path, encoding, batch=1), (0, None))
    except CanonError:
        return None
    return row if isinstance(row, dict) else None
