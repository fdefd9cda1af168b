"""The losses of an order, for the one table of objectives; canon.objectives.table lists them with all others."""

from __future__ import annotations

from typing import Any

from canon.objectives.ranking import settings as own
from canon.objectives.record import Objective

_PAIRS = "over pairs l_i > l_j of a query, d = s_i − s_j"


def _of_order(*, module: str, settings: type, **more: Any) -> Objective:
    more = {"columns": ("input_lengths", "pair_lengths", "target"), "outputs": ("scores",), **more}
    return Objective(module=f"canon.objectives.ranking.{module}", tasks={"ranking": settings}, **more)


RANKING: tuple[Objective, ...] = (
    _of_order(
        name="grade-squared",
        title="Squared error of grades",
        formula="(s − l)²",
        paper="Cossock and Zhang 2006, Subset ranking using regression",
        settings=own.Pointwise,
        module="pointwise:GradeSquared",
    ),
    _of_order(
        name="grade-logistic",
        title="Logistic loss of relevance",
        formula="log(1 + e^(−y s)), y = 1 for a relevant document and −1 for any other",
        paper="Nallapati 2004, Discriminative models for information retrieval",
        settings=own.Threshold,
        module="pointwise:GradeLogistic",
    ),
    _of_order(
        name="mcrank",
        title="McRank: cross-entropy of grades",
        formula="−log softmax(f)_l; score Σ_k k softmax(f)_k",
        paper="Li, Burges and Wu 2007, McRank: learning to rank using multiple classification and gradient boosting",
        settings=own.Pointwise,
        module="pointwise:McRank",
        decides={"head": "grades"},
    ),
    _of_order(
        name="cumulative-logit",
        title="Cumulative logit of ordered grades",
        formula="−log(σ(s − b_{l−1}) − σ(s − b_l)), b rising, b_{−1} = −∞, b_{K−1} = ∞; score Σ_k σ(s − b_k)",
        paper="McCullagh 1980, Regression models for ordinal data",
        settings=own.Pointwise,
        module="pointwise:CumulativeLogit",
        decides={"head": "ordered"},
    ),
    _of_order(
        name="ranknet",
        title="RankNet",
        formula=f"mean of log(1 + e^(−σ₀d)) {_PAIRS}",
        paper="Burges et al. 2005, Learning to rank using gradient descent",
        settings=own.PairLogistic,
        module="pairwise:RankNet",
    ),
    _of_order(
        name="pair-hinge",
        title="Hinge loss of pairs",
        formula=f"mean of max(0, m − d), or of its square, {_PAIRS}",
        paper="Herbrich, Graepel and Obermayer 2000, Large margin rank boundaries for ordinal regression; Joachims "
        "2002, Optimizing search engines using clickthrough data",
        settings=own.PairMargin,
        module="pairwise:PairHinge",
    ),
    _of_order(
        name="pair-exponential",
        title="Exponential loss of pairs",
        formula=f"mean of e^(−d) {_PAIRS}",
        paper="Freund, Iyer, Schapire and Singer 2003, An efficient boosting algorithm for combining preferences",
        settings=own.Pairwise,
        module="pairwise:PairExponential",
    ),
    _of_order(
        name="rank-mix",
        title="Pairs and grades together",
        formula="(1 − β) · RankNet + β · mean of (s − l)²",
        paper="Sculley 2010, Combined regression and ranking",
        settings=own.Mixed,
        module="pairwise:Mix",
    ),
)
