"""Losses of an order against loops over documents, finite differences, TF-Ranking's published values and LightGBM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from canon.data.batching.lists import Grades
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.objectives.ranking import base, settings
from canon.objectives.ranking.base import Queries, RankLoss, tie_keys
from canon.objectives.ranking.listwise import BoltzRank, ListMLE, ListNet
from canon.objectives.ranking.measured import ApproxNDCG, LambdaRank, SoftRank
from canon.objectives.ranking.pairwise import Mix, PairBPR, PairExponential, PairHinge, RankNet
from canon.objectives.ranking.pointwise import (
    CumulativeLogit,
    GradeHinge,
    GradeLogistic,
    GradeSquared,
    McRank,
    OrdinalHinge,
)
from canon.objectives.ranking.records import RANKING
from canon.objectives.table import by_name

# Queries of six documents and fewer: equal grades, equal scores, one document, none with an order, an empty one.
GRADES = [[2, 0, 1, 1, 0, 2], [0, 0, 0], [1, 0], [], [1], [0, 2, 0, 1], [2, 2]]
SCORES = [[0.3, -0.2, 0.5, 0.5, 1.0, -1.0], [0.1, 0.2, 0.3], [0.0, 0.0], [], [2.0], [-0.5, 0.4, 0.9, 0.4], [1.0, 2.0]]


def made(grades: Sequence[Sequence[float]]) -> Queries:
    flat = np.array([g for query in grades for g in query], dtype=np.float64)
    lengths = np.array([len(query) for query in grades])
    pairs = Grades(flat, np.concatenate([[0], np.cumsum(lengths)])).pairs
    keys = tie_keys(torch.arange(len(flat)), 3)
    return Queries(torch.from_numpy(flat), Layout(torch.from_numpy(lengths)), keys, torch.from_numpy(pairs))


def scores() -> Tensor:
    return torch.tensor([s for query in SCORES for s in query], dtype=torch.float64)


def informative(grades: Sequence[float]) -> bool:
    return len(set(grades)) > 1


def pairs_of(grades: Sequence[float]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(grades)) for j in range(len(grades)) if grades[i] > grades[j]]


def check(loss: RankLoss[Any], brute: Callable[[Sequence[float], Sequence[float]], float]) -> None:
    """The loss of each query is that of a loop over its documents; queries without an order have none."""
    losses = loss.losses(scores(), made(GRADES)).tolist()
    wanted = [brute(g, s) if informative(g) else 0.0 for g, s in zip(GRADES, SCORES, strict=True)]
    assert losses == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def differentiable(loss: RankLoss[Any], width: int = 0, seed: int = 0) -> None:
    draw = torch.Generator().manual_seed(seed)
    N = sum(map(len, GRADES))
    logits = torch.randn(*((N, width) if width else (N,)), generator=draw, dtype=torch.float64, requires_grad=True)
    queries = made(GRADES)
    assert torch.autograd.gradcheck(lambda x: loss.losses(x, queries), (logits,), atol=1e-6)


def gain(grade: float) -> float:
    return 2.0**grade - 1


def ideal(grades: Sequence[float], most: int = 1000) -> float:
    return sum(gain(g) / math.log2(2 + r) for r, g in enumerate(sorted(grades, reverse=True)[:most]))


# ---- pairs


@pytest.mark.parametrize("tile", [1, 4, 1 << 20])
def test_pairs_come_in_tiles_of_any_size(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "TILE", tile)
    queries = made(GRADES)
    starts = np.cumsum([0, *map(len, GRADES)])
    pairs = [(i, j) for tiles in queries.pairs() for i, j in zip(*(t.tolist() for t in tiles), strict=True)]
    wanted = [(starts[q] + i, starts[q] + j) for q, grades in enumerate(GRADES) for i, j in pairs_of(grades)]
    assert sorted(pairs) == sorted(wanted)
    alike = [(i, j) for tiles in queries.pairs("alike") for i, j in zip(*(t.tolist() for t in tiles), strict=True)]
    wanted = [
        (starts[q] + i, starts[q] + j)
        for q, grades in enumerate(GRADES)
        for i, j in combinations(range(len(grades)), 2)
        if grades[i] == grades[j]
    ]
    assert sorted(map(tuple, map(sorted, alike))) == sorted(wanted)
    everyone = sum(len(i) for i, _ in queries.everyone())
    assert everyone == sum(len(grades) ** 2 for grades in GRADES)


def test_adjacent_pairs_have_no_grade_between_them() -> None:
    queries = made([[0, 3, 1, 3]])
    pairs = {(i, j) for tiles in queries.pairs("adjacent") for i, j in zip(*(t.tolist() for t in tiles), strict=True)}
    assert pairs == {(1, 2), (3, 2), (2, 0)}


def test_pairs_are_counted_as_they_are_made() -> None:
    assert made(GRADES).pairs_B.tolist() == [len(pairs_of(grades)) for grades in GRADES]


def test_scans_within_queries() -> None:
    queries, x = made(GRADES), scores()
    forwards, backwards = queries.scan(x), queries.scan(x, backwards=True)
    start = 0
    for values in SCORES:
        for i in range(len(values)):
            assert forwards[start + i].item() == pytest.approx(np.logaddexp.reduce(values[: i + 1]))
            assert backwards[start + i].item() == pytest.approx(np.logaddexp.reduce(values[i:]))
        start += len(values)


def test_equal_scores_are_ranked_by_the_seed_not_by_the_file() -> None:
    layout, grades = Layout(torch.tensor([50])), torch.arange(50.0)
    orders = [
        Queries(grades, layout, tie_keys(torch.arange(50), seed), torch.tensor([1])).ranks(torch.zeros(50))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])
    assert sorted(orders[0].tolist()) == list(range(1, 51))
    assert abs(np.corrcoef(orders[0].numpy(), np.arange(50))[0, 1]) < 0.4


# ---- pointwise


def test_pointwise_losses() -> None:
    check(GradeSquared(settings.Pointwise()), lambda g, s: np.mean([(a - b) ** 2 for a, b in zip(g, s, strict=True)]))
    check(
        GradeLogistic(settings.Threshold()),
        lambda g, s: np.mean([math.log1p(math.exp(-b if a >= 1 else b)) for a, b in zip(g, s, strict=True)]),
    )
    everything = GradeSquared(settings.Pointwise(per="document"))
    flat = np.array([g for query in GRADES for g in query])
    assert everything.losses(scores(), made(GRADES)).sum().item() == pytest.approx(
        ((scores().numpy() - flat) ** 2).sum()
    )
    lengths, pairs = torch.tensor([3, 2, 4]), torch.tensor([0, 1, 3])
    assert everything.count(lengths, pairs) == 9 and GradeSquared(settings.Pointwise()).count(lengths, pairs) == 2


def test_hinges_of_grades() -> None:
    def hinge(g: Sequence[float], s: Sequence[float], power: int) -> float:
        return float(np.mean([max(0.0, 1 - (b if a >= 1 else -b)) ** power for a, b in zip(g, s, strict=True)]))

    check(GradeHinge(settings.HingeThreshold()), lambda g, s: hinge(g, s, 1))
    check(GradeHinge(settings.HingeThreshold(squared=True)), lambda g, s: hinge(g, s, 2))


def test_ordinal_hinge_has_every_threshold_on_its_side() -> None:
    loss = OrdinalHinge(settings.ThresholdHinges())
    logits = torch.tensor([[0.4, -0.3], [2.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    grades = [2, 0, 1]
    wanted = 0.0
    for row, grade in zip(logits.tolist(), grades, strict=True):
        wanted += sum(max(0.0, 1 - (f if grade > k else -f)) for k, f in enumerate(row)) / len(grades)
    assert loss.losses(logits, made([grades])).item() == pytest.approx(wanted)
    assert loss.scores(logits).tolist() == pytest.approx([0.05, 1.5, 0.0])
    differentiable(OrdinalHinge(settings.ThresholdHinges(squared=True)), 2)
    with pytest.raises(CanonError, match="whole grades from 0 to 2"):
        loss.losses(logits, made([[0.5, 0, 1]]))


def test_mcrank_ranks_by_the_expected_grade() -> None:
    loss = McRank(settings.Pointwise())
    logits = torch.tensor([[0.1, 0.4, -0.3], [1.0, 0.0, 2.0]], dtype=torch.float64)
    p = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(1, keepdims=True)
    assert loss.scores(logits).tolist() == pytest.approx((p * [0, 1, 2]).sum(1).tolist())
    reached = loss.losses(logits, made([[2, 0]])).item()
    assert reached == pytest.approx(-(math.log(p[0, 2]) + math.log(p[1, 0])) / 2)
    differentiable(loss, 3)
    with pytest.raises(CanonError, match="whole grades from 0 to 2"):
        loss.losses(logits, made([[0.5, 0]]))


def test_cumulative_logits_are_chances_of_grades() -> None:
    loss = CumulativeLogit(settings.Pointwise())
    logits = torch.tensor([[0.4, -0.3], [2.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    above = 1 / (1 + np.exp(-logits.numpy()))
    chance = np.stack([1 - above[:, 0], above[:, 0] - above[:, 1], above[:, 1]], axis=1)
    reached = loss.losses(logits, made([[2, 0, 1]])).item()
    assert reached == pytest.approx(-np.mean(np.log(chance[[0, 1, 2], [2, 0, 1]])))
    assert loss.scores(logits).tolist() == pytest.approx((chance * [0, 1, 2]).sum(1).tolist())
    logits.requires_grad_()
    queries = made([[2, 0, 1]])
    assert torch.autograd.gradcheck(lambda x: loss.losses(x, queries), (logits,))


# ---- pairwise


def test_pairwise_losses() -> None:
    def ranknet(g: Sequence[float], s: Sequence[float], sigma: float = 1.0) -> float:
        return float(np.mean([math.log1p(math.exp(-sigma * (s[i] - s[j]))) for i, j in pairs_of(g)]))

    check(RankNet(settings.PairLogistic()), ranknet)
    check(RankNet(settings.PairLogistic(sigma=2.0)), lambda g, s: ranknet(g, s, 2.0))
    check(
        PairHinge(settings.PairMargin(margin=0.7)),
        lambda g, s: np.mean([max(0.0, 0.7 - (s[i] - s[j])) for i, j in pairs_of(g)]),
    )
    check(
        PairHinge(settings.PairMargin(squared=True)),
        lambda g, s: np.mean([max(0.0, 1 - (s[i] - s[j])) ** 2 for i, j in pairs_of(g)]),
    )
    check(PairExponential(settings.Pairwise()), lambda g, s: np.mean([math.exp(s[j] - s[i]) for i, j in pairs_of(g)]))
    check(
        Mix(settings.Mixed(beta=0.25)),
        lambda g, s: 0.75 * ranknet(g, s) + 0.25 * np.mean([(a - b) ** 2 for a, b in zip(g, s, strict=True)]),
    )


def test_bpr_draws_one_of_lower_grade_for_each() -> None:
    loss, queries = PairBPR(settings.DrawnPairs(negatives=3)), made(GRADES)
    first, second = queries.drawn(3)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    grade, row = queries.grade_N.tolist(), queries.row.tolist()
    assert all(grade[i] > grade[j] and row[i] == row[j] for i, j in pairs)
    above = [i for i in range(len(grade)) if any(grade[i] > grade[j] and row[i] == row[j] for j in range(len(grade)))]
    assert sorted(first.tolist()) == sorted(above * 3)
    s, wanted = scores().tolist(), np.zeros(len(GRADES))
    for i, j in pairs:
        wanted[row[i]] += math.log1p(math.exp(s[j] - s[i])) / sum(row[other] == row[i] for other, _ in pairs)
    assert loss.losses(scores(), queries).tolist() == pytest.approx(wanted.tolist())
    seeds = (tie_keys(torch.arange(1000), seed) for seed in (0, 1))
    drawn = [Queries(torch.arange(1000) % 2, Layout(torch.tensor([1000])), keys, torch.tensor([1])) for keys in seeds]
    counts = [torch.bincount(one.drawn(20)[1], minlength=1000)[::2] for one in drawn]
    assert not torch.equal(*counts) and all(abs(one.double().var().item() - 20) < 5 for one in counts)  # as even chance


@pytest.mark.parametrize("per", ["query", "pair", "document"])
def test_queries_count_alike_or_by_pairs_or_by_documents(per: Any) -> None:
    weights = {
        "query": [float(informative(g)) for g in GRADES],
        "pair": [float(len(pairs_of(g))) for g in GRADES],
        "document": [float(len(g)) for g in GRADES],
    }[per]
    lengths = torch.tensor([len(g) for g in GRADES])
    pairs = torch.tensor([len(pairs_of(g)) for g in GRADES])
    of_lists: list[tuple[type, type]] = [
        (ListNet, settings.TopK), (ListMLE, settings.Permutation), (BoltzRank, settings.Sampled),
        (ApproxNDCG, settings.Sharpness), (SoftRank, settings.ScoreNoise), (LambdaRank, settings.Lambda),
        (PairBPR, settings.DrawnPairs),
    ]  # fmt: skip
    for kind, config in of_lists:
        plain, loss = kind(config()), kind(config(per=per))
        whole = plain.losses(scores(), made(GRADES)).tolist()
        wanted = [w * value for w, value in zip(weights, whole, strict=True)]
        assert loss.losses(scores(), made(GRADES)).tolist() == pytest.approx(wanted)
        total = sum(w for w, g in zip(weights, GRADES, strict=True) if informative(g))
        assert loss.count(lengths, pairs) == total


def test_ranknet_with_ties_and_the_ways_to_divide() -> None:
    def tied(g: Sequence[float], s: Sequence[float]) -> float:
        """Every pair once, with the probability 1, ½ or 0 that the first is before the second."""
        losses = []
        for i, j in combinations(range(len(g)), 2):
            p, d = 0.5 + 0.5 * np.sign(g[i] - g[j]), s[i] - s[j]
            losses.append(p * math.log1p(math.exp(-d)) + (1 - p) * math.log1p(math.exp(d)))
        return float(np.mean(losses))

    check(RankNet(settings.PairLogistic(ties="half")), tied)
    zero = torch.zeros(sum(map(len, GRADES)), dtype=torch.float64)
    at_start = RankNet(settings.PairLogistic()).losses(zero, made(GRADES))
    counted = [informative(grades) for grades in GRADES]
    assert at_start[torch.tensor(counted)].tolist() == pytest.approx([math.log(2)] * sum(counted))
    lengths, pairs = torch.tensor([3, 2, 4]), torch.tensor([0, 1, 3])
    counts = {
        per: RankNet(settings.PairLogistic(per=per)).count(lengths, pairs) for per in ("query", "pair", "document")
    }
    assert counts == {"query": 2, "pair": 4, "document": 6}
    by_pair = RankNet(settings.PairLogistic(per="pair")).losses(zero, made(GRADES)).sum().item()
    assert by_pair == pytest.approx(math.log(2) * sum(len(pairs_of(grades)) for grades in GRADES))


@pytest.mark.parametrize(
    "loss",
    [
        RankNet(settings.PairLogistic(sigma=1.5, ties="half")),
        RankNet(settings.PairLogistic(pairs="adjacent", per="document")),
        PairHinge(settings.PairMargin(squared=True)),
        PairExponential(settings.Pairwise(per="pair")),
        Mix(settings.Mixed()),
        PairBPR(settings.DrawnPairs(negatives=2, per="pair")),
        GradeHinge(settings.HingeThreshold(squared=True, per="pair")),
        ListNet(settings.TopK()),
        ListNet(settings.TopK(k=3)),
        ListMLE(settings.Permutation()),
        ListMLE(settings.Permutation(weights="discount")),
        ListMLE(settings.Permutation(weights="exponential")),
        BoltzRank(settings.Sampled(samples=7)),
        ApproxNDCG(settings.Sharpness(alpha=2.0)),
        SoftRank(settings.ScoreNoise(noise=0.7)),
        SoftRank(settings.ScoreNoise(truncation=2)),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_gradients_are_finite_differences(loss: RankLoss[Any]) -> None:
    differentiable(loss)


# ---- listwise


def softmax(values: Sequence[float]) -> np.ndarray:
    e = np.exp(np.array(values, dtype=float))
    return e / e.sum()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_listnet_over_all_orders_of_the_first_places(k: int) -> None:
    def brute(g: Sequence[float], s: Sequence[float]) -> float:
        total = 0.0
        for order in permutations(range(len(g)), min(k, len(g))):
            chances = []
            for values in (g, s):
                left, p = list(range(len(g))), 1.0
                for document in order:
                    p *= math.exp(values[document]) / sum(math.exp(values[other]) for other in left)
                    left.remove(document)
                chances.append(p)
            total -= chances[0] * math.log(chances[1])
        return total

    check(ListNet(settings.TopK(k=k)), brute)


def test_long_queries_have_fewer_places() -> None:
    assert [ListNet(settings.TopK(k=3)).places(n) for n in (2, 3, 47, 48, 316, 317, 1000)] == [2, 3, 3, 2, 2, 1, 1]


@pytest.mark.parametrize("weights", ["none", "discount", "exponential"])
def test_listmle_is_the_likelihood_of_the_best_order(weights: str) -> None:
    queries = made(GRADES)
    losses = ListMLE(settings.Permutation(weights=weights)).losses(scores(), queries).tolist()
    order, start = queries.by_grade.tolist(), 0
    for number, grades in enumerate(GRADES):
        n = len(grades)
        s = [scores()[document].item() for document in order[start : start + n]]
        start += n
        w = {
            "none": [1.0] * n,
            "discount": [1 / math.log2(2 + i) for i in range(n)],
            "exponential": [2.0 ** (n - 1 - i) - 1 for i in range(n)],
        }[weights]
        if weights == "exponential" and sum(w):
            w = [each * n / sum(w) for each in w]
        likelihood = sum(w[i] * (np.logaddexp.reduce(s[i:]) - s[i]) for i in range(n))
        assert losses[number] == pytest.approx(likelihood if informative(grades) else 0.0)


def test_boltzrank_weighs_rankings_by_all_pairs() -> None:
    loss, queries = BoltzRank(settings.Sampled(samples=5, temperature=0.5)), made(GRADES)
    ranks, losses, start = loss.rankings(queries).numpy(), loss.losses(scores(), queries).tolist(), 0
    for number, (g, s) in enumerate(zip(GRADES, SCORES, strict=True)):
        n, own = len(g), ranks[start : start + len(g)]
        start += n
        if not informative(g):
            assert losses[number] == 0
            continue
        assert all(sorted(column) == list(range(1, n + 1)) for column in own.T.tolist())
        assert [g[i] for i in np.argsort(own[:, 0])] == sorted(g, reverse=True)
        energies = [
            2 / (n * (n - 1)) * sum((r[j] - r[i]) * (s[j] - s[i]) for i in range(n) for j in range(n) if r[j] > r[i])
            for r in own.T
        ]
        worth = [sum(gain(g[i]) / math.log2(1 + r[i]) for i in range(n)) / ideal(g) for r in own.T]
        assert losses[number] == pytest.approx(1 - float(softmax([-e / 0.5 for e in energies]) @ worth))


def test_published_values_of_tf_ranking() -> None:
    """Labels [1, 0], scores [0.6, 0.8]: its documented losses."""
    queries, s = made([[1, 0]]), torch.tensor([0.6, 0.8], dtype=torch.float64)
    assert ListMLE(settings.Permutation()).losses(s, queries).item() == pytest.approx(0.7981389, abs=1e-7)
    assert ApproxNDCG(settings.Sharpness(alpha=10.0)).losses(s, queries).item() == pytest.approx(-0.655107, abs=1e-6)


def test_approxndcg_and_softrank() -> None:
    def approx(g: Sequence[float], s: Sequence[float]) -> float:
        total = 0.0
        for i in range(len(g)):
            rank = 1 + sum(1 / (1 + math.exp(-3 * (s[j] - s[i]))) for j in range(len(g)) if j != i)
            total -= gain(g[i]) / math.log2(1 + rank)
        return total / ideal(g)

    check(ApproxNDCG(settings.Sharpness(alpha=3.0)), approx)

    def soft(g: Sequence[float], s: Sequence[float], most: int) -> float:
        """The chance of each rank, as a sum over all sets of documents before it."""
        n, total = len(g), 0.0
        for i in range(n):
            others = [j for j in range(n) if j != i]
            ahead = {j: 0.5 * (1 + math.erf((s[j] - s[i]) / 2 / 0.8)) for j in others}
            for before in range(min(n, most)):
                chance = sum(
                    math.prod(ahead[j] if j in chosen else 1 - ahead[j] for j in others)
                    for chosen in combinations(others, before)
                )
                total += gain(g[i]) * chance / math.log2(2 + before)
        return 1 - total / ideal(g, most)

    check(SoftRank(settings.ScoreNoise(noise=0.8)), lambda g, s: soft(g, s, 30))
    check(SoftRank(settings.ScoreNoise(noise=0.8, truncation=2)), lambda g, s: soft(g, s, 2))


@pytest.mark.parametrize("truncation", [2, 30])
def test_lambdarank_weighs_pairs_by_what_their_exchange_changes(truncation: int) -> None:
    queries = made(GRADES)
    s = scores().requires_grad_()
    loss = LambdaRank(settings.Lambda(sigma=1.3, truncation=truncation)).losses(s, queries)
    loss.sum().backward()
    rank, start, wanted = queries.ranks(scores()).tolist(), 0, [0.0] * len(s)
    for number, grades in enumerate(GRADES):
        total = 0.0
        for i, j in pairs_of(grades):
            r_i, r_j, d = rank[start + i], rank[start + j], SCORES[number][i] - SCORES[number][j]
            if min(r_i, r_j) > truncation:
                continue
            change = (gain(grades[i]) - gain(grades[j])) * abs(1 / math.log2(1 + r_i) - 1 / math.log2(1 + r_j))
            change /= ideal(grades, truncation)
            total += change * math.log1p(math.exp(-1.3 * d))
            slope = -1.3 * change / (1 + math.exp(1.3 * d))
            wanted[start + i] += slope
            wanted[start + j] -= slope
        assert loss[number].item() == pytest.approx(total)
        start += len(grades)
    assert s.grad is not None and s.grad.tolist() == pytest.approx(wanted)


def test_lambdarank_has_the_gradients_of_lightgbm() -> None:
    """The value of a leaf is −Σ g / (Σ h + λ₂): with a large λ₂ the sums of g over random leaves can be read off."""
    lightgbm = pytest.importorskip("lightgbm")
    draw = np.random.default_rng(0)
    sizes = np.array([12, 40, 3, 7, 25])
    n, large = int(sizes.sum()), 1e7
    grades, start = draw.integers(0, 4, n).astype(float), draw.standard_normal(n)
    layout = Layout(torch.from_numpy(sizes))
    pairs = Grades(grades, np.concatenate([[0], np.cumsum(sizes)])).pairs
    queries = Queries(torch.from_numpy(grades), layout, tie_keys(torch.arange(n), 0), torch.from_numpy(pairs))
    s = torch.from_numpy(start).requires_grad_()
    LambdaRank(settings.Lambda(truncation=5, norm="lightgbm")).losses(s, queries).sum().backward()
    assert s.grad is not None
    how = {"objective": "lambdarank", "lambdarank_norm": True, "lambdarank_truncation_level": 5, "sigmoid": 1.0}
    tree = {"num_leaves": 8, "min_data_in_leaf": 5, "min_sum_hessian_in_leaf": 0, "learning_rate": 1.0}
    regular = {"lambda_l2": large, "num_threads": 1, "deterministic": True, "verbosity": -1, "min_data_in_bin": 1}
    leaves = 0
    for _ in range(30):
        feature = draw.permutation(n).astype(float)[:, None]
        options = {**how, **tree, **regular}
        data = lightgbm.Dataset(feature, grades, group=sizes, init_score=start, params=options)
        booster = lightgbm.train(options, data, num_boost_round=1)
        leaf = booster.predict(feature, pred_leaf=True).ravel()
        if leaf.max() == 0:  # a tree without a split has no value
            continue
        sums = np.bincount(leaf, weights=s.grad.numpy())[leaf]
        assert -booster.predict(feature, raw_score=True) * large == pytest.approx(sums, rel=1e-5, abs=1e-5)
        leaves += int(leaf.max()) + 1
    assert leaves > n  # more sums than gradients


@pytest.mark.parametrize("name", [record.name for record in RANKING])
def test_a_split_into_batches_changes_no_loss(name: str) -> None:
    """Each query's loss depends on its own documents alone, and is 0 with a zero gradient where it has no order."""
    record = by_name()[name]
    loss = record.load()(record.tasks["ranking"]())
    width = {"grades": 3, "ordered": 2}.get(record.decides.get("head", ""), 0)
    logits = torch.arange(sum(map(len, GRADES)), dtype=torch.float64).sin()
    if width:
        logits = logits[:, None] - torch.arange(width)
    logits.requires_grad_()
    whole = loss.losses(logits, made(GRADES))
    start = 0
    for number, grades in enumerate(GRADES):
        stop = start + len(grades)
        if grades:
            flat = torch.tensor(grades, dtype=torch.float64)
            keys = tie_keys(torch.arange(start, stop), 3)
            own = Queries(flat, Layout(torch.tensor([len(grades)])), keys, made([grades]).pairs_B)
            assert loss.losses(logits[start:stop], own).item() == pytest.approx(whole[number].item(), abs=1e-12)
        start = stop
    (slope,) = torch.autograd.grad(whole.sum(), logits)
    assert slope.isfinite().all()
    silent = [not informative(grades) for grades in GRADES for _ in grades]
    assert whole[torch.tensor([not informative(grades) for grades in GRADES])].abs().max() == 0
    assert slope[torch.tensor(silent)].abs().max() == 0
