"""A run that has not learned says so at its end and in its report, with the likeliest causes for such data; others do
not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from canon.data import encodings
from canon.report.facts import gather
from canon.tasks import guesses
from canon.training.run import Run

Canon = Callable[..., Any]
NOT_LEARNED = "better than always saying "


def noise(path: Path, numbers: bool = False) -> Path:
    """Labels that have nothing to do with the columns."""
    random = np.random.RandomState(3)
    drawn = random.rand(300)
    label = [f"{x:.3f}" for x in drawn] if numbers else ["no" if x > 0.3 else "yes" for x in drawn]
    rows = [f"{a:.3f},{b:.3f},{y}" for (a, b), y in zip(random.randn(300, 2), label, strict=True)]
    path.write_text("a,b,label\n" + "\n".join(rows) + "\n")
    return path


def test_labels_that_are_noise(tmp_path: Path, canon: Canon) -> None:
    trained = canon("train", "mlp", "--data", noise(tmp_path / "t.csv"), "--out", "run", "--set", "data.test=0.3")
    line = next(line for line in trained.err.splitlines() if line.startswith("This run"))
    assert line.startswith("This run has not learned: it is no") and f'{NOT_LEARNED}"no": accuracy 0.' in line
    for number, cause in enumerate(encodings.find("features").causes, start=1):
        assert f"({number}) {cause}" in line
    assert gather(Run.open("run"))["warnings"] == [line]
    assert "This run has not learned" in Path("run/report.html").read_text()


def test_numbers_that_are_noise(tmp_path: Path, canon: Canon) -> None:
    path = noise(tmp_path / "t.csv", numbers=True)
    trained = canon("train", "mlp", "--data", path, "--out", "run", "--set", "data.test=0.3")
    assert NOT_LEARNED + "the mean, " in trained.err


def test_a_rate_of_nothing(canon: Canon) -> None:
    changes = ("--set", "optimizer.lr=1e-9", "--set", "train.steps=80", "--set", "train.log_every=10")
    trained = canon("train", "softmax-regression", "--data", "iris", *changes)
    assert "This run has not learned: the training loss did not fall (from 1.099 to 1.099). Likely" in trained.err


def test_runs_that_learn_say_nothing(canon: Canon) -> None:
    for system, data in (("softmax-regression", "iris"), ("linear-regression", "diabetes")):
        trained = canon("train", system, "--data", data, "--json", "--out", data)
        assert trained.code == 0 and json.loads(trained.out)["warnings"] == []
        assert gather(Run.open(data))["warnings"] == []


def test_every_encoding_has_three_causes() -> None:
    assert all(len(set(encoding.causes)) == 3 for encoding in encodings.ENCODINGS)


def test_a_useful_model_of_a_rare_class_is_not_taken_for_a_guess() -> None:
    """Its accuracy is below that of always saying no, but it finds most of the rare class."""
    true = np.array([0] * 950 + [1] * 50)
    predicted = np.array([0] * 890 + [1] * 60 + [1] * 40 + [0] * 10)
    assert (true == predicted).mean() < 0.95
    assert guesses.of_classes(true, predicted, ("no", "yes"), (950, 50)) == ""
    assert guesses.of_classes(true, np.zeros(1000, dtype=int), ("no", "yes"), (950, 50)) != ""


def test_predictions_by_chance_are_seldom_taken_for_learned() -> None:
    random = np.random.RandomState(0)
    draws = ((random.randint(2, size=200), random.randint(2, size=200)) for _ in range(400))
    silent = sum(guesses.of_classes(true, said, ("a", "b"), (100, 100)) == "" for true, said in draws)
    assert silent < 0.1 * 400
