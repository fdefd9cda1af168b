"""Losses of each document's grade on its own.

Cossock and Zhang 2006 (squared); Li, Burges and Wu 2007, McRank: learning to rank using multiple classification and
gradient boosting (`McRank`: classes are grades, score Σ_k k p_k); McCullagh 1980, Regression models for ordinal data
(`CumulativeLogit`: P(l > k) = σ(s − b_k), b rising).
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
from canon.objectives.ranking.base import Queries, RankLoss
from canon.objectives.ranking.settings import Pointwise, Threshold

Settings = TypeVar("Settings", bound=Pointwise)


class PointLoss(RankLoss[Settings]):
    @abstractmethod
    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        """[N] the loss of each document."""

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        sums_B = queries.sum(self.of_documents(logits_N, queries.grade_N.to(logits_N.dtype)))
        if self.settings.per == "document":
            return sums_B
        return torch.where(queries.informative_B, sums_B / queries.sizes.clamp(min=1), 0)

    def count(self, lengths_B: Tensor, pairs_B: Tensor) -> int:
        if self.settings.per == "document":
            return int(lengths_B.sum())
        return super().count(lengths_B, pairs_B)


class GradeSquared(PointLoss[Pointwise]):
    """(s − l)²."""

    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        return (logits_N - grade_N).square()


class GradeLogistic(PointLoss[Threshold]):
    """log(1 + e^(−y s)), y = 1 for a relevant document and −1 for any other."""

    def of_documents(self, logits_N: Tensor, grade_N: Tensor) -> Tensor:
        relevant_N = (grade_N >= self.settings.relevant).to(logits_N.dtype)
        return F.binary_cross_entropy_with_logits(logits_N, relevant_N, reduction="none")


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


def whole(grade_N: Tensor, grades: int) -> Tensor:
    """Grades as classes."""
    if bool((grade_N != grade_N.round()).any()) or bool((grade_N >= grades).any()):
        raise CanonError(
            f"mcrank and cumulative-logit take whole grades from 0 to {grades - 1}, as the training data has; choose "
            'another objective, as in objective.name = "grade-squared".'
        )
    return grade_N.long()
