"""RankBoost and AdaRank against rounds by hand and by loops over pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from canon.data.batching.lists import Grades, Lists
from canon.systems.ranking.rankboost import potentials
from tests.systems.ranking_lists import learner, lists, pairs, scores, take

COLUMNS = lists(15, 9, 4, grades=4)


def one_query(values: list[list[float]], grades: list[float]) -> dict[str, Any]:
    offsets = np.array([0, len(grades)])
    return {
        "input": Lists(np.array(values, np.float32), offsets),
        "target": Grades(np.array(grades, np.float32), offsets),
    }


# ---- RankBoost


def test_a_round_of_rankboost_by_hand() -> None:
    """Grades 1, 1, 0 of one feature 3, 1, 2: two pairs of weight ½. [x > 2] has r = ½, [x > 1] has r = −½; the first of
    the features wins, at its highest threshold."""
    built: Any = take(learner("rankboost", one_query([[3.0], [1.0], [2.0]], [1, 1, 0])), 1)
    alpha = 0.5 * math.log((1 + 0.5) / (1 - 0.5))
    assert built.votes == [(0, 2.5, pytest.approx(alpha))]
    # D is now e^−α and 1, over their sum: 0.366 and 0.634. [x > 2.5] has r = 0.366, [x > 1.5] −0.634.
    take(built, 1, 2)
    first = math.exp(-alpha) / (1 + math.exp(-alpha))
    r = -(1 - first)
    assert built.votes[1] == (0, 1.5, pytest.approx(0.5 * math.log((1 + r) / (1 - r))))


@pytest.mark.parametrize("per", ["pair", "query"])
def test_rankboost_is_a_loop_over_pairs_features_and_thresholds(per: str) -> None:
    built: Any = learner("rankboost", COLUMNS, objective_per=per)
    of, (higher, lower) = built.documents, pairs(built)
    weight = built.documents.pair_weights(per)[of.query[higher]]
    weight /= weight.sum()
    score = np.zeros(len(of.labels))
    for number in range(1, 6):
        built.step(number)
        best = 0.0
        for feature in range(of.values.shape[1]):
            for threshold in np.unique(of.values[:, feature])[:-1]:
                vote = of.values[:, feature] > threshold
                best = max(best, abs(float(weight @ (vote[higher] * 1.0 - vote[lower]))))
        feature, threshold, alpha = built.votes[-1]
        vote = of.values[:, feature] > threshold
        r = float(weight @ (vote[higher] * 1.0 - vote[lower]))
        assert abs(r) == pytest.approx(best, abs=1e-12)
        assert alpha == pytest.approx(0.5 * math.log((1 + r) / (1 - r)), rel=1e-9)
        weight = weight * np.exp(-alpha * (vote[higher] * 1.0 - vote[lower]))
        assert weight.sum() <= math.sqrt(1 - r * r) + 1e-12  # Z, by the paper's bound
        weight, score = weight / weight.sum(), score + alpha * vote
    np.testing.assert_allclose(built.scores_N, score)


def test_potentials_do_not_overflow() -> None:
    built: Any = learner("rankboost", COLUMNS)
    of, (higher, lower) = built.documents, pairs(built)
    score = np.random.default_rng(0).normal(size=len(of.labels)) * 200
    ours, mean = potentials(of, score, np.ones(of.num_queries))
    d = np.exp(score[lower] - score[higher])
    wanted = np.zeros(len(score))
    np.add.at(wanted, higher, d / d.sum())
    np.add.at(wanted, lower, -d / d.sum())
    np.testing.assert_allclose(ours, wanted, atol=1e-12)
    assert mean == pytest.approx(d.mean())


# ---- AdaRank


def test_rounds_of_adarank_by_hand() -> None:
    """Two queries of two documents, the first one relevant. Feature 1 ranks the first query right (AP 1, ½), feature 2
    the second (½, 1), feature 3 neither."""
    values = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.6, 0.0], [1.0, 0.0, 1.0]]
    offsets = np.array([0, 2, 4])
    target = Grades(np.array([1, 0, 1, 0], np.float32), offsets)
    built: Any = learner("adarank", {"input": Lists(np.array(values, np.float32), offsets), "target": target})
    take(built, 1)
    alpha = 0.5 * math.log(1.75 / 0.25)  # Σ P E = ¾
    assert built.rounds == [(0, pytest.approx(alpha))]
    # P is now e^−1 and e^−½ over their sum, 0.378 and 0.622: feature 2 has Σ P E = ½·0.378 + 0.622.
    take(built, 1, 2)
    light = math.exp(-1) / (math.exp(-1) + math.exp(-0.5))
    reached = 0.5 * light + (1 - light)
    second = 0.5 * math.log((1 + reached) / (1 - reached))
    assert built.rounds[1] == (1, pytest.approx(second))
    np.testing.assert_allclose(scores(built, {"input": Lists(np.array(values, np.float32), offsets)})[0], alpha)
    # Now 0.97 stands against 1.13 in the first query, and 0.6 · 1.13 against 0.97 in the second: both are wrong.
    assert built.logs()["measure"] == pytest.approx(0.5)


@pytest.mark.parametrize(("measure", "cutoff"), [("map", 0), ("ndcg", 3)])
def test_adarank_takes_the_best_feature_that_changes_something(measure: str, cutoff: int) -> None:
    built: Any = learner("adarank", COLUMNS, objective_measure=measure, objective_cutoff=cutoff)
    of = built.documents
    seen = []
    for number in range(1, 30):
        before = built.reached_Q.copy()
        if not built.step(number):
            break
        feature, alpha = built.rounds[-1]
        p = np.exp(-before) / np.exp(-before).sum()
        by_feature = np.array([p @ built._measure(of.values[:, f]) for f in range(of.values.shape[1])])
        assert alpha == pytest.approx(0.5 * math.log((1 + by_feature[feature]) / (1 - by_feature[feature])))
        for better in np.flatnonzero(by_feature > by_feature[feature]):
            weight = 0.5 * math.log((1 + by_feature[better]) / (1 - by_feature[better]))
            earlier = built.scores_N - alpha * of.values[:, feature]
            np.testing.assert_array_equal(built._measure(earlier + weight * of.values[:, better]), before)
        assert not np.array_equal(before, built.reached_Q)
        seen.append(feature)
    assert len(set(seen)) > 1
