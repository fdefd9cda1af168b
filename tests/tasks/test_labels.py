"""Scores of documents with labels against scikit-learn's of the same predictions."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk

from canon.data import targets
from canon.data.batching.documents import LabelLists
from canon.data.encodings.bags import BagSchema
from canon.tasks.labels import LabelTask
from tests.objectives.choices import choice

# Of six labels: 3 is right once and never predicted, 4 predicted once and never right, 5 neither.
RIGHT = [[0], [0, 1], [1], [2, 0], [3]]
RANKED = [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5], [2, 1, 0, 3, 4, 5], [4, 2, 0, 1, 3, 5], [1, 3, 0, 2, 4, 5]]
SHARES = [0.5, 0.2, 0.1, 0.1, 0.06, 0.04]


@pytest.mark.parametrize(
    ("top", "threshold", "predicted"),
    [(None, None, 1), (2, None, 2), (None, 0.1, 4), (3, 0.15, 2), (1, 0.1, 1)],
)
def test_averages_are_scikit_learns(top, threshold, predicted) -> None:
    schema = BagSchema(targets.Labels(tuple("uvwxyz")))
    task = LabelTask(choice("softmax", "labels"), None, schema)
    task.top, task.threshold = top, threshold
    outputs = {
        "labels": np.array(RANKED),
        "probabilities": np.array([SHARES] * len(RANKED), np.float32),
        "loss": np.arange(5.0),
    }
    labels = LabelLists(np.array([code for own in RIGHT for code in own]), np.array([len(own) for own in RIGHT]))
    scores = task.score(outputs, {"input": labels, "target": labels})  # type: ignore[dict-item]
    truth, reported = np.zeros((5, 6), dtype=int), np.zeros((5, 6), dtype=int)
    for row, (own, ranked) in enumerate(zip(RIGHT, RANKED, strict=True)):
        truth[row, own] = 1
        reported[row, ranked[:predicted]] = 1
    occurs = np.flatnonzero((truth + reported).sum(axis=0))
    assert scores["loss"] == 2.0
    assert scores["accuracy"] == pytest.approx(2 / 5) and scores["recall@1"] == pytest.approx(2 / 7)
    assert scores["f1_micro"] == pytest.approx(sk.f1_score(truth, reported, average="micro"))
    macro = sk.f1_score(truth[:, occurs], reported[:, occurs], average="macro", zero_division=0)
    assert scores["f1_macro"] == pytest.approx(macro)
    for code, row in enumerate(task.table):
        assert row["label"] == "uvwxyz"[code]
        assert (row["examples"], row["predicted"]) == (truth[:, code].sum(), reported[:, code].sum())
        assert row["precision"] == pytest.approx(sk.precision_score(truth[:, code], reported[:, code], zero_division=0))
        assert row["recall"] == pytest.approx(sk.recall_score(truth[:, code], reported[:, code], zero_division=0))
