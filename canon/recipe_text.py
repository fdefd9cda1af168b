"""Settings as the TOML of a run's recipe.toml: every effective value, and in a comment where it came from."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

from canon.config import Table

EFFECTIVE = ": every effective value and where it came from."


def effective_settings(text: str) -> tuple[str, dict[str, list[tuple[str, str, str]]]]:
    """Reads what `to_toml` wrote: the recipe's name, and by section (key, value, origin); "" for any other TOML."""
    lines = text.splitlines()
    if not lines or not lines[0].endswith(EFFECTIVE):
        return "", {}
    part = ""
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for line in lines[1:]:
        if line.startswith("["):
            part = line.strip("[]")
        elif " = " in line and not part.startswith("expect"):
            setting, mark, origin = line.rpartition("  # ")
            key, _, value = (setting if mark else line).partition(" = ")
            sections.setdefault(part, []).append((key, value, origin if mark else ""))
    return lines[0].removeprefix("# ").removesuffix(EFFECTIVE), sections


def values_of(record: Any) -> Table:
    """A settings record as a TOML table; TOML has no null, so what is None is left out."""
    rows = {f.name: getattr(record, f.name) for f in fields(record)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in rows.items() if value is not None}


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """As TOML writes it: in quotes where it is not one word."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
