"""The recipes that come with canon, as records; a recipe's settings are read and checked by canon.recipe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from canon.config import Table, read_toml

RECIPES = Path(__file__).parent.parent / "recipes"
PIPELINES = RECIPES / "pipeline"  # of several stages, which canon.use.pipeline reads


@dataclass(frozen=True)
class RecipeRecord:
    """A recipe that comes with canon: its system, data, settings and expected scores."""

    name: str  # chapter/name
    system: str  # with its preset
    data: str  # a name of the catalogue
    settings: Table  # all that the file says, by section

    @property
    def expected(self) -> dict[str, tuple[float, float]]:
        """What a run reaches, by metric: low and high."""
        expect = self.settings.get("expect", {})
        return {key: (bounds[0], bounds[1]) for key, bounds in expect.items() if key != "curve"}


def recipe_files() -> dict[str, Path]:
    """The file of each recipe of one system, by name."""
    paths = [path for path in RECIPES.glob("*/*.toml") if path.parent != PIPELINES]
    return {str(path.relative_to(RECIPES).with_suffix("")): path for path in sorted(paths)}


def time_of(name: str) -> str:
    """What the first line of a recipe says about its time, "" for none: "about 3 minutes on two cores"."""
    path = recipe_files().get(name)
    first = path.read_text(encoding="utf-8").partition("\n")[0] if path else ""
    return re.split("[;,]", re.split(" {3,}", first, maxsplit=1)[-1])[0] if "   " in first else ""


def recipe_records() -> list[RecipeRecord]:
    """Every recipe's record, by name."""
    tables = {name: read_toml(path) for name, path in recipe_files().items()}
    return [
        RecipeRecord(name, table["system"]["name"], table["data"]["source"], table)
        for name, table in sorted(tables.items())
    ]


def pipeline_tables() -> dict[str, Table]:
    """What the recipe of each pipeline says, by name."""
    return {f"pipeline/{path.stem}": read_toml(path) for path in sorted(PIPELINES.glob("*.toml"))}
