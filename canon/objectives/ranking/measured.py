"""Losses of whole lists by their NDCG, made smooth.

Qin, Liu and Li 2010, A general approximation framework for direct optimization of information retrieval measures
(`ApproxNDCG`: r̂_i = 1 + Σ_j σ(α(s_j − s_i))); Taylor, Guiver, Robertson and Minka 2008, SoftRank: optimizing non-smooth
rank metrics (`SoftRank`: scores N(s, ς²), the distribution of a document's rank one other document at a time, equations
5 to 9); Burges, Ragno and Le 2006, Learning to rank with nonsmooth cost functions, with the cut and the norm of
LightGBM (`LambdaRank`).
NDCG has the gain 2^l − 1 and the discount D(r) = 1/log₂(1 + r).
Deviations: SoftRank counts the first T ranks only; its lists are padded to powers of two while it counts, lists of
similar length together. LambdaRank's Δ is a constant, as in the paper: only its gradient means something.
Shapes: B queries, N documents, P pairs, L documents of a padded list, R ranks.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.objectives.ranking.base import TILE, Factored, ListLoss, Queries
from canon.objectives.ranking.settings import Lambda, ScoreNoise, Sharpness

_NEAR = 0.01  # of LightGBM's norm


class ApproxNDCG(ListLoss[Sharpness]):
    """−Σ (2^{l_i} − 1) / log₂(1 + r̂_i) / IDCG."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.work)
        return losses_B

    def work(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        alpha = self.settings.alpha
        rank_N = torch.full_like(score_N, 0.5)  # each is compared with itself too, which is ½
        for i_P, j_P in queries.everyone():
            rank_N.index_add_(0, i_P, torch.sigmoid(alpha * (score_N[j_P] - score_N[i_P])))
        share_B = queries.informative_B.to(score_N.dtype) / queries.ideal().to(score_N.dtype)
        worth_N = queries.gains.to(score_N.dtype) * share_B[queries.row]
        log_N = torch.log1p(rank_N)
        slope_N = worth_N * math.log(2) / ((1 + rank_N) * log_N.square())  # ∂L/∂r̂
        gradient_N = torch.zeros_like(score_N)
        for i_P, j_P in queries.everyone():
            share_P = torch.sigmoid(alpha * (score_N[j_P] - score_N[i_P]))
            change_P = slope_N[i_P] * alpha * share_P * (1 - share_P)
            gradient_N.index_add_(0, j_P, change_P)
            gradient_N.index_add_(0, i_P, -change_P)
        return -queries.sum(worth_N * math.log(2) / log_N), gradient_N


class LambdaRank(ListLoss[Lambda]):
    """Σ Δ log(1 + e^(−σ₀d)) over l_i > l_j, Δ = (g_i − g_j) |D(r_i) − D(r_j)| / IDCG@T of pairs with min(r) ≤ T."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.work)
        return losses_B

    def work(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        how = self.settings
        rank_N = queries.ranks(score_N)
        discount_N, gain_N = queries.discount(rank_N).to(score_N.dtype), queries.gains.to(score_N.dtype)
        ideal_B = queries.ideal(how.truncation).to(score_N.dtype)
        spread_B = (queries.max(score_N) + queries.max(-score_N)) > 0
        loss_N, gradient_N, lambda_N = (torch.zeros_like(score_N) for _ in range(3))
        for i_P, j_P in queries.pairs():
            kept_P = torch.minimum(rank_N[i_P], rank_N[j_P]) <= how.truncation
            i_P, j_P = i_P[kept_P], j_P[kept_P]
            d_P, row_P = score_N[i_P] - score_N[j_P], queries.row[i_P]
            change_P = (gain_N[i_P] - gain_N[j_P]) * (discount_N[i_P] - discount_N[j_P]).abs() / ideal_B[row_P]
            if how.norm == "lightgbm":
                change_P = torch.where(spread_B[row_P], change_P / (_NEAR + d_P.abs()), change_P)
            slope_P = -how.sigma * change_P * torch.sigmoid(-how.sigma * d_P)
            loss_N.index_add_(0, i_P, change_P * F.softplus(-how.sigma * d_P))
            gradient_N.index_add_(0, i_P, slope_P)
            gradient_N.index_add_(0, j_P, -slope_P)
            lambda_N.index_add_(0, i_P, -2 * slope_P)
        loss_B = queries.sum(loss_N)
        if how.norm == "lightgbm":
            all_B = queries.sum(lambda_N)
            scale_B = torch.where(all_B > 0, torch.log2(1 + all_B) / all_B, 1)
            loss_B, gradient_N = loss_B * scale_B, gradient_N * scale_B[queries.row]
        return loss_B, gradient_N


class SoftRank(ListLoss[ScoreNoise]):
    """1 − Σ_i (2^{l_i} − 1) Σ_r D(r) p_i(r) / IDCG@T."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.work)
        return losses_B

    def work(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        loss_B, gradient_N = score_N.new_zeros(queries.layout.size), torch.zeros_like(score_N)
        counted_B = queries.informative_B.cpu()
        ideal_B, lengths_B = queries.ideal(self.settings.truncation).to(score_N.dtype), queries.layout.lengths
        width_B = torch.exp2(torch.log2(lengths_B.clamp(min=1).double()).ceil()).long()
        for width in sorted(set(width_B[counted_B].tolist())):
            ranks = min(width, self.settings.truncation)
            rows = (counted_B & (width_B == width)).nonzero().squeeze(1)
            for row_R in rows.split(max(TILE // (width * ranks), 1)):
                row_R = row_R.to(score_N.device)
                place_RL = queries.starts[row_R][:, None] + torch.arange(width, device=score_N.device)
                there_RL = torch.arange(width, device=score_N.device) < queries.sizes[row_R][:, None]
                place_RL = place_RL.clamp(max=len(score_N) - 1)
                gain_RL = torch.where(there_RL, queries.gains.to(score_N.dtype)[place_RL], 0)
                with torch.enable_grad():
                    score_RL = score_N[place_RL].requires_grad_()
                    dcg_R = self.dcg(score_RL, gain_RL, there_RL, ranks)
                    lost_R = 1 - dcg_R / ideal_B[row_R]
                    (slope_RL,) = torch.autograd.grad(lost_R.sum(), score_RL)
                loss_B[row_R] = lost_R.detach()
                gradient_N[place_RL[there_RL]] = slope_RL[there_RL]
        return loss_B, gradient_N

    def dcg(self, score_RL: Tensor, gain_RL: Tensor, there_RL: Tensor, ranks: int) -> Tensor:
        """Expected DCG of padded lists: the chance of each rank, one other document at a time."""
        width = score_RL.shape[1]
        apart_RLL = (score_RL[:, None, :] - score_RL[:, :, None]) / (math.sqrt(2) * self.settings.noise)
        # P(document j is before i): 0 of i itself and where there is none.
        ahead_RLL = torch.special.ndtr(apart_RLL) * (
            there_RL[:, None, :] & ~torch.eye(width, dtype=torch.bool, device=there_RL.device)
        )
        chance_RLr = F.pad(torch.ones_like(score_RL)[:, :, None], (0, ranks - 1))
        for j in range(width):
            ahead_RL1 = ahead_RLL[:, :, j, None]
            later_RLr = F.pad(chance_RLr[:, :, :-1], (1, 0))
            chance_RLr = chance_RLr * (1 - ahead_RL1) + later_RLr * ahead_RL1
        rank_r = torch.arange(1, ranks + 1, dtype=score_RL.dtype, device=score_RL.device)
        return (gain_RL * (chance_RLr / torch.log2(1 + rank_r)).sum(2)).sum(1)
