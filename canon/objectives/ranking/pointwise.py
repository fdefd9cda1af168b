"""Losses of each document's grade on its own.

Cossock and Zhang 2006 (squared); Li, Burges and Wu 2007, McRank: learning to rank using multiple classification and
gradient boosting (`McRank`: classes are grades, score Σ_k k p_k); McCullagh 1980, Regression models for ordinal data
(`CumulativeLogit`: P(l > k) = σ(s − b_k), b rising); Cortes and Vapnik 1995, Support-vector networks (`GradeHinge`);
Shashua and Levin 2003, Ranking with large margin principle, with all thresholds for each document as Chu and Keerthi
2007, Support vector ordinal regression, section 3 (`OrdinalHinge`). With system.penalty of the linear ranker these are
support vector machines.
Deviations: without objective.per = "document", queries whose documents all have one grade teach nothing.
Shapes: B queries, N documents, K grades.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives.ranking.base import Queries, RankLoss, counted
from canon.objectives.ranking.settings import HingeThreshold, Pointwise, Threshold, ThresholdHinges

Settings = TypeVar("Settings", bound=Pointwise)


class PointLoss(RankLoss[Settings]):
    @abstractmethod
    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        """[N] the loss of each document."""

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        sums_B = queries.sum(self.of_documents(logits_N, queries.grade_N.to(logits_N.dtype)))
        if self.settings.per == "document":
            return sums_B
        mean_B = torch.where(queries.informative_B, sums_B / queries.sizes.clamp(min=1), 0)
        return mean_B * queries.pairs_B if self.settings.per == "pair" else mean_B

    def count(self, lengths_B: Tensor, pairs_B: Tensor) -> int:
        return (
            int(lengths_B.sum()) if self.settings.per == "document" else counted(self.settings.per, lengths_B, pairs_B)
        )


class GradeSquared(PointLoss[Pointwise]):
    """(s − l)²."""

    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        return (logits_N - grade_N).square()


class GradeLogistic(PointLoss[Threshold]):
    """log(1 + e^(−y s)), y = 1 for a relevant document and −1 for any other."""

    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        relevant_N = (grade_N >= self.settings.relevant).to(logits_N.dtype)
        return F.binary_cross_entropy_with_logits(logits_N, relevant_N, reduction="none")


class GradeHinge(PointLoss[HingeThreshold]):
    """max(0, 1 − y s), or its square."""

    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        sign_N = torch.where(grade_N >= self.settings.relevant, 1.0, -1.0).to(logits_N.dtype)
        short_N = (1 - sign_N * logits_N).clamp(min=0)
        return short_N.square() if self.settings.squared else short_N


class McRank(PointLoss[Pointwise]):
    """−log softmax(f)_l; the score is Σ_k k softmax(f)_k."""

    def of_documents(self, logits_NK: Tensor, grade_N: Tensor) -> Tensor:
        return F.cross_entropy(logits_NK, whole(grade_N, logits_NK.shape[1]), reduction="none")

    def scores(self, logits_NK: Tensor) -> Tensor:
        grade_K = torch.arange(logits_NK.shape[1], dtype=logits_NK.dtype, device=logits_NK.device)
        return logits_NK.softmax(1) @ grade_K


class CumulativeLogit(PointLoss[Pointwise]):
    """−log(P(l > l_i − 1) − P(l > l_i)), P(l > k) = σ(f_k), f_k = s − b_k; the score is Σ_k P(l > k)."""

    def of_documents(self, logits_NK: Tensor, grade_N: Tensor) -> Tensor:
        grade_N1 = whole(grade_N, logits_NK.shape[1] + 1)[:, None]
        one_N1 = logits_NK.new_full((len(logits_NK), 1), torch.inf)
        edges_N = torch.cat([one_N1, logits_NK, -one_N1], dim=1)
        above_N, below_N = edges_N.gather(1, grade_N1).squeeze(1), edges_N.gather(1, grade_N1 + 1).squeeze(1)
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − e^(b − a)), a > b
        gap_N = torch.where((above_N - below_N).isinf(), -torch.inf, below_N - above_N)
        return -(F.logsigmoid(above_N) + F.logsigmoid(-below_N) + torch.log(-torch.expm1(gap_N)))

    def scores(self, logits_NK: Tensor) -> Tensor:
        return logits_NK.sigmoid().sum(1)


class OrdinalHinge(PointLoss[ThresholdHinges]):
    """Σ_k max(0, 1 − y_k f_k), or the squares, f_k = s − b_k, y_k = 1 where l > k, else −1; the score is mean f_k."""

    def of_documents(self, logits_NK: Tensor, grade_N: Tensor) -> Tensor:
        k_K = torch.arange(logits_NK.shape[1], device=logits_NK.device)
        sign_NK = torch.where(whole(grade_N, logits_NK.shape[1] + 1)[:, None] > k_K, 1.0, -1.0).to(logits_NK.dtype)
        short_NK = (1 - sign_NK * logits_NK).clamp(min=0)
        return (short_NK.square() if self.settings.squared else short_NK).sum(1)

    def scores(self, logits_NK: Tensor) -> Tensor:
        return logits_NK.mean(1)


def whole(grade_N: Tensor, grades: int) -> Tensor:
    """Grades as classes."""
    if bool((grade_N != grade_N.round()).any()) or bool((grade_N >= grades).any()):
        raise CanonError(
            f"mcrank, cumulative-logit and ordinal-hinge take whole grades from 0 to {grades - 1}, as the training "
            'data has; choose another objective, as in objective.name = "grade-squared".'
        )
    return grade_N.long()
