"""Losses of sentence vectors: which text belongs to which, how alike two are, the class of two.

Papers: mnrl Henderson et al. 2017 (arXiv:1705.00652), section 4, with hard negatives as in SimCSE, Gao, Yao and Chen
2021 (arXiv:2104.08821), equations 4–5 and appendix's α; cosent Su 2022; cosine, triplet and softmax-nli: Reimers and
Gurevych 2019 (arXiv:1908.10084), section 3. Deviations: candidates with a text that the anchor or its positive has too
are left out of the sum, since they are right as well.
Every class has `total`: the sum of the losses of rows [start, stop) of the global batch, of which all rows are given.
Shapes: N rows of the global batch, B rows of `rows`, C texts of a row, D features, M candidates, K classes.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives.settings import Contrast, NoSettings, OtherTexts, TripletMargin

Rows = tuple[int, int]


def masked_scores(
    query_BD: Tensor, candidate_MD: Tensor, right_B: Tensor, wrong_BM: Tensor, temperature: float
) -> Tensor:
    """cos(q, c)/τ [B, M], −∞ for candidates that are right too."""
    scores_BM = query_BD @ candidate_MD.T / temperature
    wrong_BM = wrong_BM.scatter(1, right_B[:, None], False)
    return scores_BM.masked_fill(wrong_BM, -math.inf)


def ranking_losses(
    vectors_NCD: Tensor,
    keys_NC: Tensor,
    rows: Rows,
    temperature: float,
    hard_weight: float = 1.0,
    symmetric: bool = False,
) -> Tensor:
    """−log e^{s(a_i,p_i)/τ} / Σ_j [e^{s(a_i,p_j)/τ} + Σ_k α^{[i=j]} e^{s(a_i,n_jk)/τ}], [B] of the rows asked for."""
    start, stop = rows
    N, C, _ = vectors_NCD.shape
    unit_NCD = F.normalize(vectors_NCD, dim=-1)
    own_B = torch.arange(start, stop, device=vectors_NCD.device)
    # Candidates: all positives, then all first negatives, …
    candidate_MD, key_M = unit_NCD[:, 1:].transpose(0, 1).flatten(0, 1), keys_NC[:, 1:].T.flatten()
    anchor_B1, positive_B1 = keys_NC[start:stop, :1], keys_NC[start:stop, 1:2]
    same_BM = (key_M == positive_B1) | (key_M == anchor_B1)
    scores_BM = masked_scores(unit_NCD[start:stop, 0], candidate_MD, own_B, same_BM, temperature)
    if C > 2 and hard_weight != 1:
        places_BK = own_B[:, None] + N * torch.arange(1, C - 1, device=own_B.device)
        scores_BM = scores_BM + torch.zeros_like(scores_BM).scatter(1, places_BK, math.log(hard_weight))
    losses_B = F.cross_entropy(scores_BM, own_B, reduction="none")
    if not symmetric:
        return losses_B
    same_BN = (keys_NC[:, 0] == positive_B1) | (keys_NC[:, 0] == anchor_B1)
    back_BN = masked_scores(unit_NCD[start:stop, 1], unit_NCD[:, 0], own_B, same_BN, temperature)
    return (losses_B + F.cross_entropy(back_BN, own_B, reduction="none")) / 2


class MultipleNegatives:
    """Which text belongs to an anchor, among those of all rows."""

    def __init__(self, settings: OtherTexts) -> None:
        self.settings = settings

    def losses(self, vectors_NCD: Tensor, keys_NC: Tensor, rows: Rows) -> Tensor:
        how = self.settings.temperature, self.settings.hard_weight, self.settings.symmetric
        return ranking_losses(vectors_NCD, keys_NC, rows, *how)

    def total(self, vectors_NCD: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        return self.losses(vectors_NCD, facts["keys"], rows).sum()


class SimCSE:
    """The same of two views of each text, which differ by what dropout leaves out."""

    def __init__(self, settings: Contrast) -> None:
        self.settings = settings

    def total(self, vectors_N2D: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        return ranking_losses(vectors_N2D, facts["keys"][:, [0, 0]], rows, self.settings.temperature).sum()


class CoSENT:
    """log(1 + Σ_{y_i > y_j} e^{(s_j − s_i)/τ}) over all pairs of rows of the global batch, of which there is one."""

    def __init__(self, settings: Contrast) -> None:
        self.settings = settings

    def loss(self, cosine_N: Tensor, target_N: Tensor) -> Tensor:
        """One number for all rows."""
        scaled_N = cosine_N / self.settings.temperature
        # Row i, column j: s_j − s_i where y_i > y_j.
        difference_NN = scaled_N[None, :] - scaled_N[:, None]
        difference_NN = difference_NN.masked_fill(target_N[:, None] <= target_N[None, :], -math.inf)
        return torch.cat([scaled_N.new_zeros(1), difference_NN.flatten()]).logsumexp(0)

    def total(self, vectors_NCD: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        """Each row has it once, so that the mean over rows is it."""
        cosine_N = F.cosine_similarity(vectors_NCD[:, 0], vectors_NCD[:, 1], dim=1)
        return self.loss(cosine_N, facts["target"]) * (rows[1] - rows[0])


class CosineError:
    """(s − y)², y from 0 to 1."""

    def __init__(self, settings: NoSettings) -> None:
        self.settings = settings

    def total(self, vectors_NCD: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        start, stop = rows
        cosine_B = F.cosine_similarity(vectors_NCD[start:stop, 0], vectors_NCD[start:stop, 1], dim=1)
        return (cosine_B - facts["target"][start:stop]).square().sum()


class Triplet:
    """max(0, ‖a − p‖ − ‖a − n‖ + m), of several negatives the mean."""

    def __init__(self, settings: TripletMargin) -> None:
        self.settings = settings

    def total(self, vectors_NCD: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        a_BD, p_BD, n_BKD = (part[rows[0] : rows[1]] for part in _split(vectors_NCD))
        near_B1 = torch.linalg.vector_norm(a_BD - p_BD, dim=1)[:, None]
        far_BK = torch.linalg.vector_norm(a_BD[:, None] - n_BKD, dim=2)
        return (near_B1 - far_BK + self.settings.margin).clamp(min=0).mean(1).sum()


def _split(vectors_NCD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if vectors_NCD.shape[1] < 3:
        raise CanonError(
            "The objective triplet needs a text, one that belongs to it and one that does not; the data has "
            f'{vectors_NCD.shape[1]} texts in a row: set objective.name = "mnrl".'
        )
    return vectors_NCD[:, 0], vectors_NCD[:, 1], vectors_NCD[:, 2:]


class SoftmaxNLI:
    """−log softmax(W[u; v; |u − v|])_y."""

    def __init__(self, settings: NoSettings) -> None:
        self.settings = settings

    def total(self, logits_N1K: Tensor, facts: dict[str, Tensor], rows: Rows) -> Tensor:
        start, stop = rows
        return F.cross_entropy(logits_N1K[start:stop, 0], facts["target"][start:stop], reduction="sum")
