"""How the learning rate moves over a run; importing this imports no torch.

Papers: inverse-sqrt is Vaswani et al. 2017, section 5.3; cosine is one period of Loshchilov & Hutter 2017 (SGDR);
linear is the decay of Devlin et al. 2019; exponential is Zaremba et al. 2014 (constant, then divided by a number each
epoch), without its steps. Each warms up linearly over the first `warmup` steps.
Deviations: steps count from 1, so no step is made at rate 0 while warming up; without `dim`, inverse-sqrt is scaled
so that its peak is `lr` itself.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from canon.config import settings
from canon.errors import CanonError


@settings
class Schedule:
    name: Literal["constant", "linear", "cosine", "exponential", "inverse-sqrt"] = Field(
        default="constant", description="constant, linear, cosine, exponential or inverse-sqrt"
    )
    warmup: Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0, description="steps of linear rise at the start; below 1, their share of all steps"
    )
    final: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=0.0, description="share of lr left at the last step (linear, cosine, exponential)"
    )
    hold: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="share of the steps before the fall begins (exponential)"
    )
    dim: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="width of the model in the paper's formula (inverse-sqrt)"
    )

    @model_validator(mode="after")
    def _fields_that_act(self) -> Schedule:
        if self.name == "exponential" and not self.final:
            raise CanonError("optimizer.schedule.final must be more than 0 for exponential, as in 0.01.")
        for key, value, schedules in (
            ("final", self.final, ("linear", "cosine", "exponential")),
            ("hold", self.hold, ("exponential",)),
            ("dim", self.dim, ("inverse-sqrt",)),
        ):
            if value and self.name not in schedules:
                belongs = f"optimizer.schedule.{key} belongs to {', '.join(schedules)}"
                raise CanonError(f'{belongs}; the schedule is "{self.name}".')
        return self


def multiplier(schedule: Schedule, step: int, total_steps: int) -> float:
    """What `lr` is multiplied by at `step` = 1 … total_steps."""
    if step < 1:
        raise CanonError(f"A schedule's steps count from 1, got {step}.")
    peak = max(round(schedule.warmup * total_steps) if schedule.warmup < 1 else int(schedule.warmup), 1)
    if schedule.name == "inverse-sqrt":
        # dim^−½ · min(s^−½, s · w^−3/2); times √w without dim, which makes it 1 at s = w.
        factor = schedule.dim**-0.5 if schedule.dim else peak**0.5
        return factor * min(step**-0.5, step * peak**-1.5)
    if step <= peak:
        return step / peak
    if schedule.name == "constant":
        return 1.0
    if schedule.name == "exponential":
        first = max(schedule.hold * total_steps, peak)
        return schedule.final ** (max(step - first, 0.0) / max(total_steps - first, 1))
    left = 1 - min((step - peak) / max(total_steps - peak, 1), 1.0)  # 1 at the peak, 0 at the last step
    if schedule.name == "cosine":
        left = 0.5 * (1 + math.cos(math.pi * (1 - left)))
    return schedule.final + (1 - schedule.final) * left
