"""Settings of the ways of pre-training. The table of objectives lists them; canon.data.batching.composer
makes batches by them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canon.config import settings

Masking = Literal["token", "word", "span"]
TaskName = Literal["masked", "relation", "order", "distance"]
Share = Annotated[float, Field(gt=0, lt=1)]


@settings
class CausalSettings:
    pass


@settings
class MaskedSettings:
    masking: Masking = Field(default="token", description="what is hidden as a whole")
    mask_share: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.15, description="share of tokens to fill in")
    always_mask: bool = Field(
        default=False, description="every token to fill in becomes the mask; off: 80 %, others another token or itself"
    )
    next_sentence: bool = Field(default=False, description="whether two texts follow each other is learned too")


@settings
class PrefixSettings(MaskedSettings):
    masking: Masking = Field(default="span", description="what is hidden as a whole")


@settings
class PermutationSettings:
    predict_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1 / 6, description="share of tokens predicted: the last ones in the order, 1/K of the paper"
    )


@settings
class CorruptionSettings:
    corrupt_share: Share = Field(default=0.15, description="share of tokens left out")
    corrupt_span: Annotated[float, Field(ge=1)] = Field(default=3.0, description="mean length of what is left out")


@settings
class ContinualSettings:
    masking: Masking = Field(default="span", description="what is hidden as a whole")
    mask_share: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.15, description="share of tokens to fill in")
    tasks: tuple[TaskName, ...] = Field(
        default=("masked", "relation", "order", "distance"), min_length=1, description="what is learned, in this order"
    )
    stage: Annotated[int, Field(ge=0, le=2**31 - 1)] = Field(
        default=0, description="steps until the next of the tasks joins; 0: all from the beginning"
    )
