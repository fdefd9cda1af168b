"""Types of settings that systems share. Whole numbers have an upper bound, so that a size that no machine can hold is
refused where it is written: an index has 31 bits, and what is built one by one (layers, beams, steps) is counted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from canon.config import settings
from canon.contracts import WIDEST

_MOST = 2**31 - 1

Positive = Annotated[int, Field(gt=0, le=_MOST)]
Natural = Annotated[int, Field(ge=0, le=_MOST)]
Classes = Annotated[int, Field(ge=2, le=_MOST)]
Shape = tuple[Positive, ...]  # of one input
Depth = Annotated[int, Field(gt=0, le=1000)]  # each is a module of its own
DepthOrNone = Annotated[int, Field(ge=0, le=1000)]
Units = Annotated[tuple[Positive, ...], Field(max_length=1000)]  # of each layer
Times = Annotated[float, Field(gt=0, le=1000)]  # a factor of widths
Share = Annotated[float, Field(ge=0, lt=1)]
Beam = Annotated[int, Field(gt=0, le=WIDEST)]  # hypotheses
Length = Annotated[int, Field(ge=0, le=100_000)]  # tokens of one text, which outputs have room for
Penalty = Annotated[float, Field(ge=0, le=10)]  # α of a beam's length penalty


@settings
class ImageConfig:
    """What all networks have that classify images of ImageNet's size."""

    shape: Shape = Field(default=(3, 224, 224), description="channels, height, width; the data decides")
    num_classes: Classes = Field(default=1000, description="the data decides")
