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
        name="grade-hinge",
        title="Hinge loss of relevance",
        formula="max(0, 1 − y s), or its square, y = 1 for a relevant document and −1 for any other",
        paper="Cortes and Vapnik 1995, Support-vector networks; Nallapati 2004, Discriminative models for information "
        "retrieval",
        settings=own.HingeThreshold,
        module="pointwise:GradeHinge",
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
        name="ordinal-hinge",
        title="Hinge loss of ordered grades",
        formula="Σ_k max(0, 1 − y_k (s − b_k)), or the squares, y_k = 1 where l > k and −1 else, b rising; score s",
        paper="Shashua and Levin 2003, Ranking with large margin principle: two approaches; Chu and Keerthi 2007, "
        "Support vector ordinal regression",
        settings=own.ThresholdHinges,
        module="pointwise:OrdinalHinge",
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
    _of_order(
        name="pair-bpr",
        title="BPR over drawn pairs",
        formula="mean of −ln σ(d), j drawn at each step among those with l_j < l_i, for each i that has any",
        paper="Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: Bayesian personalized ranking from "
        "implicit feedback (arXiv:1205.2618)",
        settings=own.DrawnPairs,
        module="pairwise:PairBPR",
    ),
    _of_order(
        name="listnet",
        title="ListNet",
        formula="−Σ P_l log P_s over the orders π of the first k documents, P_x = Π_t e^{x_π(t)} / Σ_{not taken} e^x; "
        "k = 1: −Σ softmax(l) log softmax(s)",
        paper="Cao, Qin, Liu, Tsai and Li 2007, Learning to rank: from pairwise approach to listwise approach",
        settings=own.TopK,
        module="listwise:ListNet",
    ),
    _of_order(
        name="listmle",
        title="ListMLE",
        formula="Σ_i w_i (log Σ_{j ≥ i} e^{s_j} − s_i), documents in the order of their grades, equal ones at random",
        paper="Xia, Liu, Wang, Zhang and Li 2008, Listwise approach to learning to rank: theory and algorithm; "
        "weights: Lan, Zhu, Guo, Niu and Cheng 2014, Position-aware ListMLE",
        settings=own.Permutation,
        module="listwise:ListMLE",
    ),
    _of_order(
        name="softrank",
        title="SoftRank",
        formula="1 − Σ_i (2^{l_i} − 1) Σ_{r ≤ T} p_i(r) / log₂(1 + r) / IDCG@T, p_i the distribution of the rank where "
        "scores are N(s, ς²)",
        paper="Taylor, Guiver, Robertson and Minka 2008, SoftRank: optimizing non-smooth rank metrics",
        settings=own.ScoreNoise,
        module="measured:SoftRank",
    ),
    _of_order(
        name="approxndcg",
        title="ApproxNDCG",
        formula="−Σ_i (2^{l_i} − 1) / log₂(1 + r_i) / IDCG, r_i = 1 + Σ_{j ≠ i} σ(α(s_j − s_i))",
        paper="Qin, Liu and Li 2010, A general approximation framework for direct optimization of information "
        "retrieval measures",
        settings=own.Sharpness,
        module="measured:ApproxNDCG",
    ),
    _of_order(
        name="lambdarank",
        title="LambdaRank",
        formula="Σ Δ log(1 + e^(−σ₀d)) over pairs l_i > l_j of which one is among the first T by score, Δ = |change of "
        "NDCG@T if they changed places|, a constant for the gradient",
        paper="Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions; Burges 2010, From RankNet to "
        "LambdaRank to LambdaMART: an overview",
        settings=own.Lambda,
        module="measured:LambdaRank",
    ),
    _of_order(
        name="boltzrank",
        title="BoltzRank",
        formula="1 − Σ_R P(R) NDCG(R) over drawn rankings R, P ∝ e^{−E/T}, E = 2/(n(n − 1)) Σ_{R_j > R_i} (R_j − "
        "R_i)(s_j − s_i)",
        paper="Volkovs and Zemel 2009, BoltzRank: learning to maximize expected ranking gain",
        settings=own.Sampled,
        module="listwise:BoltzRank",
    ),
)
