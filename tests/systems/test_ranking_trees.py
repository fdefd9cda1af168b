"""Boosted trees that rank: LightGBM's own, whatever their segments, and the same after a stop bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from safetensors.numpy import load_file

from canon.data.batching.lists import Grades, Lists
from canon.errors import CanonError
from canon.systems.ranking.booster import first_trees, joined
from canon.training.trainer import train
from tests.systems.ranking_lists import learner, lists, scores, take

COLUMNS = lists(60, 15, 6)
SMALL = {"num_leaves": 5, "min_documents": 5}
LOSSES = [
    ("lambdamart", "lambdarank", "lambdarank", {"lambdarank_norm": False}),
    ("lambdamart", "xe-ndcg", "rank_xendcg", {}),
    ("gbdt-ranker", "grade-squared", "regression", {}),
    ("gbdt-ranker", "grade-logistic", "binary", {}),
]


def trees(text: str) -> list[str]:
    return [part.partition("\n")[2].strip() for part in text[: text.index("end of trees")].split("\nTree=")[1:]]


def own_of_lightgbm(built: Any, objective: str, count: int, more: dict[str, Any]) -> lightgbm.Booster:
    rows = built._rows
    data = lightgbm.Dataset(rows.values_NF, rows.labels_N, group=rows.sizes_Q, weight=rows.weights_N)
    settings = {"objective": objective, "num_leaves": 5, "min_data_in_leaf": 5, "seed": 3, "verbose": -1, **more}
    settings |= {"deterministic": True, "force_row_wise": True, "num_threads": 1}
    return lightgbm.train(settings, data, count)


@pytest.mark.parametrize("every", [100, 4])
@pytest.mark.parametrize(("name", "loss", "objective", "more"), LOSSES)
def test_trees_are_lightgbms_own(name: str, loss: str, objective: str, more: dict[str, Any], every: int) -> None:
    """In segments too; but rank_xendcg draws numbers, whose generator begins again with each."""
    per = {"objective_per": "document"} if name == "gbdt-ranker" else {}
    built: Any = take(learner(name, COLUMNS, objective=loss, every=every, seed=3, **SMALL, **per), 12)
    theirs = own_of_lightgbm(built, objective, 12, more)
    same = 4 if loss == "xe-ndcg" and every == 4 else 12
    assert trees(built.trees.text())[:same] == trees(theirs.model_to_string())[:same]
    if same == 12:
        raw = theirs.predict(COLUMNS["input"].values, raw_score=True)  # type: ignore[union-attr]
        np.testing.assert_allclose(scores(built, COLUMNS), raw, rtol=1e-12, atol=1e-12)


def test_settings_reach_lightgbm() -> None:
    norm = learner(
        "lambdamart", COLUMNS, objective_norm="lightgbm", objective_sigma=2.0, objective_truncation=3, **SMALL
    )
    own = own_of_lightgbm(take(norm, 8), "lambdarank", 8, {"sigmoid": 2.0, "lambdarank_truncation_level": 3, "seed": 0})
    assert trees(norm.trees.text()) == trees(own.model_to_string())  # type: ignore[attr-defined]


@pytest.mark.parametrize("stop", [3, 5, 9, 10])
@pytest.mark.parametrize(("name", "loss"), [row[:2] for row in LOSSES])
def test_stopped_and_continued_is_never_stopped(name: str, loss: str, stop: int) -> None:
    """With features and documents drawn, within a segment and at its end."""

    def new() -> Any:
        return learner(name, COLUMNS, objective=loss, every=5, features=0.5, documents=0.6, seed=1 << 40, **SMALL)

    whole = take(new(), 14)
    parts, other = take(new(), stop), new()
    other.restore(parts.tensors(), parts.state())
    take(other, 14 - stop, stop + 1)
    assert other.trees.text() == whole.trees.text() and whole.trees.num_trees == 14
    np.testing.assert_array_equal(scores(other, COLUMNS), scores(whole, COLUMNS))
    for group, tensors in whole.tensors().items():
        for key, values in tensors.items():
            np.testing.assert_array_equal(values, other.tensors()[group][key])
    assert whole.logs() == other.logs() and whole.state() == other.state()


def test_scores_do_not_depend_on_what_was_scored_before() -> None:
    built: Any = learner("lambdamart", COLUMNS, **SMALL)
    for number in range(1, 41):
        built.step(number)
        if number % 7 == 0:
            scores(built, COLUMNS)
    fresh: Any = learner("lambdamart", COLUMNS, **SMALL)
    fresh.restore({"model": built.tensors()["model"]}, {})
    np.testing.assert_array_equal(scores(built, COLUMNS), scores(fresh, COLUMNS))


def test_trees_are_the_same_with_two_threads() -> None:
    one, two = (learner("lambdamart", COLUMNS, **SMALL) for _ in range(2))
    two.trees.parameters["num_threads"] = 2  # type: ignore[attr-defined]
    assert take(one, 10).trees.text() == take(two, 10).trees.text()  # type: ignore[attr-defined]


def test_a_text_is_cut_and_joined_as_lightgbm_reads_it() -> None:
    built: Any = take(learner("lambdamart", COLUMNS, **SMALL), 6)
    text = built.trees.text()
    first = first_trees(text, 2)
    assert lightgbm.Booster(model_str=first).num_trees() == 2
    both = lightgbm.Booster(model_str=joined(first, text))
    assert both.num_trees() == 8
    rows = COLUMNS["input"].values  # type: ignore[union-attr]
    expected = lightgbm.Booster(model_str=text).predict(rows, num_iteration=2)
    np.testing.assert_allclose(lightgbm.Booster(model_str=first).predict(rows), expected)


def test_trees_that_cannot_be_grown_again_are_refused() -> None:
    built = take(learner("lambdamart", COLUMNS, **SMALL), 6)
    tensors, state = built.tensors(), built.state()
    text = bytes(tensors["model"]["trees"]).decode().replace("leaf_value=-", "leaf_value=-9", 1)
    tensors = {**tensors, "model": {"trees": np.frombuffer(text.encode(), np.uint8)}}
    with pytest.raises(CanonError, match="could not be grown again"):
        learner("lambdamart", COLUMNS, **SMALL).restore(tensors, state)


def test_nothing_to_split_ends_the_run() -> None:
    columns = {**COLUMNS, "input": Lists(np.zeros_like(COLUMNS["input"].values), COLUMNS["input"].offsets)}  # type: ignore[union-attr]
    built = learner("gbdt-ranker", columns, **SMALL)
    assert not built.step(1)
    other = learner("gbdt-ranker", columns, **SMALL)
    other.restore(built.tensors(), built.state())
    np.testing.assert_array_equal(scores(other, columns), scores(built, columns))


def with_grades(change: Any) -> dict[str, Any]:
    grades = np.array(COLUMNS["target"].values)  # type: ignore[union-attr]
    return {**COLUMNS, "target": Grades(change(grades), COLUMNS["target"].offsets)}  # type: ignore[union-attr]


def test_grades_that_lightgbm_cannot_rank_by_are_refused() -> None:
    with pytest.raises(CanonError, match=r"query q\d+: a document has the grade 0\.5, .* from 0 to 30"):
        learner("lambdamart", with_grades(lambda grades: grades / 2))
    with pytest.raises(CanonError, match=r"query q\d+: a document has the grade 80"):
        learner("lambdamart", with_grades(lambda grades: grades * 40))
    take(learner("gbdt-ranker", with_grades(lambda grades: grades / 2), **SMALL), 2)
    ends = np.array([0, 0, 10_001])
    long = {"input": Lists(np.zeros((10_001, 1), np.float32), ends), "query": np.array(["none", "long"], dtype=object)}
    grades = Grades(np.arange(10_001, dtype=np.float32) % 2, ends)
    with pytest.raises(CanonError, match=r"query long: it has 10,001 documents, but LambdaMART ranks at most 10,000"):
        learner("lambdamart", {**long, "target": grades})


def test_leaves_that_no_tree_could_have_are_refused() -> None:
    with pytest.raises(CanonError, match=r"at least 100 documents .* but there are 30 to train on"):
        learner("lambdamart", lists(6, 10, 3), min_documents=100)


def test_one_grade_only_is_refused() -> None:
    with pytest.raises(CanonError, match="In no training query do labels differ"):
        learner("lambdamart", with_grades(np.zeros_like))


def test_a_run_holds_lightgbms_text(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    values, grades = COLUMNS["input"], COLUMNS["target"]
    lines = [
        f"{int(grade)} qid:{query} " + " ".join(f"{f + 1}:{x:.6f}" for f, x in enumerate(row))
        for query, row, grade in zip(values.rows, values.values, grades.values, strict=True)  # type: ignore[union-attr]
    ]
    file.write_text("\n".join(lines) + "\n")
    changes = {"train.steps": 12, "train.batch": 0, "train.checkpoint_every": 5, "data.normalize": "none"}
    run = train("lambdamart:tiny", str(file), tmp_path / "run", changes=changes, quiet=True)
    text = bytes(load_file(run.path / "last" / "model.safetensors")["trees"]).decode()
    assert lightgbm.Booster(model_str=text).num_trees() == 12
    assert run.result is not None and run.result["scores"]["train"]["map"] > 0.8
