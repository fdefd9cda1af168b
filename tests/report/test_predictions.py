"""What a report says of predictions: scores of classes against scikit-learn, mistakes against the data, the commands it
names by typing them."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import f1_score, precision_recall_fscore_support

from canon.report.facts import RunFacts, gather
from canon.report.run import render, write_report
from canon.training.data import read_data
from canon.training.run import Run
from canon.training.trainer import train
from canon.use.model import load
from tests.report.test_run_report import Reader

WORDS = {"up": "good fine warm great", "down": "bad dull cold awful", "level": "so fair even usual"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs that make mistakes: texts of which some have a wrong label, tags, images, a table, numbers."""
    folder, rng = tmp_path_factory.mktemp("runs"), random.Random(0)
    rows, several = [], []
    for name in ["up", "up", "up", "down", "down", "level"] * 30:
        text = " ".join(rng.choices(f"{WORDS[name]} film story".split(), k=8))
        rows.append(f"{text}\t{name if rng.random() < 0.85 else 'down'}")
        several.append(f"__label__{name} {'__label__film ' if 'film' in text else ''}{text}")
    (folder / "films.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (folder / "several.txt").write_text("\n".join(several) + "\n")
    tagged = ["Ann B-PER\nsaw O\nold B-LOC\nRome I-LOC\n", "Rome B-LOC\nis O\nold O\n"] * 30
    (folder / "tagged.conll").write_text("\n".join(tagged))
    table = [f"{i % 13},{'PQ'[i % 2]},{['a', 'b', 'b'][i % 3]}" for i in range(90)]
    (folder / "my table.csv").write_text("\n".join(["size,city,label", *table]) + "\n")
    finetune = {"system.backbone": "bert:tiny", "train.steps": 12, "optimizer.lr": 0.003}
    asked: dict[str, tuple[str, str, dict[str, Any]]] = {
        "words": ("fasttext-classifier", "films.tsv", {"train.epochs": 3.0}),
        "several": ("fasttext-classifier", "several.txt", {"train.epochs": 3.0}),
        "text": ("finetune", "films.tsv", finetune),
        "tags": ("finetune", "tagged.conll", finetune),
        "images": ("softmax-regression", "", {"train.steps": 8, "data.source": "digits"}),
        "table": ("mlp:tiny", "my table.csv", {"train.steps": 20, "data.valid": 0.2}),
        "numbers": ("linear-regression", "", {"train.steps": 20, "data.valid": 0.2}),
    }
    made = {}
    for name, (system, data, changes) in asked.items():
        source = str(folder / data) if data else ""
        made[name] = train(system, source, folder / name, changes={"train.threads": 1, **changes}, quiet=True)
    return made


@pytest.fixture(scope="module")
def facts(runs: dict[str, Run]) -> dict[str, RunFacts]:
    return {name: json.loads(json.dumps(gather(run))) for name, run in runs.items()}


def predicted(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Targets of the test set, and a score for each class."""
    model, test = load(run.path), read_data(run.recipe).splits["test"]
    task: Any = model.task
    return np.asarray(test["target"]), task.scores(model.learner.outputs({"input": test["input"]}))


CLASSES = ("words", "text", "images", "table")


@pytest.mark.parametrize("name", CLASSES)
def test_scores_of_each_class_are_scikit_learns(runs: dict[str, Run], facts: dict[str, RunFacts], name: str) -> None:
    shown = facts[name]["predictions"]
    assert shown is not None and shown["kind"] == "classes"
    target, scores = predicted(runs[name])
    classes = runs[name].schema.classes
    wanted = precision_recall_fscore_support(target, scores.argmax(1), labels=range(len(classes)), zero_division=0)
    rows = shown["values"]["scores"]
    assert [row["class"] for row in rows] == list(classes)
    for key, values in zip(("precision", "recall", "f1", "examples"), wanted, strict=True):
        assert [row[key] for row in rows] == pytest.approx(values.tolist())
    text = write_report(runs[name]).read_text()
    Reader(text)
    assert ">precision</th>" in text and render(facts[name], draw=True) == text


@pytest.mark.parametrize("name", CLASSES)
def test_mistakes_are_the_most_confident_ones(runs: dict[str, Run], facts: dict[str, RunFacts], name: str) -> None:
    shown = facts[name]["predictions"]
    assert shown is not None
    values, classes = shown["values"], runs[name].schema.classes
    target, scores = predicted(runs[name])
    guess, sure = scores.argmax(1), scores.max(1)
    wrong = sorted(np.flatnonzero(guess != target), key=lambda row: -sure[row])
    assert values["wrong"] == len(wrong) > 0
    mistakes = values["mistakes"]
    assert [one["score"] for one in mistakes] == pytest.approx(sure[wrong[: len(mistakes)]].tolist())
    assert [one["true"] for one in mistakes] == [classes[target[row]] for row in wrong[: len(mistakes)]]
    assert [one["predicted"] for one in mistakes] == [classes[guess[row]] for row in wrong[: len(mistakes)]]
    text = write_report(runs[name]).read_text()
    if name == "images":
        assert all(one["picture"] and not one["given"] for one in mistakes)
        assert text.count('src="data:image/png;base64,') == len(mistakes)
    else:
        assert all(one["given"] in text for one in mistakes)
    if name in ("words", "text"):
        lines = (runs[name].path.parent / "films.tsv").read_text().splitlines()
        assert all(f"{one['given']}\t{one['true']}" in lines for one in mistakes)
    if name == "table":
        lines = (runs[name].path.parent / "my table.csv").read_text().splitlines()
        cells = (one["given"].removeprefix("size ").replace(", city ", ",") + f",{one['true']}" for one in mistakes)
        assert set(cells) <= set(lines)


def test_texts_with_several_labels(facts: dict[str, RunFacts]) -> None:
    shown = facts["several"]["predictions"]
    assert shown is not None and shown["kind"] == "classes" and not shown["values"]["counts"]
    rows = {row["class"]: row for row in shown["values"]["scores"]}
    assert set(rows) == {"up", "down", "level", "film"} and rows["film"]["examples"] > 0
    for mistake in shown["values"]["mistakes"]:
        assert mistake["predicted"] not in mistake["true"].split(" and ")


def test_kinds_of_entities(facts: dict[str, RunFacts], runs: dict[str, Run]) -> None:
    shown = facts["tags"]["predictions"]
    assert shown is not None and shown["kind"] == "tags"
    rows = {row["class"]: row for row in shown["values"]["scores"]}
    assert set(rows) == {"PER", "LOC"}
    result = runs["tags"].result
    assert result is not None
    hits = sum(row["recall"] * row["examples"] for row in rows.values())
    offered, wanted = (sum(row[key] for row in rows.values()) for key in ("predicted", "examples"))
    assert 2 * hits / (offered + wanted) == pytest.approx(result["scores"]["test"]["entity_f1"])


def test_the_majority_class_is_scikit_learns(facts: dict[str, RunFacts], runs: dict[str, Run]) -> None:
    for name in ("words", "text", "table"):
        guess = facts[name]["curves"]["guess"]
        assert guess is not None
        splits = read_data(runs[name].recipe).splits
        train_y, valid_y = (np.asarray(splits[split]["target"]) for split in ("train", "valid"))
        dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(train_y), 1)), train_y)
        said = dummy.predict(np.zeros((len(valid_y), 1)))
        assert guess["scores"]["valid/accuracy"] == pytest.approx((said == valid_y).mean())
        assert guess["scores"]["valid/f1_macro"] == pytest.approx(f1_score(valid_y, said, average="macro"))
        assert guess["name"] == f'the majority class, "{runs[name].schema.classes[said[0]]}"'
        assert guess["name"].split('"')[1] in write_report(runs[name]).read_text()
    guess = facts["numbers"]["curves"]["guess"]
    splits = read_data(runs["numbers"].recipe).splits
    train_y, valid_y = (np.asarray(splits[split]["target"], dtype=np.float64) for split in ("train", "valid"))
    mean = DummyRegressor().fit(np.zeros((len(train_y), 1)), train_y).predict([[0]])[0]
    assert guess is not None and guess["scores"]["valid/mse"] == pytest.approx(((valid_y - mean) ** 2).mean())
    assert facts["tags"]["curves"]["guess"] is not None


def test_the_commands_work_as_they_are_typed(
    facts: dict[str, RunFacts], canon: Callable[..., Any], runs: dict[str, Run]
) -> None:
    """All but those with a placeholder for a file of the user's."""
    for name, some in facts.items():
        commands = {one["use"]: one["command"] for one in some["use"]}
        assert {"predict", "score it again"} <= set(commands)
        typed = [one for one in commands.values() if one.startswith("canon ") and "FILE" not in one]
        assert len(typed) >= (1 if name in ("images", "numbers") else 2)
        for command in typed:
            if " convert " in command and name != "table":
                continue  # seconds each; tests/first_hour/test_onnx_text.py writes such graphs
            printed = canon(*shlex.split(command)[1:])
            assert printed.code == 0, f"{command}: {printed.err}"
        text = write_report(runs[name]).read_text()
        assert "<h2>Use it</h2>" in text
    assert "for onnxruntime" in {one["use"] for one in facts["text"]["use"]}


def test_what_was_decided_stands_in_a_table(runs: dict[str, Run]) -> None:
    text = write_report(runs["words"]).read_text()
    notes = runs["words"].data["notes"]
    tables = Reader(text).tables
    assert [[note] for note in notes] in tables and any("label" in note for note in notes)
