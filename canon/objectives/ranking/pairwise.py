"""Losses of pairs of documents of a query, l_i > l_j, by the difference of their scores d = s_i − s_j.

Burges et al. 2005, Learning to rank using gradient descent (`RankNet`: log(1 + e^(−σ₀d)), log 2 at d = 0; its gradient
λ_i = Σ_j λ_ij is one number for each document: Burges 2010, From RankNet to LambdaRank to LambdaMART, section 2.1);
Herbrich, Graepel and Obermayer 2000, Large margin rank boundaries for ordinal regression (`PairHinge`); Freund, Iyer,
Schapire and Singer 2003, An efficient boosting algorithm for combining preferences (`PairExponential`); Sculley 2010,
Combined regression and ranking (`Mix`); Rendle et al. 2009, BPR: Bayesian personalized ranking from implicit feedback
(`PairBPR`: −ln σ(d) of pairs that each step draws again, so that it costs O(n), not O(n²)).
Deviations: a query counts once however many pairs it has (objective.per = "pair" is the papers' sum over all pairs).
Shapes: B queries, N documents, P pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.objectives.ranking.base import Factored, ListLoss, Queries, RankLoss, counted
from canon.objectives.ranking.settings import DrawnPairs, Mixed, PairLogistic, PairMargin, Pairwise

Settings = TypeVar("Settings", bound=Pairwise)


class PairLoss(RankLoss[Settings]):
    which = "below"  # the pairs that count

    @abstractmethod
    def of_pairs(self, d_P: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each pair, and its derivative by d."""

    def of_ties(self, d_P: Tensor) -> tuple[Tensor, Tensor] | None:
        """The same of pairs of equal grades, where they count."""
        return None

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        sums_B: Tensor = Factored.apply(logits_N, queries, self.sums)
        return sums_B

    def sums(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        """The loss of each query [B] and its gradient [N]."""
        loss_N, gradient_N, pairs_N = torch.zeros_like(score_N), torch.zeros_like(score_N), torch.zeros_like(score_N)

        def add(i_P: Tensor, j_P: Tensor, loss_P: Tensor, slope_P: Tensor) -> None:
            loss_N.index_add_(0, i_P, loss_P)
            gradient_N.index_add_(0, i_P, slope_P)
            gradient_N.index_add_(0, j_P, -slope_P)
            pairs_N.index_add_(0, i_P, torch.ones_like(loss_P))

        for i_P, j_P in queries.pairs(self.which):
            add(i_P, j_P, *self.of_pairs(score_N[i_P] - score_N[j_P]))
        if self.of_ties(score_N[:0]) is not None:
            for i_P, j_P in queries.pairs("alike"):
                tied = self.of_ties(score_N[i_P] - score_N[j_P])
                assert tied is not None
                add(i_P, j_P, *tied)
        weight_B = queries.informative_B.to(score_N.dtype)
        if self.settings.per == "query":
            weight_B = weight_B / queries.sum(pairs_N).clamp(min=1)
        return queries.sum(loss_N) * weight_B, gradient_N * weight_B[queries.row]

    def count(self, lengths_B: Tensor, pairs_B: Tensor) -> int:
        return counted(self.settings.per, lengths_B, pairs_B)


class RankNet(PairLoss[PairLogistic]):
    """log(1 + e^(−σ₀d)); of equal grades ½ log(1 + e^(−σ₀d)) + ½ log(1 + e^(σ₀d))."""

    def __init__(self, settings: PairLogistic) -> None:
        super().__init__(settings)
        self.which = "adjacent" if settings.pairs == "adjacent" else "below"

    def of_pairs(self, d_P: Tensor) -> tuple[Tensor, Tensor]:
        sigma = self.settings.sigma
        return F.softplus(-sigma * d_P), -sigma * torch.sigmoid(-sigma * d_P)

    def of_ties(self, d_P: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.settings.ties == "none":
            return None
        sigma = self.settings.sigma
        return F.softplus(-sigma * d_P) + sigma * d_P / 2, sigma * (torch.sigmoid(sigma * d_P) - 0.5)


class PairHinge(PairLoss[PairMargin]):
    """max(0, m − d), or its square."""

    def of_pairs(self, d_P: Tensor) -> tuple[Tensor, Tensor]:
        short_P = (self.settings.margin - d_P).clamp(min=0)
        if self.settings.squared:
            return short_P.square(), -2 * short_P
        return short_P, -(short_P > 0).to(d_P.dtype)


class PairExponential(PairLoss[Pairwise]):
    """e^(−d)."""

    def of_pairs(self, d_P: Tensor) -> tuple[Tensor, Tensor]:
        loss_P = torch.exp(-d_P)
        return loss_P, -loss_P


class Mix(RankNet):
    """(1 − β) RankNet + β (s − l)²."""

    settings: Mixed

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        pair_B = super().losses(logits_N, queries)
        point_B = queries.sum((logits_N - queries.grade_N.to(logits_N.dtype)).square())
        size_B = queries.sizes if self.settings.per == "query" else torch.ones_like(queries.sizes)
        point_B = torch.where(queries.informative_B, point_B / size_B.clamp(min=1), 0)
        return (1 - self.settings.beta) * pair_B + self.settings.beta * point_B


class PairBPR(ListLoss[DrawnPairs]):
    """−ln σ(d) of each document and some that are drawn of those with a lower grade: the mean over a query's."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.work)
        return losses_B

    def work(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        i_P, j_P = queries.drawn(self.settings.negatives)
        d_P, row_P = score_N[i_P] - score_N[j_P], queries.row[i_P]
        pairs_B = torch.bincount(row_P, minlength=queries.layout.size)
        share_P = 1 / pairs_B[row_P].to(score_N.dtype)
        slope_P = -torch.sigmoid(-d_P) * share_P
        gradient_N = torch.zeros_like(score_N).index_add(0, i_P, slope_P).index_add(0, j_P, -slope_P)
        losses_B = score_N.new_zeros(queries.layout.size).index_add(0, row_P, F.softplus(-d_P) * share_P)
        return losses_B, gradient_N
