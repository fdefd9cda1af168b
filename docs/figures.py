"""The figures of all benchmarks, from benchmarks/results: where, when and by which command each was measured."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from writing import ROOT, relative, table

RESULTS = ROOT / "benchmarks" / "results"
ELSEWHERE = {"mq2008": "docs/ranking.md", "first_hour": "docs/first-hour.md"}  # pages that have these figures
_ABOUT = ("command", "machine", "note", "device", "rounds")
_SPREADS = (("median_s", "min_s", "max_s"), ("median", "min", "max"))


def every(page: Path) -> str:
    """A section for each file of results."""
    results = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RESULTS.glob("*.json"))}
    # A file has one result, or that of each of several works.
    each = {name: {"": result} if "machine" in result else result for name, result in results.items()}
    named = [(name, work, result) for name, works in each.items() for work, result in works.items()]
    return "\n".join(part for name, work, result in named for part in _section(page, name, work, result))


def _section(page: Path, name: str, work: str, result: Mapping[str, Any]) -> Iterator[str]:
    machine = result["machine"]
    yield f"## {name}{f', {work}' if work else ''}\n"
    yield f"{_purpose(result['command'])}\n"
    cores = f"{result['device']}, " if result.get("device", "cpu") != "cpu" else ""
    about = f"{cores}{machine['processor']}, {machine['cores']} cores, {machine['date']}"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"`{result['command']}`; {about}; {versions}.\n"
    if result.get("note"):
        yield f"{result['note']}\n"
    if name in ELSEWHERE:
        yield f"The figures are on [a page of their own]({relative(page, ELSEWHERE[name])}).\n"
        return
    yield from _tables("", {key: value for key, value in result.items() if key not in _ABOUT})


def _purpose(command: str) -> str:
    """The first sentence of the script's docstring, without the command."""
    match = re.search(r"benchmarks/\w+\.py", command)
    assert match is not None, command
    lines = (ast.get_docstring(ast.parse((ROOT / match[0]).read_text(encoding="utf-8"))) or "").split("\n\n")
    text = re.sub(r":? `[^`]*benchmarks/[^`]*`", "", " ".join(lines[0].split()))
    return re.split(r"(?<=[.:]) (?=[A-Z])", text)[0].rstrip(".:") + "."


def _tables(name: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Cells in a line, rows of equal cells in a table, and what is deeper below its name."""
    cells = {key: shown for key, part in value.items() if (shown := cell(part))}
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    deeper: dict[str, Any] = {}
    for key, part in value.items():
        if isinstance(part, dict) and part and all(map(cell, part.values())):
            if key not in cells:
                tables.setdefault(tuple(part), []).append([_plain(key), *map(cell, part.values())])
        elif key not in cells and part:
            deeper[key] = part
    line = ", ".join(f"{_plain(key)} {shown}" for key, shown in cells.items())
    if name and (line or tables):
        yield f"**{name}**{': ' if line else ''}{line}\n"
    elif line:
        yield f"{line[0].upper()}{line[1:]}\n"
    for heads, rows in tables.items():
        if len(rows) > 1 or heads[0].isdigit():
            yield table(("", *map(_plain, heads)), rows)
        else:
            (first, *shown), *_ = rows
            yield f"{first}: {', '.join(f'{_plain(key)} {one}' for key, one in zip(heads, shown, strict=True))}\n"
    for key, part in deeper.items():
        below = f"{name}, {_plain(key)}" if name else _plain(key)
        yield from _tables(below, _named(part) if isinstance(part, list) else part)


def _named(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows by what they are about."""
    return {str(row.pop("data", place)): row for place, row in enumerate(rows, start=1)}


def cell(value: Any) -> str:
    """A number, a text or several numbers in short; "" for what needs a table of its own."""
    if isinstance(value, dict):
        for middle, low, high in _SPREADS:
            if {middle, low, high} <= value.keys():
                return f"{_number(value[middle])} ({_number(value[low])} to {_number(value[high])})"
        return f"{_number(value['mean'])} ± {_number(value['sd'])}" if {"mean", "sd"} <= value.keys() else ""
    if isinstance(value, list):
        if not value or not all(isinstance(one, int | float) for one in value):
            return ""
        if len(value) == 2:
            return f"{_number(min(value))} to {_number(max(value))}"
        return f"{_number(median(value))} ({_number(min(value))} to {_number(max(value))})"
    return _number(value) if isinstance(value, int | float | None) else str(value)


def _number(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:,.4g}"


def _plain(name: str) -> str:
    return name.replace("_", " ").replace("|", "\\|")
