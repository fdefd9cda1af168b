"""Settings of the losses; those of pre-training are beside its batches (canon.data.batching.settings)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canon.config import settings

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


@settings
class NoSettings:
    pass


@settings
class Smoothed:
    label_smoothing: Share = Field(default=0.0, description="ε: so much of the target is spread over all classes")


@settings
class Weighted:
    class_weights: Literal["none", "balanced"] | dict[str, Positive] = Field(
        default="none",
        description="weights of the classes' losses, a table by class name (1 where left out) or balanced, in inverse "
        "proportion to their examples; scaled so that their mean over the training examples is 1",
    )


@settings
class SmoothedWeighted(Smoothed, Weighted):
    pass


@settings
class Margin(Weighted):
    margin: Positive = Field(default=1.0, description="scores on the right side cost nothing from here on")


@settings
class FineTuning(SmoothedWeighted):
    auxiliary: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="λ of GPT-1: so much of the loss of next tokens is added; GPTs only, 0: none"
    )


@settings
class Temperature:
    temperature: Positive = Field(default=0.5, description="τ: cosines are divided by it")
