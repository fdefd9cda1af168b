"""The files of a run: what each must contain, and the functions that read all of them.

A record that other files depend on is sealed: it contains the sha256 of the rest of itself, so that one flipped bit is
detected. A file of lines may end in the middle of one, if its writer was killed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from canon.config import Table
from canon.errors import CanonError, border
from canon.storage import read_json

_SEAL = "sha256"
_MARK = "# sha256 of the other lines: "

# What a file must contain at least: {"key": shape}, {str: shape} for any keys, [shape], or types.
_NUMBER = (int, float)
_FILE = {"bytes": int, "sha256": str}
DATA = {
    "name": str,
    "fingerprint": str,
    "examples": {str: int},
    "files": [{"name": str, **_FILE}],
    "protocol": dict,
    "notes": [str],
}
_COST = {"seconds": _NUMBER, "examples": int, "examples_per_second": _NUMBER, "parameters": int, "memory_bytes": int}
RESULT = {
    "recipe": str,
    "system": str,
    "seed": int,
    "steps": int,
    "best_step": int,
    "ended": str,
    "scores": {str: {str: (*_NUMBER, type(None))}},  # None: undefined for its split
    "remarks": [str],
    "risk": {str: _NUMBER},
    "expected": {str: [_NUMBER]},
    "protocol": dict,
    "cost": {**_COST, "device": str, "processes": int},
}
MANIFEST = {"system": str, "step": int, "files": {"state.json": _FILE, str: _FILE}}
STATE = {
    "step": int,
    "best": dict,
    "waited": int,
    "valid": {str: _NUMBER},
    "seconds": _NUMBER,
    "metrics_bytes": int,
    "learner": dict,
}


def read(path: Path, shape: Table, remedy: str) -> Table:
    """The record in a JSON file, if it has the `shape`; else a CanonError whose sentence ends in `remedy`."""
    try:
        record = checked(read_json(path), shape, path)
    except CanonError as mistake:
        raise CanonError(f"{str(mistake).rstrip('.')}; {remedy}.") from None
    if record.pop(_SEAL, None) not in (None, _seal_of(record)):
        raise CanonError(f"{path} is not as it was written (its sha256 differs); {remedy}.")
    return record


def checked(record: Any, shape: Table, where: str | Path) -> Table:
    """`record` itself, if it has the `shape`."""
    if wrong := _misfit(record, shape, ""):
        raise CanonError(f"{where} is damaged: {wrong}.")
    return record


def _misfit(value: Any, shape: Any, key: str) -> str:
    """What is wrong with a value; "" if it has the shape."""
    name = key or "its content"
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{name} is not a table"
        if missing := [each for each in shape if each is not str and each not in value]:
            return f"{key and key + '.'}{missing[0]} is missing"
        inside = ((each, shape.get(each, shape.get(str))) for each in value)
        wrong = (_misfit(value[each], of, f"{key and key + '.'}{each}") for each, of in inside if of is not None)
        return next(filter(None, wrong), "")
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{name} is not a list"
        return next(filter(None, (_misfit(each, shape[0], f"{key}.{i}") for i, each in enumerate(value))), "")
    kinds = shape if isinstance(shape, tuple) else (shape,)
    return "" if type(value) in kinds else f"{name} is {value!r:.40}"


def sealed(record: Table) -> str:
    """A record as JSON, with its own hash."""
    return json.dumps({**record, _SEAL: _seal_of(record)}, ensure_ascii=False, indent=1)


def _seal_of(record: Table) -> str:
    plain = json.loads(json.dumps(record))  # as it will be read: keys are texts, tuples are lists
    return digest(json.dumps(plain, sort_keys=True))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sealed_lines(text: str) -> str:
    """A text with the hash of its lines as its second line, which is a comment."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{_MARK}{digest(text)}\n{rest}"


def is_as_sealed(text: str) -> bool:
    """Whether a text is unchanged since `sealed_lines`; one without such a line counts as unchanged."""
    first, _, below = text.partition("\n")
    seal, _, rest = below.partition("\n")
    return not seal.startswith(_MARK) or seal == _MARK + digest(f"{first}\n{rest}")


def rows(path: Path) -> tuple[list[dict[str, float]], bool]:
    """The rows of a file of JSON lines up to the first damaged one, and whether these are all.

    A last line that was cut off because the writer was killed is left out and does not count as damage."""
    rows: list[dict[str, float]] = []
    with border(path):
        *lines, _cut_off = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return rows, False
        if not (isinstance(row, dict) and "step" in row and all(type(v) in (int, float) for v in row.values())):
            return rows, False
        rows.append(row)
    return rows, True
