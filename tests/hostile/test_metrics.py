"""Odd inputs to every metric: the number that scikit-learn or scipy gives, or a sentence; never another error."""

from __future__ import annotations

import inspect
import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

from canon import metrics
from canon.errors import CanonError

Case = tuple[Any, Any]

# canon's function, the other's, and whether the second argument is scores, classes or numbers.
PAIRS: dict[str, tuple[Callable[..., float], Callable[..., Any], str]] = {
    "accuracy": (metrics.accuracy, sklearn.metrics.accuracy_score, "classes"),
    "f1": (metrics.f1, sklearn.metrics.f1_score, "classes"),
    "macro f1": (
        lambda y, p: metrics.f1(y, p, average="macro"),
        lambda y, p: sklearn.metrics.f1_score(y, p, average="macro"),
        "classes",
    ),
    "precision": (metrics.precision, sklearn.metrics.precision_score, "classes"),
    "recall": (metrics.recall, sklearn.metrics.recall_score, "classes"),
    "matthews": (metrics.matthews, sklearn.metrics.matthews_corrcoef, "classes"),
    "log loss": (metrics.log_loss, lambda y, p: sklearn.metrics.log_loss(y, p, labels=[0, 1]), "scores"),
    "auc": (metrics.auc, sklearn.metrics.roc_auc_score, "scores"),
    "average precision": (metrics.average_precision, sklearn.metrics.average_precision_score, "scores"),
    "mse": (metrics.mean_squared_error, sklearn.metrics.mean_squared_error, "numbers"),
    "mae": (metrics.mean_absolute_error, sklearn.metrics.mean_absolute_error, "numbers"),
    "r2": (metrics.r2, sklearn.metrics.r2_score, "numbers"),
    "pearson": (metrics.pearson, lambda y, p: scipy.stats.pearsonr(y, p).statistic, "numbers"),
    "spearman": (metrics.spearman, lambda y, p: scipy.stats.spearmanr(y, p).statistic, "numbers"),
}
NAN, INF = float("nan"), float("inf")
LABELS = [0, 1, 1, 0, 1, 0]
INPUTS: dict[str, dict[str, Case]] = {
    "classes": {
        "int8": (np.array(LABELS, np.int8), np.array([0, 1, 0, 0, 1, 1], np.int8)),
        "uint8 and int64": (np.array(LABELS, np.uint8), [0, 1, 0, 0, 1, 1]),
        "bool": (np.array(LABELS, bool), np.array([0, 1, 0, 0, 1, 1], bool)),
        "whole floats": (np.array(LABELS, np.float32), np.array([0, 1, 0, 0, 1, 1], np.float16)),
        "one class": ([1, 1, 1], [1, 1, 1]),
        "one example": ([1], [0]),
        "NaN": ([0.0, NAN], [0.0, 1.0]),
        "inf": ([0.0, 1.0], [0.0, INF]),
        "not whole": ([0.0, 1.0], [0.5, 1.0]),
        "None": ([None, 1], [0, 1]),
        "texts and numbers": (["a", 1], ["a", "b"]),
        "texts against numbers": (["0", "1"], [0, 1]),
        "nothing": ([], []),
        "unequal": ([0, 1], [0]),
        "matrix": ([[0, 1], [1, 0]], [[0, 1], [1, 0]]),
        "ragged": ([[0], [1, 0]], [0, 1]),
    },
    "scores": {
        "float32": (LABELS, np.array([0.1, 0.9, 0.4, 0.2, 1.0, 0.0], np.float32)),
        "float32, sure and wrong": ([1, 0, 1], np.array([0.0, 1.0, 0.5], np.float32)),
        "float64, sure and wrong": ([1, 0, 1], np.array([0.0, 1.0, 0.5])),
        "float16": (LABELS, np.array([0.1, 0.9, 0.4, 0.2, 1.0, 0.0], np.float16)),
        "integer": (LABELS, np.array([0, 1, 1, 0, 1, 1])),
        "tensor": (torch.tensor(LABELS), torch.tensor([0.1, 0.9, 0.4, 0.2, 0.8, 0.3])),
        "constant": (LABELS, [0.5] * 6),
        "NaN": (LABELS, [0.1, 0.9, NAN, 0.2, 1.0, 0.0]),
        "None": (LABELS, [0.1, 0.9, None, 0.2, 1.0, 0.0]),
        "texts": (LABELS, ["a"] * 6),
        "None among labels": ([0, 1, None, 0, 1, 0], [0.1, 0.9, 0.4, 0.2, 1.0, 0.0]),
        "nothing": ([], []),
        "unequal": (LABELS, [0.5]),
    },
    "numbers": {
        "float32": (np.array([1, 2, 4, 3], np.float32), np.array([1.1, 2.5, 3.0, 3.5], np.float32)),
        "float16": (np.array([1, 2, 4, 3], np.float16), np.array([1.1, 2.5, 3.0, 3.5], np.float16)),
        "uint8": (np.array([1, 200, 4, 3], np.uint8), np.array([250, 2, 3, 4], np.uint8)),
        "huge": ([1e150, 2e150, -3e150], [2e150, 1e150, -1e150]),
        "tiny": ([1e-200, 2e-200, 4e-200], [1e-200, 3e-200, 2e-200]),
        "NaN": ([1.0, NAN, 2.0], [1.0, 2.0, 3.0]),
        "inf": ([1.0, INF, 2.0], [1.0, 2.0, 3.0]),
        "−inf predicted": ([1.0, 3.0, 2.0], [1.0, -INF, 3.0]),
        "None": ([None, 1.0, 2.0], [1.0, 2.0, 3.0]),
        "texts": (["1", "2", "3"], [1.0, 2.0, 3.0]),
        "complex": ([1j, 2, 3], [1.0, 2.0, 3.0]),
        "nothing": ([], []),
        "unequal": ([1.0, 2.0], [1.0]),
    },
}
ROWS = [(metric, case) for metric, (_, _, kind) in PAIRS.items() for case in INPUTS[kind]]
# Where the other warns or gives NaN, and canon's documented value is another.
DEFINED = {("matthews", "one class"), ("matthews", "one example"), ("f1", "one example"), ("recall", "one example")}
STRICTER = ("texts", "texts and numbers", "complex", "matrix")  # of which others make what was not meant, or labels
DEFINED |= {("precision", "one example"), ("macro f1", "one example")}


@pytest.mark.parametrize(("metric", "case"), ROWS, ids=[f"{metric}: {case}" for metric, case in ROWS])
def test_the_number_of_others_or_a_sentence(metric: str, case: str) -> None:
    ours, theirs, kind = PAIRS[metric]
    labels, given = INPUTS[kind][case]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain = [one.numpy() if isinstance(one, torch.Tensor) else one for one in (labels, given)]
            wanted = float(theirs(*plain))
    except Exception:
        wanted = NAN
    try:
        actual = ours(labels, given)
    except CanonError as refusal:
        assert math.isnan(wanted) or case in STRICTER, f"{refusal} where the other gives {wanted}"
        assert str(refusal).endswith(".") and "\n" not in str(refusal)
        return
    if math.isnan(wanted) and (metric, case) in DEFINED:
        assert math.isfinite(actual)
        return
    rounding = 5e-3 if getattr(given, "dtype", None) == np.float16 else 1e-6
    assert actual == pytest.approx(wanted, rel=rounding, abs=1e-12)


ODD: list[Any] = [None, "x", b"x", 3, NAN, INF, [], [None], [None, 1], ["a", None], [[None]], [[]], {}, {"a": 1}]
ODD += [object(), [object()], [1, "a"], [[1], [1, 2]], np.array(None), np.array([None, 1]), [1j], len, [[["a"]]]]
ODD += [torch.zeros(2, requires_grad=True), np.zeros((2, 0)), np.array(["a", None], object), [10**400], [[10**400]]]
FUNCTIONS = [name for name in metrics.__all__ if name.islower() and not name.endswith("by_query")]
SEED = 15


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("mean_over_queries", "convention")])
def test_whatever_comes_is_a_number_or_a_sentence(name: str) -> None:
    """Random odd values for every argument without a default, and for one of those with."""
    function = getattr(metrics, name)
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    must = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    draw = random.Random(f"{SEED} {name}")
    good: list[Any] = [[1, 0, 1], [[1.0, 0.0]], "a b", ["a", "b"], [["a", "b"]], [["O"]], [0.5, 0.5], 0.5]
    for trial in range(60):
        values = [draw.choice(ODD if draw.random() < 0.6 else good) for _ in needed]
        keywords = dict.fromkeys(must, 1)
        if named and trial % 3 == 2:
            keywords[draw.choice(named)] = draw.choice(ODD)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*values, **keywords)
        except CanonError as refusal:
            assert str(refusal)
        except Exception as error:
            raise AssertionError(
                f"seed {SEED}, trial {trial}: {name}({values!r}, {keywords!r}) raised {error!r}"
            ) from error
