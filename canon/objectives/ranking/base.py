"""What losses of an order have in common: documents query after query, pairs of them, sums and scans within queries.

No loop over queries and no padding: a pair is two numbers of documents, made by arithmetic on the queries' offsets, and
where pairs are many they come in tiles of at most `TILE`. A loss whose gradient is known is a `Factored` one: its
gradient is computed beside it, so that no pair is kept for the backward pass, which is one number for each document.
Documents are sorted by grade within their query once, so that those of lower grade follow in one piece.
Shapes: B queries, N documents, P pairs of a tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from canon.objectives.ranking.settings import Listwise

if TYPE_CHECKING:
    from canon.nn.ragged import Layout

Settings = TypeVar("Settings")
TILE = 1 << 20  # pairs at once
_FIRST, _SECOND = -0x61C8864680B583EB, -0x4B47D0C5A1B5E6C5  # odd numbers that mix bits


class Queries:
    """The documents of a batch: grades, which query each belongs to, and a random number that orders equal ones."""

    def __init__(self, grade_N: Tensor, layout: Layout, key_N: Tensor, pair_lengths_B: Tensor) -> None:
        self.grade_N, self.layout, self.key_N = grade_N, layout, key_N
        self.informative_B = layout.send(pair_lengths_B > 0)
        self.pairs_B = layout.send(pair_lengths_B)

    @property
    def row(self) -> Tensor:
        """The query of each document."""
        return self.layout.rows

    @cached_property
    def sizes(self) -> Tensor:
        return self.layout.device_lengths

    @cached_property
    def starts(self) -> Tensor:
        return self.layout.offsets[:-1].long()

    @cached_property
    def by_grade(self) -> Tensor:
        """[N] the documents, query after query, the highest grade first; equal grades by their random numbers."""
        return self.sorted(self.grade_N)

    def sorted(self, values_N: Tensor) -> Tensor:
        """[N] the documents, query after query, the highest value first; equal ones by their random numbers."""
        order = self.key_N.argsort(stable=True)
        order = order[values_N.detach()[order].argsort(descending=True, stable=True)]
        return order[self.row[order].argsort(stable=True)]

    def ranks(self, values_N: Tensor) -> Tensor:
        """[N] the rank of each document by its value, from 1."""
        order = self.sorted(values_N)
        return torch.empty_like(order).index_copy(0, order, self.layout.positions + 1)

    def sum(self, values_N: Tensor) -> Tensor:
        """[B] sums over each query's documents."""
        return values_N.new_zeros(self.layout.size).index_add(0, self.row, values_N)

    def max(self, values_N: Tensor) -> Tensor:
        """[B] the largest of each query."""
        lowest = values_N.new_full((self.layout.size,), -torch.inf)
        return lowest.scatter_reduce(0, self.row, values_N, "amax")

    def logsumexp(self, values_N: Tensor) -> Tensor:
        """[B] log Σ e^x over each query's documents."""
        most_B = self.max(values_N.detach())
        return most_B + self.sum((values_N - most_B[self.row]).exp()).log()

    def log_softmax(self, values_N: Tensor) -> Tensor:
        return values_N - self.logsumexp(values_N)[self.row]

    def scan(self, values_N: Tensor, backwards: bool = False) -> Tensor:
        """log Σ e^x over a query's documents up to each one, or from each one on, in log₂ n doublings: nothing is
        subtracted, so that nothing is lost."""
        place_N, x = self.layout.positions, values_N
        if backwards:
            place_N, x = self.sizes[self.row] - 1 - place_N, x
        step = 1
        while step < self.layout.max_length:
            moved = torch.roll(x, -step if backwards else step)
            x = torch.where(place_N >= step, torch.logaddexp(x, moved), x)
            step *= 2
        return x

    def discount(self, rank_N: Tensor) -> Tensor:
        """1/log₂(1 + r)."""
        return 1 / torch.log2(rank_N.to(self.gains.dtype) + 1)

    @cached_property
    def gains(self) -> Tensor:
        """2^l − 1."""
        return torch.exp2(self.grade_N) - 1

    def ideal(self, truncation: int = 0) -> Tensor:
        """[B] DCG of the best order, of its first `truncation` documents; 1 where it is 0."""
        rank_N = self.layout.positions + 1  # of `by_grade`
        worth_N = self.gains[self.by_grade] * self.discount(rank_N)
        if truncation:
            worth_N = torch.where(rank_N <= truncation, worth_N, 0)
        best_B = self.sum(worth_N)
        return best_B.where(best_B > 0, torch.ones_like(best_B))

    # ---- pairs

    @cached_property
    def _below(self) -> tuple[Tensor, Tensor]:
        """Of the documents sorted by grade: where those of a lower grade begin, and how many they are."""
        order, row_N = self.by_grade, self.row
        grade_N = self.grade_N[order]
        new_N = torch.ones(len(order), dtype=torch.bool, device=order.device)
        new_N[1:] = (grade_N[1:] != grade_N[:-1]) | (row_N[1:] != row_N[:-1])
        run_N = new_N.cumsum(0) - 1
        begin_R = new_N.nonzero().squeeze(1)
        next_N = torch.cat([begin_R, begin_R.new_tensor([len(order)])])[run_N + 1]
        return next_N, (self.starts + self.sizes)[row_N] - next_N

    @cached_property
    def _alike(self) -> tuple[Tensor, Tensor]:
        """The same of the documents of the same grade that follow."""
        next_N, _ = self._below
        place_N = torch.arange(len(next_N), device=next_N.device)
        return place_N + 1, next_N - place_N - 1

    @cached_property
    def _adjacent(self) -> tuple[Tensor, Tensor]:
        """The same of those of the next lower grade in the query."""
        next_N, count_N = self._below
        end_N = torch.cat([next_N, next_N.new_zeros(1)])[next_N.clamp(max=len(next_N))]
        return next_N, torch.where(count_N > 0, end_N - next_N, 0)

    def pairs(self, which: str = "below") -> Iterator[tuple[Tensor, Tensor]]:
        """Tiles of pairs of documents (i, j), l_i > l_j; which: "below" for all of them, "adjacent" for those without a
        grade between, "alike" for l_i = l_j, each pair once."""
        first_N, count_N = {"below": self._below, "adjacent": self._adjacent, "alike": self._alike}[which]
        for i_P, j_P in _tiles(first_N, count_N):
            yield self.by_grade[i_P], self.by_grade[j_P]

    def drawn(self, count: int) -> tuple[Tensor, Tensor]:
        """For each document that has any of a lower grade in its query, `count` of these, drawn evenly: [P] and [P]."""
        first_N, count_N = self._below
        some_R = (count_N > 0).nonzero().squeeze(1)
        drawn_RC = uniforms(self.key_N[self.by_grade[some_R]], count)
        place_RC = first_N[some_R, None] + (drawn_RC * count_N[some_R, None]).long()
        return self.by_grade[some_R].repeat_interleave(count), self.by_grade[place_RC.flatten()]

    def everyone(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Tiles of all ordered pairs (i, j) of a query, i = j too."""
        row_N = self.row
        yield from _tiles(self.starts[row_N], self.sizes[row_N])


def _tiles(first_N: Tensor, count_N: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (i, first_i), (i, first_i + 1) … (i, first_i + count_i − 1), some documents i at a time."""
    done_N = count_N.cumsum(0)
    total = int(done_N[-1]) if len(done_N) else 0
    start, counted = 0, 0
    while counted < total:
        stop = int(torch.searchsorted(done_N, counted + TILE, right=True))
        stop = max(stop, start + 1)
        some = count_N[start:stop]
        i_P = torch.arange(start, stop, device=count_N.device).repeat_interleave(some)
        before = (done_N[start:stop] - some - counted).repeat_interleave(some)
        j_P = first_N[i_P] + torch.arange(len(i_P), device=count_N.device) - before
        yield i_P, j_P
        start, counted = stop, int(done_N[stop - 1])


def tie_keys(item_N: Tensor, seed: int) -> Tensor:
    """[N] a random number for each document: the same for the same seed, whatever else is in the batch."""
    x = (item_N + 1) * _FIRST + (seed ^ (seed >> 31)) % (1 << 62)
    for shift in (30, 27, 31):
        x = (x ^ (x >> shift)) * _SECOND
    return x ^ (x >> 32)


def uniforms(key_N: Tensor, count: int) -> Tensor:
    """[N, count] random numbers of (0, 1), float64, decided by the documents' own."""
    place = torch.arange(1, count + 1, device=key_N.device)
    bits = tie_keys(key_N[:, None] ^ (place * _FIRST), 0) & ((1 << 31) - 1)
    return (bits.double() + 0.5) / (1 << 31)


class RankLoss(ABC, Generic[Settings]):
    """A loss of each query, and what their sum is divided by."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        """[B] of each query; 0 of one that says nothing."""

    def count(self, lengths_B: Tensor, pairs_B: Tensor) -> int:
        """What the sum of losses is divided by: queries with documents of unequal grades."""
        return int((pairs_B > 0).sum())

    def scores(self, logits_N: Tensor) -> Tensor:
        """[N] to rank the documents by."""
        return logits_N


Whole = TypeVar("Whole", bound=Listwise)


class ListLoss(RankLoss[Whole]):
    """A loss of whole queries, which count alike, by their pairs or by their documents."""

    @abstractmethod
    def of_queries(self, logits_N: Tensor, queries: Queries) -> Tensor:
        """[B] of each query; 0 of one that says nothing."""

    def losses(self, logits_N: Tensor, queries: Queries) -> Tensor:
        losses_B = self.of_queries(logits_N, queries)
        if self.settings.per == "query":
            return losses_B
        return losses_B * (queries.pairs_B if self.settings.per == "pair" else queries.sizes)

    def count(self, lengths_B: Tensor, pairs_B: Tensor) -> int:
        return counted(self.settings.per, lengths_B, pairs_B)


def counted(per: str, lengths_B: Tensor, pairs_B: Tensor) -> int:
    """Queries with an order, or their pairs, or their documents."""
    informative_B = pairs_B > 0
    if per == "pair":
        return int(pairs_B.sum())
    return int((lengths_B * informative_B).sum() if per == "document" else informative_B.sum())


class Factored(torch.autograd.Function):
    """A loss of each query [B] whose gradient [N] is known: `work` computes both."""

    @staticmethod
    def forward(ctx: Any, logits_N: Tensor, queries: Queries, work: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
        losses_B, gradient_N = work(logits_N.detach(), queries)
        ctx.save_for_backward(gradient_N, queries.row)
        return losses_B

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_B: Tensor) -> tuple[Tensor, None, None]:
        gradient_N, row_N = ctx.saved_tensors
        return gradient_N * gradient_B[row_N], None, None
