"""Clicks as people have them, trained by the first command: what is decided is said, and the scores are level with
scikit-learn's logistic regression on the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from canon.training.run import Run

Canon = Callable[..., Any]
LEVEL = 0.015  # of AUC; about one standard error of the test rows


def learned_rows(run: Run, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a run learns from or chooses by, and those that it is tested on, by what is in them."""
    from canon.data.click_splits import choose_rows
    from canon.data.kinds.clicks import CLICKS, ClickSource, click_classes, click_codes

    source = CLICKS.source(run.recipe.data)
    assert isinstance(source, ClickSource)
    codes = click_codes(source.parts["train"], source, click_classes(source))
    chosen, _ = choose_rows(source, run.recipe.data, codes)
    test = chosen["test"][1]
    return np.setdiff1d(np.arange(size), test), test


def test_a_table_of_clicks(tmp_path: Path, canon: Canon) -> None:
    draw, size = np.random.RandomState(0), 2000
    user, ad, age = draw.randint(0, 40, size), draw.randint(0, 20, size), draw.randint(18, 70, size)
    price, key = draw.lognormal(2, 1, size).round(2), draw.permutation(size)
    logit = draw.randn(40)[user] + draw.randn(20)[ad] + 0.05 * (age - 40) - 0.5 * np.log(price)
    clicked = (draw.rand(size) < 1 / (1 + np.exp(-logit))).astype(int)
    rows = list(zip((f"k{number}" for number in key), user, ad, age, price, clicked, strict=True))
    lines = ["key,user_id,ad_id,age,price,clicked", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "clicks.csv").write_text("\n".join(lines))
    trained = canon("train", tmp_path / "clicks.csv", "--out", "run", "--json")
    assert trained.code == 0, trained.err
    for sentence in (
        "is a set of clicks (rows of fields) (2 classes): training deepfm",
        'The label is the column "clicked"',
        'The user is the column "user_id" (data.user).',
        'Left out, since almost every row has another value: "key".',
        'Numbers (both; data.numeric, data.categories): "age", "price".',
        "of the training rows are clicks.",
    ):
        assert sentence in trained.err, sentence
    scores = json.loads(trained.out)["scores"]["test"]
    learned, test = learned_rows(Run.open(Path("run")), size)
    table = np.array([row[1:5] for row in rows], dtype=np.float64)
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0, 1]), (StandardScaler(), [2, 3]))
    oracle = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(table[learned], clicked[learned])
    assert scores["auc"] >= roc_auc_score(clicked[test], oracle.predict_proba(table[test])[:, 1]) - LEVEL
    assert 0 <= scores["ece"] < 0.1 and scores["user_auc"] > 0.5
    predicted = json.loads(canon("predict", "run", tmp_path / "clicks.csv", "--json").out)
    assert len(predicted) == size and predicted[0]["top"][0].keys() == {"class", "probability"}
    again = json.loads(canon("evaluate", "run", "--data", tmp_path / "clicks.csv", "--json").out)
    assert again["auc"] > 0.5


def test_lines_of_features(tmp_path: Path, canon: Canon) -> None:
    draw, size = np.random.RandomState(1), 2000
    weight, lines = draw.randn(60), []
    for _ in range(size):
        chosen = np.sort(draw.choice(60, draw.randint(4, 12), replace=False))
        click = int(draw.rand() < 1 / (1 + np.exp(-weight[chosen].sum())))
        lines.append(f"{click} " + " ".join(f"{number + 1}:1" for number in chosen))
    path = tmp_path / "file.libfm"
    path.write_text("\n".join(lines))
    trained = canon("train", path, "--out", "run", "--json")
    assert trained.code == 0, trained.err
    assert "The features belong to no fields; a row has up to 11 of them." in trained.err
    matrix, clicked = load_svmlight_file(str(path))
    learned, test = learned_rows(Run.open(Path("run")), size)
    oracle = LogisticRegression(max_iter=1000).fit(matrix[learned], clicked[learned])
    floor = roc_auc_score(clicked[test], oracle.predict_proba(matrix[test])[:, 1])
    assert json.loads(trained.out)["scores"]["test"]["auc"] >= floor - LEVEL


def test_a_table_of_any_label_can_be_clicks(tmp_path: Path, canon: Canon) -> None:
    """A table is one to other systems too; one that is not of clicks is not taken for them."""
    rows = [f"{n % 7},{n % 5},{int(n % 7 > 3)}" for n in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,outcome", *rows]))
    (tmp_path / "c.csv").write_text("\n".join(["a,b,click", *rows]))
    assert json.loads(canon("check", tmp_path / "t.csv", "--json").out)["kind"] == "table"
    assert json.loads(canon("check", tmp_path / "c.csv", "--json").out)["kind"] == "clicks"
    few = ("--set", "train.steps=5")
    assert canon("train", "fm", "--data", tmp_path / "t.csv", "--out", "fm", *few).code == 0
    assert canon("train", "mlp", "--data", tmp_path / "c.csv", "--out", "mlp", *few).code == 0
