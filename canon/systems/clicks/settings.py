"""Settings that all systems over fields share; the data decides them."""

from __future__ import annotations

from pydantic import Field

from canon.config import settings
from canon.systems.settings import Classes, Natural, Positive


@settings
class FieldConfig:
    num_rows: Positive = Field(default=100, description="rows of the table; the data decides")
    widths: tuple[Positive, ...] = Field(default=(1, 1), description="places of each field; the data decides")
    apart: bool = Field(default=False, description="whether features belong to no fields; the data decides")
    crosses: Natural = Field(default=0, description="crosses of fields; the data decides (data.crosses)")
    cross_rows: Positive = Field(default=1, description="weights that crosses share; the data decides")
    num_classes: Classes = Field(default=2, description="the data decides")
