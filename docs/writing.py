"""Markdown as the generated blocks have it: tables, links, and lines of at most 120 characters."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

from canon.registry import System

ROOT = Path(__file__).parent.parent
_WIDTH = 120
_MARKER = re.compile(r" (?=[-+*#>|] )")  # would begin a list, a heading or a table at the start of a line
_CODE = re.compile(r"`[^`]{1,70}`")


def table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def link(page: Path, system: System) -> str:
    return f"[`{system.name}`]({relative(page, system.docs)})"


def relative(page: Path, target: str) -> str:
    """target: from the root of the repository."""
    return Path(os.path.relpath(ROOT / target, page.parent)).as_posix()


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def wrapped(text: str) -> str:
    """The text with long lines broken; those of tables and of pictures stay."""
    return "".join(line if line.startswith(("|", "![")) else _broken(line) for line in text.splitlines(keepends=True))


def _broken(line: str) -> str:
    indent = "  " if line.startswith("- ") else ""
    glued = line[:2] + _MARKER.sub("\0", line[2:].rstrip("\n"))
    glued = _CODE.sub(lambda match: match[0].replace(" ", "\0"), glued)
    parts = textwrap.wrap(
        glued, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )
    return "\n".join(parts).replace("\0", " ") + "\n"
