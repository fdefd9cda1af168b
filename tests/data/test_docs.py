"""docs/data.md against the code: every setting, every named set, and its example."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from canon.data.catalogue import CATALOGUE
from canon.data.checking.report import CheckReport
from canon.data.config import DataConfig

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_setting_is_in_the_table() -> None:
    section = PAGE.split("## Settings")[1].split("## ")[0]
    found = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.*) \|$", section, flags=re.MULTILINE)
    described = DataConfig.__pydantic_fields__  # type: ignore[attr-defined]
    assert [(name, text) for name, _, text in found] == [
        (field.name, described[field.name].description)
        for field in fields(DataConfig)  # type: ignore[arg-type]
    ]


def test_every_set_is_in_the_table() -> None:
    section = PAGE.split("## Named sets")[1].split("## ")[0]
    rows = re.findall(
        r"^\| `(\S+)` \| (.*?) \| (\w+) \| (.*?) \| .*? \| (.*?) \| (.*?) \|$", section, flags=re.MULTILINE
    )
    assert rows == [
        (record.name, record.title, record.kind, record.size, record.source, record.licence)
        for record in CATALOGUE.values()
    ]


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
