"""Objectives with settings, as a recipe would choose them."""

from __future__ import annotations

from typing import Any

from canon.objectives.record import ObjectiveChoice
from canon.objectives.table import by_name


def choice(name: str, task: str, **settings: Any) -> ObjectiveChoice:
    return ObjectiveChoice(by_name()[name], by_name()[name].tasks[task](**settings))
