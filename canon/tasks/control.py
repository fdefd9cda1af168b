"""Control: an agent is judged by the returns of episodes that it plays, and by what is known exactly of its policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.schema import Columns
from canon.tasks.base import Outputs, Plays, Remarks, Task
from canon.tasks.records import TASK_RECORDS

_NORMAL = 1.96  # standard errors of a 95 % interval

_ENDLESS = (
    "The policy may circle for ever, so that it has no value at system.gamma = 1: learn for longer, or set "
    "system.gamma below 1."
)


class Control(Task, Plays, Remarks):
    monitor = "return"
    scores_last = True  # what is learned by acting goes up and down
    loss_falls = False  # an error against targets that move with what is learned
    drawn_together = (
        ("train/return", "valid/return", "valid/return_low", "valid/return_high", "valid/exact_return"),
        ("valid/discounted", "valid/predicted", "valid/value", "valid/best_value"),
        ("train/length", "valid/length"),
    )

    def names(self) -> tuple[str, ...]:
        return tuple(score.metric for score in TASK_RECORDS["control"].scores)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """The means of all outputs over episodes, and how the returns are spread."""
        means = {name: float(values.mean(dtype=np.float64)) for name, values in outputs.items()}
        self.remarks = (_ENDLESS,) if np.isnan(means.get("value", 0.0)) else ()
        returns_E = outputs["return"]
        error = float(returns_E.std(ddof=1)) / np.sqrt(len(returns_E)) if len(returns_E) > 1 else np.nan
        spread = {
            "return_std": float(returns_E.std(ddof=1)) if len(returns_E) > 1 else np.nan,
            "return_median": float(np.median(returns_E)),
            "return_low": means["return"] - _NORMAL * error,
            "return_high": means["return"] + _NORMAL * error,
        }
        return {"return": means.pop("return"), **spread, **means}

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """An action for each observation, and the value of it where the agent knows one."""
        rows = [{"prediction": action} for action in outputs["action"].tolist()]
        if "value" in outputs:
            rows = [{**row, "value": value} for row, value in zip(rows, outputs["value"].tolist(), strict=True)]
        return rows
