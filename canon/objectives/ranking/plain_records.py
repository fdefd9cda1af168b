"""Losses of an order that systems without gradients lower, and their settings, for the one table of objectives."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from canon.config import settings
from canon.objectives.ranking.settings import Listwise
from canon.objectives.record import Objective
from canon.objectives.settings import NoSettings


@settings
class Cutoff:
    cutoff: Annotated[int, Field(ge=0)] = Field(default=0, description="so many first documents count; 0: all")


@settings
class Measured(Cutoff):
    measure: Literal["map", "ndcg"] = Field(default="map", description="E: average precision or NDCG of a query")


def _plain(*, module: str, settings: type, **more: Any) -> Objective:
    more = {"exclusive": True, **more}
    return Objective(
        module=f"canon.objectives.ranking.plain:{module}",
        tasks={"ranking": settings},
        columns=("input_lengths", "pair_lengths", "target"),
        outputs=("scores",),
        **more,
    )


PLAIN: tuple[Objective, ...] = (
    _plain(
        name="xe-ndcg",
        title="Cross-entropy that bounds NDCG",
        formula="−Σ_i φ_i log softmax(s)_i, φ_i = (2^l_i − γ_i)/Σ_j (2^l_j − γ_j), γ even in [0, 1), drawn each step",
        paper="Bruch 2021, An alternative cross entropy loss for learning-to-rank (arXiv:1911.09798)",
        settings=Listwise,
        module="CrossEntropyNDCG",
        exclusive=False,
    ),
    _plain(
        name="exponential-measure",
        title="Exponential loss of a measure",
        formula="e^(−E), E average precision or NDCG of a query",
        paper="Xu and Li 2007, AdaRank: a boosting algorithm for information retrieval, equation 5",
        settings=Measured,
        module="ExponentialMeasure",
    ),
    _plain(
        name="lost-measure",
        title="What a measure lacks",
        formula="1 − E, E average precision or NDCG of a query",
        paper="Yeh, Lin, Ke and Yang 2007, Learning to rank for information retrieval using genetic programming",
        settings=Measured,
        module="LostMeasure",
    ),
    _plain(
        name="rank-error",
        title="Rank error",
        formula="mean over a query's documents of Σ_k [y_k (s − b_k) ≤ 0], y_k = 1 if l ≥ k else −1, k = 1 … K − 1",
        paper="Crammer and Singer 2002, Pranking with ranking, section 2",
        settings=NoSettings,
        module="RankError",
    ),
    _plain(
        name="disorder",
        title="Distance to the order of the grades",
        formula="Σ (s − t)² / Σ (s − s̄)² over a query's documents, t the nearest numbers in the order of the grades",
        paper="Caruana, Baluja and Mitchell 1996, Using the future to sort out the present: Rankprop and multitask "
        "learning for medical risk evaluation",
        settings=NoSettings,
        module="Disorder",
    ),
    _plain(
        name="map-hinge",
        title="Structured hinge of MAP",
        formula="max over rankings y of 1 − AP(y) + w·Ψ(y) − w·Ψ(y*), Ψ the mean over pairs of a relevant i and "
        "another j of ±(x_i − x_j)",
        paper="Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision",
        settings=NoSettings,
        module="MAPHinge",
    ),
    _plain(
        name="ndcg-hinge",
        title="Structured hinge of NDCG",
        formula="max over rankings y of 1 − NDCG(y) + w·Ψ(y) − w·Ψ(y*), Ψ(y) = Σ_i c(rank of i) x_i, c(r) = "
        "1/√(1 + r) divided by its sum",
        paper="Chakrabarti, Khanna, Sawant and Bhattacharyya 2008, Structured learning for non-smooth ranking losses",
        settings=Cutoff,
        module="NDCGHinge",
    ),
)
