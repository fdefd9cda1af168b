"""What scikit-learn's obvious model has on the rows that a run was trained and tested on, and how far below it a score
may be by chance: one standard error of the test part, or one example of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from canon.training.data import read_data
from canon.use.model import load


def floor_of(run: Path, metric: str) -> float:
    model = load(run)
    splits = read_data(model.run.recipe, model.run.path).splits
    train, test = splits["train"], splits["test"]
    if metric == "r2":
        models = RidgeCV(), HistGradientBoostingRegressor()
        return max(m.fit(train["input"], train["target"]).score(test["input"], test["target"]) for m in models)
    if isinstance(train["input"], np.ndarray):
        fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(train["input"], train["target"])
        return float(fitted.score(test["input"], test["target"]))
    shown = {
        name: [model.schema.shown(part["input"], row) for row in range(len(part["input"]))]
        for name, part in splits.items()
    }
    classifier = make_pipeline(TfidfVectorizer(token_pattern=r"\S+"), LogisticRegression(C=100))
    return float(classifier.fit(shown["train"], train["target"]).score(shown["test"], test["target"]))


def require_level(run: Path, metric: str, floor: float | None = None) -> None:
    """The score of a run's test part must be level with the floor, by default that of scikit-learn."""
    result = json.loads((run / "result.json").read_text())
    score, size = result["scores"]["test"][metric], json.loads((run / "data.json").read_text())["examples"]["test"]
    floor = floor_of(run, metric) if floor is None else floor
    share = (floor * size + 1) / (size + 2)  # Laplace's, since the floor is often 1
    error = (1 - floor) * (2 / size) ** 0.5 + 0.01 if metric == "r2" else (share * (1 - share) / size) ** 0.5
    allowed = error if metric == "r2" else max(error, 1 / size)
    assert score >= floor - allowed - 1e-9, f"{metric} {score:.4f}, scikit-learn {floor:.4f} on {size} examples"
