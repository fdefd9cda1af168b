"""Fine-tuning with no settings: a rate by the network's size, warm-up, and the best weights by validation."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canon import recipe as recipes
from canon.systems.pretrained.finetune import FineTune

FILLER = [
    "the",
    "film",
    "was",
    "seen",
    "by",
    "many",
    "people",
    "last",
    "week",
    "in",
    "a",
    "town",
    "near",
    "here",
    "and",
    "they",
    "talked",
    "about",
    "it",
    "for",
    "long",
]
CUES = {"good": ("great", "lovely", "superb"), "bad": ("awful", "boring", "poor")}
MINILM = {"dim": 384, "num_layers": 6, "num_heads": 12, "hidden": 1536}


def reviews(count: int) -> str:
    chance = random.Random(0)
    rows = []
    for i in range(count):
        label = list(CUES)[i % 2]
        words = [*chance.sample(FILLER, 8), chance.choice(CUES[label])]
        chance.shuffle(words)
        rows.append(f"{' '.join(words)},{label}\n")
    Path("reviews.csv").write_text("text,label\n" + "".join(rows))
    return "reviews.csv"


@pytest.mark.parametrize(
    ("backbone", "settings", "low", "high"),
    [
        ("bert:large", {}, 0.9e-5, 2e-5),
        ("bert:base", {}, 2e-5, 5e-5),
        ("roberta:base", {}, 2e-5, 5e-5),
        ("bert", MINILM, 0.9e-4, 1.5e-4),
        ("bert:small", {}, 1e-4, 2e-4),
        ("bert:tiny", {}, 3e-4, 6e-4),
    ],
)
def test_the_rate_falls_as_the_network_grows(backbone: str, settings: dict[str, int], low: float, high: float) -> None:
    changes = {"system.backbone": backbone, "system.settings": settings}
    random_weights = recipes.load("finetune", "reviews.csv", changes)
    trained = recipes.load("finetune", "reviews.csv", {**changes, "train.init": "some/folder"})
    assert low <= FineTune.suggest(trained, None, 1000)["optimizer.lr"] <= high
    assert FineTune.suggest(random_weights, None, 1000)["optimizer.lr"] > 2 * low
    assert (
        FineTune.suggest(trained, None, 1000)["train.epochs"] > FineTune.suggest(trained, None, 50_000)["train.epochs"]
    )


def test_random_weights_learn_and_say_what_would_help(canon: Callable[..., Any]) -> None:
    done = canon("train", "finetune", "--data", reviews(300), "--out", "run")
    assert done.code == 0, done.err
    assert "bert:tiny begins at random weights, with which a bag of words is hard to beat" in done.err
    assert "--set from=RUN_OR_FOLDER" in done.err
    assert json.loads(Path("run/result.json").read_text())["scores"]["test"]["accuracy"] > 0.8


def test_pre_trained_weights_get_a_rate_warm_up_and_an_early_stop(canon: Callable[..., Any]) -> None:
    file = reviews(300)
    assert canon("train", "finetune:tiny", "--data", file, "--out", "first", "--set", "train.steps=5").code == 0
    done = canon("train", "finetune", "--set", "from=first", "--data", file, "--out", "run")
    assert done.code == 0 and "Chosen for this data: optimizer.lr = 0.0005, train.epochs = 20.0." in done.err
    settings = tomllib.loads(Path("run/recipe.toml").read_text())
    assert settings["optimizer"]["lr"] == 5e-4 and settings["optimizer"]["schedule"]["warmup"] == 0.1
    assert settings["train"]["patience"] == 8
    result = json.loads(Path("run/result.json").read_text())
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    scores = {row["step"]: row["valid/accuracy"] for row in rows if "valid/accuracy" in row}
    assert scores[result["best_step"]] == max(scores.values())


def test_a_rate_that_is_given_counts(canon: Callable[..., Any]) -> None:
    options = ("--set", "optimizer.lr=2e-4", "--set", "train.steps=3")
    assert canon("train", "finetune", "--data", reviews(60), "--out", "run", *options).code == 0
    settings = tomllib.loads(Path("run/recipe.toml").read_text())
    assert settings["optimizer"]["lr"] == 2e-4 and settings["train"]["steps"] == 3
