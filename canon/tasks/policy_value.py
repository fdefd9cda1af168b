"""The value of a policy: what others' episodes say of it, beside its own."""

from __future__ import annotations

from canon.data.schema import Columns
from canon.tasks.base import Outputs
from canon.tasks.control import Control
from canon.tasks.records import TASK_RECORDS

_FEW = 0.05  # effective share of the episodes below which an interval means little


class PolicyValue(Control):
    monitor = "log_episodes"  # more of them are better, so the last checkpoint is used

    def names(self) -> tuple[str, ...]:
        return tuple(score.metric for score in TASK_RECORDS["policy-evaluation"].scores)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = super().score(outputs, columns)
        share = scores["effective_sample"] / max(scores["log_episodes"], 1)
        if share < _FEW:
            self.remarks = (
                f"The {scores['log_episodes']:,.0f} episodes weigh as much as {scores['effective_sample']:.1f} of the "
                "policy itself: estimates and interval may be far off. Act more like the policy (system.behaviour).",
            )
        return scores
