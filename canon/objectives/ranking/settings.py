"""Settings of the losses that learn an order."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canon.config import settings

Positive = Annotated[float, Field(gt=0)]
Cut = Annotated[int, Field(gt=0)]


@settings
class Pointwise:
    per: Literal["query", "pair", "document"] = Field(
        default="query",
        description="query: the mean over a query's documents, then over queries with documents of unequal grades; "
        "pair: a query counts by its pairs of unequal grades; document: the mean over all documents, those of other "
        "queries too",
    )


@settings
class Threshold(Pointwise):
    relevant: Positive = Field(default=1.0, description="documents of this grade or more are relevant")


@settings
class HingeThreshold(Threshold):
    squared: bool = Field(default=False, description="the square of the hinge")


@settings
class ThresholdHinges(Pointwise):
    squared: bool = Field(default=False, description="the square of the hinge")


@settings
class Pairwise:
    per: Literal["query", "pair", "document"] = Field(
        default="query",
        description="query: the mean over a query's pairs, then over queries; pair: over all pairs, so that long "
        "queries count for more; document: the sum over pairs, by the number of documents",
    )


@settings
class PairLogistic(Pairwise):
    sigma: Positive = Field(default=1.0, description="σ₀: differences of scores are multiplied by it")
    ties: Literal["none", "half"] = Field(
        default="none", description="half: pairs of equal grades count too, as one before the other with probability ½"
    )
    pairs: Literal["all", "adjacent"] = Field(
        default="all", description="adjacent: only pairs of grades with none between them in the query"
    )


@settings
class PairMargin(Pairwise):
    margin: Positive = Field(default=1.0, description="m: pairs that are apart by so much cost nothing")
    squared: bool = Field(default=False, description="the square of the hinge")


@settings
class Mixed(PairLogistic):
    beta: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1, description="β: (1 − β) of the loss is that of pairs, β that of grades"
    )


@settings
class Listwise:
    per: Literal["query", "pair", "document"] = Field(
        default="query",
        description="what a query's loss counts by in the mean over queries: query: all alike; pair: their pairs of "
        "unequal grades; document: their documents",
    )


@settings
class DrawnPairs(Listwise):
    negatives: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="documents of a lower grade drawn for each document at each step"
    )


@settings
class TopK(Listwise):
    k: Annotated[int, Field(ge=1, le=4)] = Field(
        default=1,
        description="first places whose probability is compared; less where a query has more than 10⁵ of them",
    )


@settings
class Permutation(Listwise):
    weights: Literal["none", "discount", "exponential"] = Field(
        default="none", description="w_i of the place i of n: 1, 1/log₂(1 + i), or 2^(n − i) − 1 scaled to the mean 1"
    )


@settings
class ScoreNoise(Listwise):
    noise: Positive = Field(default=1.0, description="ς: standard deviation of each score")
    truncation: Cut = Field(default=30, description="T: ranks that count")


@settings
class Sharpness(Listwise):
    alpha: Positive = Field(default=10.0, description="α: how sharply scores become ranks")


@settings
class Lambda(Listwise):
    sigma: Positive = Field(default=1.0, description="σ₀: differences of scores are multiplied by it")
    truncation: Cut = Field(default=30, description="T: pairs count of which one is among the first T by score")
    norm: Literal["none", "lightgbm"] = Field(
        default="none", description="lightgbm: Δ/(0.01 + |d|), and a query's λ times log₂(1 + Σ|λ|)/Σ|λ|"
    )


@settings
class Sampled(Listwise):
    samples: Annotated[int, Field(ge=2, le=10_000)] = Field(
        default=50, description="rankings drawn of each query at each step"
    )
    temperature: Positive = Field(default=1.0, description="of a ranking's energy")
