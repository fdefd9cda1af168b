"""The recipes that come with canon, as records; a recipe's settings are read and checked by canon.recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from canon.config import Table, read_toml

RECIPES = Path(__file__).parent.parent / "recipes"


@dataclass(frozen=True)
class RecipeRecord:
    name: str  # chapter/name
    system: str  # with its preset
    data: str  # a name of the catalogue
    settings: Table  # all that the file says, by section

    @property
    def expected(self) -> dict[str, tuple[float, float]]:
        """What a run reaches, by metric: low and high."""
        expect = self.settings.get("expect", {})
        return {key: (bounds[0], bounds[1]) for key, bounds in expect.items() if key != "curve"}


def recipe_records() -> list[RecipeRecord]:
    """Every recipe's record, by name."""
    tables = {str(path.relative_to(RECIPES).with_suffix("")): read_toml(path) for path in RECIPES.glob("*/*.toml")}
    return [
        RecipeRecord(name, table["system"]["name"], table["data"]["source"], table)
        for name, table in sorted(tables.items())
    ]
