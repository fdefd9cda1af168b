"""Settings of the losses; those of pre-training are in canon.pretexts."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from canon.config import settings

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


def _class_weights(value: Any) -> Any:
    if value in ("none", "balanced"):
        return value
    weights: list[Any] = list(value.values()) if isinstance(value, dict) else [None]
    if not all(type(weight) in (int, float) and weight > 0 and isfinite(weight) for weight in weights):
        raise ValueError(
            'objective.class_weights must be "none", "balanced" or a table of positive weights by class name, as in '
            f"{{ spam = 2.0, ham = 1.0 }}, got {value!r}."
        )
    return value


@settings
class NoSettings:
    pass


@settings
class Smoothed:
    label_smoothing: Share = Field(default=0.0, description="ε: so much of the target is spread over all classes")


@settings
class Weighted:
    class_weights: Annotated[str | dict[str, float], PlainValidator(_class_weights)] = Field(
        default="none",
        description="of the classes' losses: none, balanced, or a table by class name; scaled to a mean of 1 over the "
        "training examples",
    )


def _threshold(value: Any) -> Any:
    if value == "auto" or (type(value) in (int, float) and 0 < value < 1):
        return value
    raise ValueError(f'objective.threshold must be "auto" or a probability between 0 and 1, got {value!r}.')


@settings
class Decided(Weighted):
    threshold: Annotated[str | float, PlainValidator(_threshold)] = Field(
        default="auto",
        description="two classes: the least probability of the second one to be predicted; auto: ½, but where one "
        "class is under a fifth of the training examples the one of the best f1_macro on the validation set",
    )


@settings
class SmoothedDecided(Smoothed, Decided):
    pass


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
class Verbalised(SmoothedWeighted):
    mlm: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="α: (1 − α) of the loss is that of the words, α that of hidden tokens of the text"
    )


@settings
class Negatives:
    negatives: Annotated[int, Field(gt=0)] = Field(default=5, description="words or labels drawn as noise")


@settings
class Temperature:
    temperature: Positive = Field(default=0.5, description="τ: cosines are divided by it")


@settings
class Contrast:
    temperature: Positive = Field(default=0.05, description="τ: cosines are divided by it")


@settings
class OtherTexts(Contrast):
    hard_weight: Positive = Field(default=1.0, description="α: so often an anchor's own negatives count")
    symmetric: bool = Field(default=False, description="the mean of this and of texts that choose their anchors")


@settings
class TripletMargin:
    margin: Positive = Field(default=1.0, description="m: so much further away a text must be that does not belong")
