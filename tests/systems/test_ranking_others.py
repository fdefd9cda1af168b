"""PRank, OAP-BPM, RankProp and RankGP against the papers' loops; what all learners of rankings share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

from canon.data.batching.lists import Grades, Lists
from canon.metrics.queries import average_precision_by_query, ndcg_by_query, rank
from canon.nn.ragged import Layout
from canon.objectives.ranking.base import Queries, tie_keys
from canon.objectives.ranking.plain import in_order, measured
from canon.objectives.ranking.plain_records import PLAIN, Measured
from canon.objectives.table import by_name
from canon.registry.ranking_learners import SYSTEMS
from canon.systems.ranking import rankgp
from canon.systems.ranking.rankgp import Formula
from tests.systems.ranking_lists import learner, lists, scores, take

COLUMNS = lists(20, 8, 4, grades=4)

# ---- PRank, OAP-BPM


def test_prank_is_the_papers_loop() -> None:
    built: Any = learner("prank", COLUMNS, batch=3, grades=4)
    of, seen = built.documents, []
    learn = built._learn

    def see(x_F: np.ndarray, sign_K: np.ndarray, taken: np.ndarray) -> None:
        seen.append((x_F.copy(), int((sign_K > 0).sum())))
        learn(x_F, sign_K, taken)

    built._learn = see
    take(built, 12)
    w, b = np.zeros(4), np.zeros(3)
    for x, grade in seen:
        y = np.array([1 if grade > k else -1 for k in range(3)])
        tau = np.array([y[k] if y[k] * (w @ x - b[k]) <= 0 else 0 for k in range(3)])
        if next((k for k in range(3) if w @ x < b[k]), 3) != grade:
            assert tau.any()
        w, b = w + tau.sum() * x, b - tau
        assert (np.diff(b) >= 0).all()
    np.testing.assert_allclose(built.weights_MF[0], w)
    np.testing.assert_allclose(built.thresholds_MK[0], b)
    # A pass shows every document once, those of a query together.
    assert of.num_queries < 36
    first_pass = np.array([x for x, _ in seen[: len(of.labels)]])
    np.testing.assert_allclose(np.sort(first_pass, axis=0), np.sort(of.values, axis=0), rtol=1e-6)


def test_oap_bpm_is_the_mean_of_perceptrons_that_see_parts() -> None:
    built: Any = take(learner("oap-bpm", COLUMNS, batch=4, grades=4, perceptrons=40, share=0.3), 10)
    assert len(np.unique(built.weights_MF, axis=0)) > 20
    values = COLUMNS["input"].values  # type: ignore[union-attr]
    outputs = built.outputs(COLUMNS)
    by_each = values.astype(np.float64) @ built.weights_MF.T
    np.testing.assert_allclose(outputs["scores"], by_each.mean(axis=1))
    np.testing.assert_allclose(outputs["logits"][:, 1], (by_each - built.thresholds_MK[:, 1]).mean(axis=1))
    documents = len(built.documents.labels) / built.documents.num_queries
    assert built._seen == pytest.approx(0.3 * 40 * 10 * 4 * documents, rel=0.1)


def test_one_perceptron_that_sees_all_is_prank() -> None:
    one: Any = take(learner("oap-bpm", COLUMNS, batch=4, grades=4, perceptrons=1, share=1.0), 9)
    other: Any = take(learner("prank", COLUMNS, batch=4, grades=4), 9)
    np.testing.assert_array_equal(one.weights_MF, other.weights_MF)


# ---- RankProp


def test_targets_of_rankprop_are_isotonic_regression() -> None:
    """With labels that are all different; equal ones are free: theirs stand in the order of the scores."""
    draw = np.random.default_rng(0)
    offsets = np.array([0, 7, 7, 8, 20])
    score, label = draw.standard_normal(20), np.concatenate([draw.permutation(7), [1], draw.permutation(12)]) * 1.0
    ours = in_order(label, score, offsets)
    for first, end in ((0, 7), (7, 8), (8, 20)):
        theirs = IsotonicRegression().fit_transform(label[first:end], score[first:end])
        np.testing.assert_allclose(ours[first:end], theirs, atol=1e-12)
    tied = np.floor(label / 3)
    ours = in_order(tied, score, offsets)
    for first, end in ((0, 7), (8, 20)):
        part, of = slice(first, end), np.lexsort((score[first:end], tied[first:end]))
        theirs = IsotonicRegression().fit_transform(np.arange(end - first), score[part][of])
        np.testing.assert_allclose(ours[part][of], theirs, atol=1e-12)


def test_steps_of_rankprop_are_least_squares_fits() -> None:
    built: Any = take(learner("rankprop", COLUMNS, penalty=0.5), 1)
    of = built.documents
    rows, mean = np.hstack([of.values, np.ones((len(of.labels), 1))]).astype(np.float64), of.labels.mean()
    ridge = np.diag([0.5] * 4 + [0.0])

    def fit(target: np.ndarray) -> np.ndarray:
        return np.linalg.solve(rows.T @ rows + ridge, rows.T @ target)

    w = fit(of.labels)
    np.testing.assert_allclose([*built.weights_F, built.bias], w, rtol=1e-8)
    take(built, 1, 2)
    target = in_order(of.labels, rows[:, :-1] @ w[:-1], of.offsets)
    target = (target - target.mean()) / target.std() * of.labels.std() + mean
    np.testing.assert_allclose([*built.weights_F, built.bias], fit(target), rtol=1e-8)


# ---- RankGP


def test_formulas_are_what_they_say() -> None:
    x = np.random.default_rng(0).random((3, 6))
    codes = [rankgp._OVER, rankgp._PLUS, 0, rankgp._CONSTANT, rankgp._TIMES, 2, rankgp._MINUS, 1, 1]
    formula = Formula(codes, [0, 0, 0, 0.5, 0, 0, 0, 0, 0])
    assert str(formula) == "((x1 + 0.5) ÷ (x3 × (x2 − x2)))"
    np.testing.assert_array_equal(formula(x), np.ones(6))  # ÷ 0
    other = formula.with_subtree(6, Formula([1], [0.0]), 0)
    assert str(other) == "((x1 + 0.5) ÷ (x3 × x2))"
    np.testing.assert_allclose(other(x), (x[0] + 0.5) / (x[2] * x[1]))
    np.testing.assert_array_equal(Formula([rankgp._CONSTANT], [2.0])(x), np.full(6, 2.0))
    assert [formula.end(at) for at in (0, 1, 4, 6, 8)] == [9, 4, 9, 9, 9]


def test_generations_keep_the_best_and_their_bounds() -> None:
    built: Any = learner("rankgp", COLUMNS, individuals=15, nodes=9)
    of, best = built.documents, 0.0
    for number in range(1, 9):
        built.step(number)
        assert len(built.formulas) == 15 and all(len(each.codes) <= 31 for each in built.formulas)
        assert built.fitness == sorted(built.fitness, reverse=True) and built.fitness[0] >= best
        best = built.fitness[0]
    ranked = rank(of.labels, built.formulas[0](of.values.T.astype(float)), sizes=of.sizes, ties="order")
    assert best == pytest.approx(average_precision_by_query(ranked).mean())


# ---- what all share


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_stopped_and_continued_is_never_stopped(system: Any) -> None:
    def new() -> Any:
        more = {"grades": 4} if system.objective == "rank-error" else {}
        return learner(system.name, COLUMNS, batch=3, **more, **system.presets["tiny"])

    whole, other = take(new(), 9), new()
    parts = take(new(), 4)
    other.restore(parts.tensors(), parts.state())
    take(other, 5, 5)
    for group, tensors in whole.tensors().items():
        for key, values in tensors.items():
            np.testing.assert_array_equal(values, other.tensors()[group][key], err_msg=f"{group} {key}")
    np.testing.assert_array_equal(scores(whole, COLUMNS), scores(other, COLUMNS))
    assert whole.logs() == other.logs()


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_order_of_the_file_gives_nothing_away(system: Any) -> None:
    """Features that are all equal: a file whose documents are sorted by grade teaches nothing."""
    sizes, count = np.full(30, 6), 180
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    grades = np.tile([2, 2, 1, 0, 0, 0], 30).astype(np.float32)
    columns = {"input": Lists(np.ones((count, 2), np.float32), offsets), "target": Grades(grades, offsets)}
    more = {"grades": 3} if system.objective == "rank-error" else {}
    built = take(learner(system.name, columns, batch=3, **more, **system.presets["tiny"]), 5)
    assert np.ptp(scores(built, columns)) == 0
    logged = built.logs()
    assert logged.get("measure", 0.5) < 0.9 and logged.get("fitness", 0.5) < 0.9


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("cutoff", [0, 3])
def test_measures_are_those_of_the_metrics(worst: bool, cutoff: int) -> None:
    draw = np.random.default_rng(0)
    sizes = draw.integers(0, 9, 100)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    label, score = draw.integers(0, 3, offsets[-1]) * 1.0, draw.integers(0, 4, offsets[-1]) * 1.0
    ranked = rank(label, score, sizes=sizes, ties="worst" if worst else "order")
    for name, of in (("map", average_precision_by_query), ("ndcg", ndcg_by_query)):
        settings = Measured(measure=name, cutoff=cutoff)  # type: ignore[arg-type]
        ours = measured(label, score, offsets, settings, worst=worst)
        np.testing.assert_allclose(ours, of(ranked, k=cutoff or None), atol=1e-12)


GRADES, SCORES = [[2, 0, 1, 1], [0, 0], [], [1, 0, 1]], [[0.3, -0.2, 0.5, 0.4], [0.1, 0.2], [], [0.0, 0.7, -0.3]]


def losses(name: str, logits: list[Any]) -> list[float]:
    grade = np.array([g for query in GRADES for g in query], np.float64)
    lengths = np.array([len(query) for query in GRADES])
    pairs = Grades(grade, np.concatenate(([0], np.cumsum(lengths)))).pairs
    queries = Queries(
        torch.from_numpy(grade),
        Layout(torch.from_numpy(lengths)),
        tie_keys(torch.arange(9), 3),
        torch.from_numpy(pairs),
    )
    flat = torch.tensor([s for query in logits for s in query], dtype=torch.float64)
    record = by_name()[name]
    values: list[float] = record.load()(record.tasks["ranking"]()).losses(flat, queries).tolist()
    return values


def test_losses_by_hand() -> None:
    """Of the first query the order is 1, 1, 2, 0: AP = (1 + 1 + 1)/3; of the last it is 0, 1, 1: AP = (½ + ⅔)/2."""
    precision = [1.0, 0.0, 0.0, (1 / 2 + 2 / 3) / 2]
    assert losses("exponential-measure", SCORES) == pytest.approx([np.exp(-1), 0, 0, np.exp(-precision[3])])
    assert losses("lost-measure", SCORES) == pytest.approx([0, 0, 0, 1 - precision[3]])
    # s is to rise from 0 to 2: 0.5, 0.4 and 0.3 become their mean, 0.4; of the last (0.7 | −0.3, 0) all become 0.4/3.
    first, last = np.array(SCORES[0]), np.array(SCORES[3])
    disorder = [2 * 0.1**2 / ((first - first.mean()) ** 2).sum(), 0, 0, 1.0]
    assert ((last - last.mean()) ** 2).sum() > 0
    assert losses("disorder", SCORES) == pytest.approx(disorder)
    thresholds = [[[s - 0.1, s - 0.45] for s in query] for query in SCORES]
    # Wrong sides: 2 at 0.3 of one; 1 at 0.5 of one; of the last 0.0 of one, 0.7 of two, −0.3 of one.
    assert losses("rank-error", thresholds) == pytest.approx([2 / 4, 0, 0, 4 / 3])


def test_xe_ndcg_is_a_cross_entropy() -> None:
    keys = tie_keys(torch.arange(9), 3).numpy() & ((1 << 20) - 1)
    wanted, start = [], 0
    for grade, score in zip(GRADES, SCORES, strict=True):
        gamma = keys[start : start + len(grade)] / (1 << 20)
        start += len(grade)
        gain = np.exp2(grade) - gamma
        log_softmax = np.array(score) - np.log(np.exp(score).sum()) if score else np.zeros(0)
        wanted.append(-(gain / gain.sum()) @ log_softmax if len(set(grade)) > 1 else 0.0)
    assert losses("xe-ndcg", SCORES) == pytest.approx(wanted)


def test_structured_hinges_bound_what_they_replace() -> None:
    assert {each.name for each in PLAIN} <= set(by_name())
    for bound, lost in zip(losses("map-hinge", SCORES), losses("lost-measure", SCORES), strict=True):
        assert bound >= lost - 1e-12
