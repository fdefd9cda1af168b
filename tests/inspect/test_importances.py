"""How much features count, against the learners' own trees, votes and weights; in the command and in the report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canon as package
from canon.errors import CanonError
from canon.inspect.importances import importances, importances_figure
from canon.report.run import write_report
from canon.training.run import Run
from tests.battery.runs import fit
from tests.systems.ranking_lists import learner, lists, take

COLUMNS = lists(40, 12, 4)


def test_gains_and_splits_are_those_of_the_trees() -> None:
    """In two segments: of the closed one as its text has them."""
    built: Any = take(learner("lambdamart", COLUMNS, every=4, num_leaves=4, min_documents=5), 6)
    gain, splits = np.zeros(4), np.zeros(4)
    text = built.trees.text()
    rows = zip(re.findall(r"split_feature=(.*)", text), re.findall(r"split_gain=(.*)", text), strict=True)
    for features, gains in rows:
        for feature, value in zip(features.split(), gains.split(), strict=True):
            gain[int(feature)] += float(value)
            splits[int(feature)] += 1
    np.testing.assert_array_equal(built.importances()["splits"], splits)
    np.testing.assert_allclose(built.importances()["gain"], gain, rtol=1e-4)  # a text has six digits


def test_votes_and_weights_by_hand() -> None:
    boosted: Any = learner("rankboost", COLUMNS)
    boosted.votes = [(2, 0.5, -1.0), (0, 0.1, 0.25), (2, 0.7, 0.5)]
    np.testing.assert_array_equal(boosted.importances()["votes"], [0.25, 0, 1.5, 0])
    ada: Any = learner("adarank", COLUMNS)
    ada.rounds = [(1, 0.5), (3, 0.25), (1, 0.5)]
    np.testing.assert_array_equal(ada.importances()["weight"], [0, 1, 0, 0.25])
    svm: Any = take(learner("ranking-svm", COLUMNS, objective_squared=True), 3)
    np.testing.assert_array_equal(svm.importances()["weight"], svm.weights_F)


def test_command_and_report_order_them(tmp_path: Path, canon: Callable[..., Any]) -> None:
    fit("gbdt-ranker", tmp_path / "run", 8)
    rows = json.loads(canon("inspect", "importances", tmp_path / "run", "--json").out)["importances"]
    gains = [row["gain"] for row in rows]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    assert sorted(row["feature"] for row in rows) == ["1", "2", "3", "4"] and rows[-1]["feature"] == "4"
    assert importances_figure(importances(package.load(tmp_path / "run"))).get_axes()
    assert "Features that count most" in write_report(Run(tmp_path / "run")).read_text()


def test_others_say_that_they_do_not_know(tmp_path: Path) -> None:
    fit("mlp", tmp_path / "run", 5)
    with pytest.raises(CanonError, match="mlp does not know how much its features count"):
        importances(package.load(tmp_path / "run"))


def test_what_is_lost_without_a_feature(tmp_path: Path) -> None:
    """Of a linear ranker whose weights are known: the first feature is the grade, the others are noise."""
    draw, lines = np.random.default_rng(0), []
    for query in range(60):
        for grade in draw.integers(0, 3, 8).tolist():
            lines.append(f"{grade} qid:{query} 1:{grade + draw.normal(0, 0.2):.4f} 2:{draw.random():.4f} 3:1")
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    data, changes = str(tmp_path / "a.txt"), {"train": {"epochs": 20}, "optimizer": {"lr": 0.1}}
    run = package.train("linear-ranker:tiny", data=data, out=tmp_path / "run", quiet=True, **changes)
    model = package.load(run.path)
    measured = importances(model)
    assert measured.features[0] == "1" and list(measured.values) == ["ndcg@10 lost, shuffled", "ndcg@10 lost, its mean"]
    chance = {name: float(values[0]) for name, values in measured.values.items()}
    assert all(value > 0.1 for value in chance.values())
    assert measured.rows[measured.features.index("3")]["ndcg@10 lost, shuffled"] == 0  # a constant says nothing
    assert importances(model, quick=True).features[0] == "1"
