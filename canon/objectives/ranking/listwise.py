"""Losses of whole lists by the probability of their order.

Cao, Qin, Liu, Tsai and Li 2007, Learning to rank: from pairwise approach to listwise approach, section 4 → `ListNet`;
Xia, Liu, Wang, Zhang and Li 2008, Listwise approach to learning to rank, section 4.3 → `ListMLE`, with weights of
places by Lan, Zhu, Guo, Niu and Cheng 2014, Position-aware ListMLE; Volkovs and Zemel 2009, BoltzRank: learning to
maximize expected ranking gain, equations 2 to 6 → `BoltzRank`.
Deviations: ListNet's top-k probabilities are exact, of as many places as have at most 10⁵ orders; equal grades are in
another random order at each step in ListMLE; BoltzRank's energy has g(x) = x, its rankings are drawn with the odds 2^l
and the best one is among them, and the likelihood that the paper adds is left out.
Shapes: B queries, N documents, P orders of k documents, S sampled rankings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from canon.objectives.ranking.base import Factored, ListLoss, Queries, uniforms
from canon.objectives.ranking.settings import Permutation, Sampled, TopK

_MOST_ORDERS = 100_000
_TINY = 1e-300


class ListNet(ListLoss[TopK]):
    """−Σ P_l log P_s over the orders of the first k documents, P = Π_t e^{x_t} / Σ_{the rest} e^x."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.first)
        if self.settings.k > 1:
            places_B = torch.tensor([self.places(int(n)) for n in queries.layout.lengths], device=logits_N.device)
            several_B = self.orders(logits_N, queries, places_B).to(logits_N.dtype)
            losses_B = torch.where(places_B > 1, several_B, losses_B)
        return torch.where(queries.informative_B, losses_B, 0)

    def places(self, size: int) -> int:
        """k, or so many of the first places as have at most 10⁵ orders."""
        fit = [k for k in range(1, min(self.settings.k, size) + 1) if math.perm(size, k) <= _MOST_ORDERS]
        return max(fit, default=1)

    def first(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        """k = 1: −Σ softmax(l) log softmax(s)."""
        wanted_N = queries.log_softmax(queries.grade_N.to(score_N.dtype)).exp()
        own_N = queries.log_softmax(score_N)
        counted_B = queries.informative_B
        return -queries.sum(wanted_N * own_N), torch.where(counted_B[queries.row], own_N.exp() - wanted_N, 0)

    def orders(self, logits_N: Tensor, queries: Queries, places_B: Tensor) -> Tensor:
        """[B] of queries with more than one place, 0 of others; in float64: little may be left of a sum."""
        score_N, grade_N = logits_N.double(), queries.grade_N.double()
        total_B = score_N.new_zeros(queries.layout.size)
        for places in sorted(set(places_B.tolist()) - {1}):
            query_P, document_Pk = _orders_of(queries, (places_B == places).nonzero().squeeze(1), places)
            wanted_P = self.log_probability(grade_N, queries, query_P, document_Pk).exp()
            own_P = self.log_probability(score_N, queries, query_P, document_Pk)
            total_B = total_B.index_add(0, query_P, -wanted_P * own_P)
        return total_B

    @staticmethod
    def log_probability(values_N: Tensor, queries: Queries, query_P: Tensor, document_Pk: Tensor) -> Tensor:
        values_N = values_N - queries.max(values_N.detach())[queries.row]
        left_P, log_P = queries.sum(values_N.exp())[query_P], torch.zeros_like(query_P, dtype=values_N.dtype)
        for document_P in document_Pk.unbind(1):
            taken_P = values_N[document_P]
            log_P = log_P + taken_P - left_P.clamp(min=_TINY).log()
            left_P = left_P - taken_P.exp()
        return log_P


def _orders_of(queries: Queries, row_R: Tensor, places: int) -> tuple[Tensor, Tensor]:
    """All orders of `places` different documents of some queries: the query of each, and its documents."""
    size_R = queries.sizes[row_R]
    count_R = size_R**places
    query_P = row_R.repeat_interleave(count_R)
    begin_R = count_R.cumsum(0) - count_R
    code_P = torch.arange(int(count_R.sum()), device=row_R.device) - begin_R.repeat_interleave(count_R)
    size_P = queries.sizes[query_P]
    digits = []
    for _ in range(places):
        digits.append(code_P % size_P)
        code_P = code_P // size_P
    digit_Pk = torch.stack(digits, dim=1)
    distinct_P = torch.ones_like(query_P, dtype=torch.bool)
    for one in range(places):
        for other in range(one):
            distinct_P &= digit_Pk[:, one] != digit_Pk[:, other]
    query_P = query_P[distinct_P]
    return query_P, digit_Pk[distinct_P] + queries.starts[query_P][:, None]


class ListMLE(ListLoss[Permutation]):
    """Σ_i w_i (log Σ_{j ≥ i} e^{s_j} − s_i), documents in the order of their grades."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B: Tensor = Factored.apply(logits_N, queries, self.work)
        return losses_B

    def work(self, score_N: Tensor, queries: Queries) -> tuple[Tensor, Tensor]:
        order = queries.by_grade
        sorted_N, weight_N = score_N[order], self.weights(queries).to(score_N.dtype)
        rest_N = queries.scan(sorted_N, backwards=True)
        counted_N = queries.informative_B[queries.row]
        loss_B = queries.sum(torch.where(counted_N, weight_N * (rest_N - sorted_N), 0))
        before_N = queries.scan(weight_N.log() - rest_N)  # log Σ_{i ≤ k} w_i / Σ_{j ≥ i} e^{s_j}
        slope_N = torch.where(counted_N, (sorted_N + before_N).exp() - weight_N, 0)
        return loss_B, torch.empty_like(score_N).index_copy(0, order, slope_N)

    def weights(self, queries: Queries) -> Tensor:
        """[N] of the places of each query, float64."""
        place_N = queries.layout.positions.double() + 1
        if self.settings.weights == "none":
            return torch.ones_like(place_N)
        if self.settings.weights == "discount":
            return 1 / torch.log2(1 + place_N)
        size_N = queries.sizes[queries.row].double()
        share_N = torch.exp2(-place_N) - torch.exp2(-size_N)  # (2^(n − i) − 1) / 2^n
        total_N = queries.sum(share_N)[queries.row]
        return share_N * size_N / total_N.where(total_N > 0, torch.ones_like(total_N))


class BoltzRank(ListLoss[Sampled]):
    """1 − Σ_R P(R) NDCG(R) over drawn rankings, P ∝ e^{−E/T}, E = 2/(n(n − 1)) Σ_{R_j > R_i} (R_j − R_i)(s_j − s_i)."""

    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        rank_NS = self.rankings(queries)
        rank = rank_NS.to(logits_N.dtype)
        size_B1 = queries.sizes[:, None].to(logits_N.dtype)
        # Σ_{i<j} (a_i − a_j)(b_i − b_j) = n Σ ab − Σ a Σ b
        together_BS = _sums(queries, rank * logits_N[:, None])
        apart_BS = _sums(queries, rank) * queries.sum(logits_N)[:, None]
        energy_BS = 2 * (size_B1 * together_BS - apart_BS) / (size_B1 * (size_B1 - 1)).clamp(min=1)
        worth_NS = queries.gains[:, None].to(logits_N.dtype) / torch.log2(rank + 1)
        ndcg_BS = _sums(queries, worth_NS) / queries.ideal().to(logits_N.dtype)[:, None]
        share_BS = torch.softmax(-energy_BS / self.settings.temperature, dim=1)
        return torch.where(queries.informative_B, 1 - (share_BS * ndcg_BS).sum(1), 0)

    def rankings(self, queries: Queries) -> Tensor:
        """[N, S] ranks: the best order, and others drawn with the odds 2^l (Plackett–Luce, by Gumbel's noise)."""
        drawn_NS = uniforms(queries.key_N, self.settings.samples - 1)
        noisy_NS = queries.grade_N.double()[:, None] * math.log(2) - torch.log(-torch.log(drawn_NS))
        best_N1 = queries.ranks(queries.grade_N)[:, None]
        order_NS = noisy_NS.argsort(dim=0, descending=True, stable=True)
        order_NS = order_NS.gather(0, queries.row[order_NS].argsort(dim=0, stable=True))
        rank_NS = torch.empty_like(order_NS).scatter(
            0, order_NS, (queries.layout.positions + 1)[:, None].expand_as(order_NS)
        )
        return torch.cat([best_N1, rank_NS], dim=1)


def _sums(queries: Queries, values_NS: Tensor) -> Tensor:
    """[B, S] over each query's documents."""
    return values_NS.new_zeros(queries.layout.size, values_NS.shape[1]).index_add(0, queries.row, values_NS)
