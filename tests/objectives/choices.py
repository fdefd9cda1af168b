"""Objectives with settings, as a recipe would choose them."""

from __future__ import annotations

from typing import Any

from canon.objectives.record import Choice
from canon.objectives.table import BY_NAME


def choice(name: str, task: str, **settings: Any) -> Choice:
    return Choice(BY_NAME[name], BY_NAME[name].tasks[task](**settings))
