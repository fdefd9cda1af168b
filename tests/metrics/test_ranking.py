"""Ranking measures against LightGBM, XGBoost, scikit-learn, trec_eval and brute force."""

from __future__ import annotations

import itertools
import math

import lightgbm
import numpy as np
import pytest
import pytrec_eval
import sklearn.metrics as sk
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from canon import metrics
from canon.errors import CanonError


class Data:
    """Random queries with tied scores; the first is one irrelevant document, the second one relevant document, the
    third has no relevant document, some are long enough that an unstable sort would reorder ties."""

    def __init__(self, seed: int, top: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.sizes = np.concatenate([[1, 1, 25, 70, 40], rng.integers(2, 30, 15)])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        n = int(self.sizes.sum())
        self.groups = np.repeat(np.arange(len(self.sizes)), self.sizes)
        self.relevance = rng.integers(0, top + 1, n)
        self.relevance[0], self.relevance[1] = 0, top
        self.relevance[2:27] = 0
        self.scores = np.round(rng.normal(size=n), 1)
        self.documents = np.array([f"d{i}" for i in rng.permutation(n)])

    def queries(self):
        for a, b in itertools.pairwise(self.offsets):
            yield self.relevance[a:b], self.scores[a:b], self.documents[a:b]


def lightgbm_value(data: Data, metric: str, k: int, **settings) -> float:
    """What LightGBM reports for these scores, given to it as the initial score of a model without trees."""
    quiet = {"verbose": -1}
    table = lightgbm.Dataset(
        np.zeros((len(data.scores), 1)),
        label=data.relevance,
        group=data.sizes,
        init_score=data.scores,
        params=quiet,
    )
    model = lightgbm.Booster({"objective": "none", "metric": metric, "eval_at": [k], **quiet, **settings}, table)
    return float(model.eval_train()[0][2])


def xgboost_value(data: Data, metric: str, **settings) -> float:
    """What XGBoost reports for these scores, given to it as the base margin of a model without trees."""
    table = xgboost.DMatrix(np.zeros((len(data.scores), 1)), label=data.relevance, base_margin=data.scores)
    table.set_group(data.sizes)
    objective = "rank:ndcg" if metric.startswith("ndcg") else "rank:map"
    model = xgboost.Booster({"objective": objective, "eval_metric": metric, **settings}, [table])
    return float(model.eval(table).split(":")[-1])


def trec_values(data: Data, measure: str) -> np.ndarray:
    """What trec_eval reports, query by query."""
    qrels, run = {}, {}
    for q, (relevance, scores, documents) in enumerate(data.queries()):
        qrels[str(q)] = {d: int(r) for d, r in zip(documents, relevance, strict=True)}
        run[str(q)] = {d: float(s) for d, s in zip(documents, scores, strict=True)}
    key = measure.replace(".", "_")
    result = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(run)
    return np.array([result[str(q)][key] for q in range(len(data.sizes))])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_ndcg_lightgbm_preset_equals_lightgbm(seed, k):
    data = Data(seed)
    ours = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=k, preset="lightgbm")
    assert ours == pytest.approx(lightgbm_value(data, "ndcg", k), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_ndcg_xgboost_preset_equals_xgboost(seed, k):
    data = Data(seed)
    ours = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=k, preset="xgboost")
    assert ours == pytest.approx(xgboost_value(data, f"ndcg@{k}"), abs=1e-12)
    zero = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=k, preset="xgboost", empty=0.0)
    assert zero == pytest.approx(xgboost_value(data, f"ndcg@{k}-"), abs=1e-12)


def test_gain_settings_equal_lightgbms_label_gain_and_xgboosts_linear_gain():
    data = Data(4)
    table = [0, 1, 5, 6, 20]
    ours = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=5, preset="lightgbm", gain=table)
    assert ours == pytest.approx(lightgbm_value(data, "ndcg", 5, label_gain=table), abs=1e-12)
    ours = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=5, preset="xgboost", gain="linear")
    assert ours == pytest.approx(xgboost_value(data, "ndcg@5", ndcg_exp_gain=False), abs=1e-12)


@pytest.mark.parametrize("settings", [{}, {"lambdarank_num_pair_per_sample": 8}, {"lambdarank_pair_method": "mean"}])
def test_xgboosts_plain_ndcg_is_ndcg_at_32_whatever_the_pairs(settings):
    data = Data(0)
    plain = xgboost_value(data, "ndcg", **settings)
    by_k = {
        k: metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=k, preset="xgboost") for k in (31, 32, None)
    }
    assert plain == pytest.approx(by_k[32], abs=1e-12)
    assert abs(plain - by_k[None]) > 1e-3 and abs(plain - by_k[31]) > 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_sklearn_preset_equals_scikit_learn(seed, k):
    data = Data(seed)
    several = [(r, s) for r, s, _ in data.queries() if len(r) > 1]
    expected = [sk.ndcg_score([r], [s], k=k) for r, s in several]
    ours = metrics.ndcg(
        np.concatenate([r for r, _ in several]),
        np.concatenate([s for _, s in several]),
        sizes=[len(r) for r, _ in several],
        k=k,
        preset="sklearn",
    )
    assert ours == pytest.approx(np.mean(expected), abs=1e-12)


def test_single_document_queries_under_the_sklearn_preset_get_the_formulas_value_where_scikit_learn_refuses():
    with pytest.raises(ValueError, match="more than 1 document"):
        sk.ndcg_score([[3]], [[0.5]])
    assert metrics.ndcg([3], [0.5], preset="sklearn") == 1.0
    assert metrics.ndcg([0], [0.5], preset="sklearn") == 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_trec_preset_equals_trec_eval_query_by_query(seed, k):
    data = Data(seed)
    how = metrics.convention("trec")
    ranked = metrics.rank(
        data.relevance,
        data.scores,
        groups=data.groups,
        documents=data.documents,
        ties=how.ties,
        precision=how.precision,
    )
    ours = metrics.ndcg_by_query(ranked, k=k, gain=how.gain, empty=how.empty)
    theirs = trec_values(data, "ndcg" if k is None else f"ndcg_cut.{k}")
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    mean = metrics.ndcg(data.relevance, data.scores, groups=data.groups, documents=data.documents, k=k, preset="trec")
    assert mean == pytest.approx(theirs.mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("measure", "function", "arguments"),
    [
        ("P.3", "precision_at", {"k": 3}),
        ("P.50", "precision_at", {"k": 50}),
        ("recall.5", "recall_at", {"k": 5}),
        ("success.3", "hit_rate", {"k": 3}),
        ("map", "mean_average_precision", {}),
        ("map_cut.5", "mean_average_precision", {"k": 5}),
        ("recip_rank", "mean_reciprocal_rank", {}),
    ],
)
def test_other_measures_equal_trec_eval(measure, function, arguments):
    data = Data(7)
    ours = getattr(metrics, function)(
        data.relevance,
        data.scores,
        groups=data.groups,
        documents=data.documents,
        ties="document",
        precision="float32",
        **arguments,
    )
    assert ours == pytest.approx(trec_values(data, measure).mean(), abs=1e-12)


@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_map_with_the_cutoff_denominator_equals_lightgbm_and_xgboost(k):
    data = Data(3, top=1)
    ours = metrics.mean_average_precision(
        data.relevance, data.scores, sizes=data.sizes, k=k, denominator="cutoff", empty=1.0, ties="order"
    )
    assert ours == pytest.approx(lightgbm_value(data, "map", k), abs=1e-12)
    assert ours == pytest.approx(xgboost_value(data, f"map@{k}"), abs=1e-12)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_precision_divided_by_the_list_length_equals_xgboost(k):
    data = Data(3, top=1)
    ours = metrics.precision_at(data.relevance, data.scores, sizes=data.sizes, k=k, short="length", ties="order")
    assert ours == pytest.approx(xgboost_value(data, f"pre@{k}"), abs=1e-12)


def test_scores_that_differ_only_beyond_float32_are_ties_to_xgboost_and_trec_eval_but_not_to_lightgbm():
    data = Data(0)
    data.scores = 1 + 1e-12 * data.scores  # an order in float64, one big tie in float32
    arguments = {"sizes": data.sizes, "k": 5}
    xgb = metrics.ndcg(data.relevance, data.scores, preset="xgboost", **arguments)
    lgb = metrics.ndcg(data.relevance, data.scores, preset="lightgbm", **arguments)
    trec = metrics.ndcg(data.relevance, data.scores, documents=data.documents, preset="trec", **arguments)
    assert xgb == pytest.approx(xgboost_value(data, "ndcg@5"), abs=1e-12)
    assert lgb == pytest.approx(lightgbm_value(data, "ndcg", 5), abs=1e-12)
    assert trec == pytest.approx(trec_values(data, "ndcg_cut.5").mean(), abs=1e-12)
    assert abs(xgb - lgb) > 1e-3


def test_a_query_without_documents_counts_as_empty_as_in_lightgbm_and_xgboost():
    data = Data(0)
    data.relevance, data.scores, data.sizes = np.array([0, 1, 1, 0]), np.array([1.0, 2, 3, 4]), np.array([2, 0, 2])
    ours = metrics.ndcg(data.relevance, data.scores, sizes=data.sizes, k=2, preset="lightgbm")
    assert ours == pytest.approx(lightgbm_value(data, "ndcg", 2), abs=1e-12)
    assert ours == pytest.approx(xgboost_value(data, "ndcg@2"), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=5), st.integers(1, 5))
@settings(max_examples=80)
def test_averaged_ties_equal_the_mean_over_all_orders(rows, k):
    """Brute force: every permutation that keeps scores falling, each equally likely."""
    relevance, scores = (np.array(c, dtype=float) for c in zip(*rows, strict=True))
    orders = [p for p in itertools.permutations(range(len(rows))) if all(np.diff(scores[list(p)]) <= 0)]
    expected = {"dcg": [], "cg": [], "precision_at": [], "recall_at": []}
    for order in orders:
        ranked = relevance[list(order)][:k]
        expected["dcg"].append(sum((2**g - 1) / math.log2(i + 2) for i, g in enumerate(ranked)))
        expected["cg"].append(sum(ranked))
        expected["precision_at"].append(np.sum(ranked >= 1) / k)
        expected["recall_at"].append(np.sum(ranked >= 1) / max(np.sum(relevance >= 1), 1))
    for name, values in expected.items():
        assert getattr(metrics, name)(relevance, scores, k=k) == pytest.approx(np.mean(values), abs=1e-12)


def brute_err(grades, k, top):
    value, going_on = 0.0, 1.0
    for i, g in enumerate(grades[:k], start=1):
        r = (2**g - 1) / 2**top
        value += going_on * r / i
        going_on *= 1 - r
    return value


@pytest.mark.parametrize("k", [1, 5, None])
@pytest.mark.parametrize("ties", ["order", "worst", "best"])
def test_err_mrr_and_hit_rate_equal_a_loop_over_documents(k, ties):
    data = Data(11)
    err, rr, hit = [], [], []
    for relevance, scores, _ in data.queries():
        second = {"order": np.zeros(len(scores)), "worst": relevance, "best": -relevance}[ties]
        ranked = [int(relevance[i]) for i in sorted(range(len(scores)), key=lambda i: (-scores[i], second[i], i))]
        cut = ranked[:k]
        first = next((i for i, g in enumerate(cut, start=1) if g >= 2), None)
        err.append(brute_err(ranked, k, 4))
        rr.append(1 / first if first else 0)
        hit.append(float(first is not None))
    how = {"groups": data.groups, "k": k, "ties": ties}
    assert metrics.expected_reciprocal_rank(data.relevance, data.scores, **how) == pytest.approx(np.mean(err))
    assert metrics.mean_reciprocal_rank(data.relevance, data.scores, threshold=2, **how) == pytest.approx(np.mean(rr))
    assert metrics.hit_rate(data.relevance, data.scores, threshold=2, **how) == pytest.approx(np.mean(hit))


def test_dcg_worked_example_in_both_forms():
    # Grades 3 2 3 0 1 2 in rank order: CG 11, linear DCG 6.861 (Järvelin and Kekäläinen's discount by log2(i+1)).
    relevance, scores = [3, 2, 3, 0, 1, 2], [6, 5, 4, 3, 2, 1]
    assert metrics.cg(relevance, scores) == 11
    assert metrics.dcg(relevance, scores, gain="linear") == pytest.approx(6.861, abs=5e-4)
    exponential = 7 + 3 / math.log2(3) + 7 / 2 + 1 / math.log2(6) + 3 / math.log2(7)
    assert metrics.dcg(relevance, scores) == pytest.approx(exponential, rel=1e-14)
    assert metrics.dcg(relevance, scores, log_base=math.e) == pytest.approx(exponential * math.log2(math.e), rel=1e-14)
    assert metrics.dcg(relevance, scores, gain=[0, 1, 3, 7]) == metrics.dcg(relevance, scores)
    assert metrics.ndcg([1, 1, 0], [1, 2, 3], gain="binary") == metrics.ndcg([5, 2, 0], [1, 2, 3], gain="binary")


def test_average_precision_and_err_worked_examples():
    # Relevant at ranks 1, 3, 5: AP = (1 + 2/3 + 3/5)/3.
    assert metrics.mean_average_precision([1, 0, 1, 0, 1], [5, 4, 3, 2, 1]) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    # R = 15/16 then 1/16 at grades 4 and 1: ERR = 15/16 + ½ · 1/16 · 1/16.
    assert metrics.expected_reciprocal_rank([4, 1], [2, 1]) == pytest.approx(15 / 16 + 1 / 512)


@pytest.mark.parametrize("preset", ["canon", "lightgbm", "xgboost", "sklearn", "trec"])
def test_ids_in_any_order_and_sizes_give_the_same_value(preset):
    data = Data(5)
    scores = np.random.default_rng(0).permutation(len(data.scores))  # no ties, so row order must not matter
    shuffle = np.random.default_rng(1).permutation(len(scores))
    names = np.array([f"query {g}" for g in data.groups])
    a = metrics.ndcg(data.relevance, scores, sizes=data.sizes, documents=data.documents, k=5, preset=preset)
    b = metrics.ndcg(
        data.relevance[shuffle],
        scores[shuffle],
        groups=names[shuffle],
        documents=data.documents[shuffle],
        k=5,
        preset=preset,
    )
    assert a == pytest.approx(b, abs=1e-12)


def test_the_default_does_not_depend_on_row_order_even_with_ties():
    data = Data(6)
    shuffle = np.random.default_rng(1).permutation(len(data.scores))
    for function in (metrics.ndcg, metrics.mean_average_precision, metrics.mean_reciprocal_rank):
        a = function(data.relevance, data.scores, groups=data.groups, k=5)
        b = function(data.relevance[shuffle], data.scores[shuffle], groups=data.groups[shuffle], k=5)
        assert a == pytest.approx(b, abs=1e-12)
    # A model that says nothing must not be rewarded for the relevant row coming first.
    assert metrics.hit_rate([1, 0, 0], [0, 0, 0], k=1) == 0.0


def test_empty_queries_follow_the_argument():
    relevance, scores, groups = [1, 0, 0, 0], [1, 2, 1, 2], [0, 0, 1, 1]
    half = 1 / math.log2(3)
    assert metrics.ndcg(relevance, scores, groups=groups) == pytest.approx(half / 2)
    assert metrics.ndcg(relevance, scores, groups=groups, empty=1.0) == pytest.approx((half + 1) / 2)
    assert metrics.ndcg(relevance, scores, groups=groups, empty="skip") == pytest.approx(half)
    with pytest.raises(CanonError, match="leaves nothing to average"):
        metrics.ndcg([0, 0], [1, 2], empty="skip")


def test_a_convention_tells_its_fields_and_whether_it_was_changed():
    assert str(metrics.convention("lightgbm")).startswith("lightgbm: gain=exponential, empty=1.0, ties=order")
    assert metrics.convention("lightgbm", empty=0.0).name == "lightgbm, changed"
    assert metrics.convention("lightgbm", empty=1.0) == metrics.CONVENTIONS["lightgbm"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"preset": "lightgmb"}, "did you mean lightgbm"),
        ({"gain": "exp"}, 'No gain "exp"'),
        ({"ties": "random"}, 'No ties "random"'),
        ({"empty": "drop"}, 'No empty "drop"'),
        ({"k": 0}, "k must be a positive whole number"),
        ({"groups": [0, 1]}, "a query id for each of the 3 documents, got 2"),
        ({"sizes": [1, 1]}, "sum to the 3 documents, got sum 2"),
        ({"sizes": [3], "groups": [0, 0, 0]}, "exclude each other"),
        ({"preset": "trec"}, "pass documents"),
        ({"gain": [0, 1]}, "below 2, the length of the gain table"),
        ({"precision": "float8"}, "No precision"),
        ({"scores": [1.0, np.nan, 2.0]}, "scores contains NaN"),
        ({"scores": [1.0]}, "same length"),
        ({"relevance": [-1, 0, 1]}, "must not be negative"),
        ({"relevance": [2000, 0, 1]}, "overflows"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    arguments = {"relevance": [2, 0, 1], "scores": [1.0, 2.0, 3.0], **arguments}
    with pytest.raises(CanonError) as caught:
        metrics.ndcg(**arguments)
    assert words in str(caught.value)


def test_measures_that_cannot_average_ties_say_so():
    with pytest.raises(CanonError, match="cannot average over ties"):
        metrics.hit_rate([1, 0], [1, 1], k=1, ties="average")
    with pytest.raises(CanonError, match="max_relevance is 1"):
        metrics.expected_reciprocal_rank([2, 0], [1, 1], max_relevance=1)


# ---- LETOR


def eval_score(labels: list[float], most: int) -> tuple[list[float], float]:
    """NDCG@1 … and their mean over the query's documents, step by step as Eval-Score-4.0.pl: DCG of the first is its
    gain, of the second too, then gain · log 2 / log r; 0 where there is nothing relevant, or no r-th document."""

    def dcg(grades: list[float]) -> list[float]:
        sums: list[float] = []
        for place, grade in enumerate(grades, start=1):
            worth = (2**grade - 1) * (1 if place <= 2 else math.log(2) / math.log(place))
            sums.append((sums[-1] if sums else 0.0) + worth)
        return sums

    own, best = dcg(labels), dcg(sorted(labels, reverse=True))
    values = [a / b if b else 0.0 for a, b in zip(own, best, strict=True)]
    return [values[k] if k < len(values) else 0.0 for k in range(most)], sum(values) / len(values)


def test_letor_preset_is_its_script() -> None:
    draw = np.random.default_rng(4)
    sizes = [1, 2, 5, 12, 30]
    labels = [draw.integers(0, 3, size).astype(float) for size in sizes] + [np.zeros(4)]
    scores = [draw.standard_normal(len(each)).round(1) for each in labels]  # some are equal
    ordered = [own[np.argsort(-s, kind="stable")].tolist() for own, s in zip(labels, scores, strict=True)]
    wanted = [eval_score(each, 10) for each in ordered]
    flat, flat_scores = np.concatenate(labels), np.concatenate(scores)
    lengths = [len(each) for each in labels]
    for k in (1, 2, 3, 10):
        ndcg = metrics.ndcg(flat, flat_scores, sizes=lengths, k=k, preset="letor")
        assert ndcg == pytest.approx(np.mean([values[k - 1] for values, _ in wanted]))
    ranked = metrics.rank(flat, flat_scores, sizes=lengths, ties="order")
    assert metrics.mean_ndcg_by_query(ranked, discount="letor") == pytest.approx([mean for _, mean in wanted])
