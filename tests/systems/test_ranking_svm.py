"""SVMs that rank, against LinearSVC on the differences of documents, brute force over rankings, and a QP solver."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from canon.metrics.queries import average_precision_by_query, ndcg_by_query, rank
from canon.objectives.ranking.plain import worst_by_ndcg, worst_by_precision
from canon.systems.ranking.pairs import Violations
from canon.systems.ranking.planes import least
from tests.systems.ranking_lists import learner, lists, pairs, scores, take

COLUMNS = lists(12, 8, 4, grades=4)


def differences(built: Any) -> np.ndarray:
    higher, lower = pairs(built)
    values = built.documents.values.astype(np.float64)
    return np.asarray(values[higher] - values[lower])


@pytest.mark.parametrize("margin", [1.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_violated_pairs_are_those_of_a_loop(margin: float, weighted: bool) -> None:
    built: Any = learner("ranking-svm", COLUMNS)
    of, draw = built.documents, np.random.default_rng(1)
    score_N, direction_N = np.round(draw.standard_normal(len(of.labels)), 1), draw.standard_normal(len(of.labels))
    weights_Q = draw.random(of.num_queries) if weighted else None
    sums = Violations(of, score_N, margin, weights_Q)
    higher, lower = pairs(built)
    weight = np.ones(len(higher)) if weights_Q is None else weights_Q[of.query[higher]]
    short = np.where(score_N[higher] - score_N[lower] < margin, margin - score_N[higher] + score_N[lower], 0.0)
    slopes, squares, curved = np.zeros((3, len(score_N)))
    for i, j, w, s in zip(higher, lower, weight, short, strict=True):
        if s > 1e-12:
            slopes[[i, j]] += [-w, w]
            squares[[i, j]] += [-2 * w * s, 2 * w * s]
            curved[[i, j]] += 2 * w * (direction_N[i] - direction_N[j]) * np.array([1, -1])
    assert sums.hinge() == pytest.approx((weight * short).sum(), rel=1e-12)
    assert sums.squared() == pytest.approx((weight * short**2).sum(), rel=1e-12)
    np.testing.assert_allclose(sums.hinge_slopes(), slopes, atol=1e-12)
    np.testing.assert_allclose(sums.squared_slopes(), squares, atol=1e-12)
    np.testing.assert_allclose(sums.squared_curvature(direction_N), curved, atol=1e-12)


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("per", ["pair", "query"])
def test_ranking_svm_is_linear_svc_on_differences(per: str, squared: bool) -> None:
    built: Any = take(learner("ranking-svm", COLUMNS, c=0.05, objective_per=per, objective_squared=squared), 100)
    rows, weights = differences(built), built.documents.pair_weights(per)[built.documents.query[pairs(built)[0]]]
    loss = "squared_hinge" if squared else "hinge"
    oracle = LinearSVC(C=0.05, loss=loss, fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
    # Each pair once as it is and once turned round, with half its weight.
    both, half = np.concatenate([rows, -rows]), np.tile(weights / 2, 2)
    oracle.fit(both, np.repeat([1, -1], len(rows)), sample_weight=half)
    np.testing.assert_allclose(built.weights_F, oracle.coef_[0], rtol=2e-3, atol=2e-4)
    assert built.value == pytest.approx(value(built.weights_F, rows, weights, 0.05, squared), rel=1e-9)
    assert built.logs()["gap"] < 1e-6 and len(scores(built, COLUMNS)) == len(COLUMNS["input"].values)  # type: ignore[union-attr]


def value(w: np.ndarray, rows: np.ndarray, weights: np.ndarray, c: float, squared: bool) -> float:
    short = np.maximum(0, 1 - rows @ w)
    return float(0.5 * w @ w + c * weights @ (short**2 if squared else short))


@pytest.mark.parametrize(("size", "rank_of"), [(1, 1), (5, 5), (12, 3)])
def test_weights_of_planes_are_those_of_another_solver(size: int, rank_of: int) -> None:
    draw = np.random.default_rng(size)
    rows, gains = draw.standard_normal((size, rank_of)), draw.standard_normal(size)
    ours = least(rows @ rows.T, gains)

    def cost(a: np.ndarray) -> float:
        return float(0.5 * a @ rows @ rows.T @ a - gains @ a)

    limits = {"type": "eq", "fun": lambda a: a.sum() - 1}
    start = np.full(size, 1 / size)
    theirs = minimize(cost, start, bounds=[(0, 1)] * size, constraints=limits, options={"ftol": 1e-14, "maxiter": 500})
    assert ours.sum() == pytest.approx(1) and (ours >= 0).all()
    assert cost(ours) <= theirs.fun + 1e-9


def precision_of(order: tuple[int, ...], labels: np.ndarray) -> float:
    ranked = rank(labels, -np.argsort(order).astype(float), ties="order")
    return float(average_precision_by_query(ranked)[0])


def ndcg_of(order: tuple[int, ...], labels: np.ndarray, cutoff: int) -> float:
    return float(ndcg_by_query(rank(labels, -np.argsort(order).astype(float), ties="order"), k=cutoff or None)[0])


def psi_of_pairs(order: tuple[int, ...], score_n: np.ndarray, labels: np.ndarray) -> float:
    place = np.argsort(order)
    both = [(i, j) for i in np.flatnonzero(labels >= 1) for j in np.flatnonzero(labels < 1)]
    return sum((1 if place[i] < place[j] else -1) * (score_n[i] - score_n[j]) for i, j in both) / max(len(both), 1)


def psi_of_ranks(order: tuple[int, ...], score_n: np.ndarray) -> float:
    falling = 1 / np.sqrt(1 + np.arange(1, len(order) + 1))
    return float(falling @ score_n[list(order)] / falling.sum())


def cases(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng(0)
    sizes = draw.integers(1, 7, count)
    return [(np.round(draw.normal(size=n) * draw.choice([0.1, 1, 3]), 1), draw.integers(0, 3, n) * 1.0) for n in sizes]


def test_svm_map_finds_the_worst_ranking_of_all() -> None:
    for score_n, labels in cases(30):
        weights_n, missed = worst_by_precision(score_n, labels)
        orders = list(permutations(range(len(labels))))
        if (labels >= 1).any() and (labels < 1).any():
            right = max(psi_of_pairs(o, score_n, labels) for o in orders if precision_of(o, labels) == 1)
            most = max(1 - precision_of(o, labels) + psi_of_pairs(o, score_n, labels) - right for o in orders)
        else:
            most = 0.0
        assert missed + weights_n @ score_n == pytest.approx(most, abs=1e-12)


@pytest.mark.parametrize("cutoff", [0, 2])
def test_svm_ndcg_finds_the_worst_ranking_of_all(cutoff: int) -> None:
    for score_n, labels in cases(30):
        weights_n, missed = worst_by_ndcg(score_n, labels, cutoff)
        orders = list(permutations(range(len(labels))))
        if labels.any():
            right = [psi_of_ranks(o, score_n) for o in orders if (np.diff(labels[list(o)]) <= 0).all()]
            most = max(1 - ndcg_of(o, labels, cutoff) + psi_of_ranks(o, score_n) for o in orders) - np.mean(right)
        else:
            most = 0.0
        assert missed + weights_n @ score_n == pytest.approx(most, abs=1e-12)


@pytest.mark.parametrize("name", ["svm-map", "svm-ndcg"])
def test_structured_svms_reach_the_least(name: str) -> None:
    """No step of another solver from there gets lower by more than the gap."""
    built: Any = take(learner(name, COLUMNS, c=5.0), 200)
    of = built.documents
    values = of.values.astype(np.float64)

    def cost(w: np.ndarray) -> float:
        bounds = [
            missed + weights @ part
            for first, end in zip(of.offsets[:-1], of.offsets[1:], strict=True)
            for part in [values[first:end] @ w]
            for weights, missed in [built.hinge.worst(part, of.labels[first:end])]
        ]
        return float(0.5 * w @ w + 5.0 * np.mean(bounds))

    assert built.logs()["gap"] < 1e-4
    assert built.value == pytest.approx(cost(built.weights_F), rel=1e-9)
    lower = minimize(cost, built.weights_F, method="Nelder-Mead", options={"maxfev": 300}).fun
    assert lower >= built.value * (1 - 1e-4)
    assert built.value < cost(np.zeros_like(built.weights_F))
