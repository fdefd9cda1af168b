"""docs/data.md against the code: what check reports, and its example."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from canon.data.checking.report import CheckReport

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_part_of_the_report_is_explained() -> None:
    section = PAGE.split("## What check reports")[1].split("## ")[0]
    shown = {
        "splits": "examples",
        "image_sizes": "sizes",
        "lengths": "characters, words",
        "unknown_words": "vocabulary",
    }
    for field in fields(CheckReport):
        if field.name not in ("name", "kind", "notes", "warnings"):
            assert f"| {shown.get(field.name, field.name)} |" in section, field.name


def test_the_example() -> None:
    code = PAGE.split("```python\n")[1].split("```")[0]
    space: dict[str, object] = {}
    exec(code, space)
    data = space["data"]
    assert data.splits["train"]["input"].shape == (108, 4)  # type: ignore[attr-defined]
    assert data.schema.classes == ("setosa", "versicolor", "virginica")  # type: ignore[attr-defined]
