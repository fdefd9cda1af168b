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
    fit("linear-ranker", tmp_path / "run", 5)
    with pytest.raises(CanonError, match="linear-ranker does not know how much its features count"):
        importances(package.load(tmp_path / "run"))
