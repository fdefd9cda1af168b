"""A run that has not learned says so at its end and in its report, with the likeliest causes for such data; others do
not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data import encodings
from canon.report.facts import gather
from canon.tasks import guesses, tokens
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


def test_choices_are_compared_with_chance_and_the_usual_place() -> None:
    random = np.random.RandomState(0)
    true, four = random.randint(4, size=200), np.full(200, 4)
    assert guesses.of_choices(true, true, four, true) == ""
    by_chance = guesses.of_choices(true, random.permutation(true), four, true)
    assert "better than" in by_chance and "accuracy 0." in by_chance
    first = np.where(random.rand(200) < 0.6, 0, true)
    said = guesses.of_choices(first, np.zeros(200, dtype=int), four, first)
    assert said.startswith("no better than always saying choice 1: accuracy 0.")


def test_an_order_is_compared_with_a_random_one() -> None:
    random = np.random.RandomState(0)
    chance = random.rand(50)
    assert guesses.of_order(chance + 0.2, chance, "ndcg@10") == ""
    assert "no better than a random order: ndcg@10" in guesses.of_order(chance - 0.1, chance, "ndcg@10")
    noise = guesses.of_order(chance + random.randn(50), chance, "ndcg@10")
    assert "better than a random order" in noise


def test_a_word_has_its_most_frequent_tag() -> None:
    words, tags = [["a", "b", "a"], ["a", "c"]], [["X", "Y", "O"], ["X", "Y"]]
    assert guesses.most_frequent_tags(words, tags, [["a", "b", "new"]]) == [["X", "Y", "X"]]


def test_tokens_are_compared_with_their_shares_in_training() -> None:
    known, asked = np.array([0] * 90 + [1] * 10), np.array([0, 0, 1, 0])
    shares = np.array([91, 11]) / 102
    floor = float(-np.log(shares[asked]).mean())
    for loss, better in ((floor - 0.01, True), (floor + 0.01, False)):
        outputs = {"loss": np.array([4 * loss]), "count": np.array([4.0])}
        assert (tokens.shortfall(outputs, asked, known, 2) == "") is better


def noisy_tags() -> str:
    draw = np.random.RandomState(0)
    return "".join(
        "".join(f"w{draw.randint(40)}\t{draw.choice(['O', 'B-X', 'B-Y'])}\n" for _ in range(6)) + "\n"
        for _ in range(60)
    )


def noisy_choices() -> str:
    draw = np.random.RandomState(0)
    rows = [
        {"question": f"q {n}", "choices": ["a b", "c d", "e f"], "answer": "ABC"[draw.randint(3)]} for n in range(90)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def noisy_documents() -> str:
    draw = np.random.RandomState(0)
    rows = (
        f"{draw.randint(3)} qid:{query} {' '.join(f'{k}:{draw.rand():.3f}' for k in (1, 2, 3))}"
        for query in range(40)
        for _ in range(6)
    )
    return "\n".join(rows) + "\n"


def noisy_text() -> str:
    draw = np.random.RandomState(0)
    return "\n".join(" ".join(f"w{n}" for n in draw.zipf(1.6, 12).clip(max=300)) for _ in range(150))


@pytest.mark.parametrize(
    ("name", "content", "arguments", "guess"),
    [
        ("t.conll", noisy_tags, ("finetune",), "than each word's most frequent tag: entity_f1 "),
        ("t.jsonl", noisy_choices, ("finetune",), "better than a"),
        ("t.txt", noisy_documents, ("ranknet",), "better than a random order: ndcg@10 "),
        ("t.txt", noisy_text, ("rnn-lm:tiny", "--set", "optimizer.lr=1e-9"), "than how often each token comes: loss "),
    ],
)
def test_noise_of_every_sort(
    name: str, content: Callable[[], str], arguments: tuple[str, ...], guess: str, canon: Canon
) -> None:
    Path(name).write_text(content())
    steps = ("--set", "train.steps=4", "--set", "data.test=0.3")
    trained = canon("train", *arguments, "--data", name, "--out", "run", *steps)
    assert trained.code == 0 and f"{guess}" in trained.err.partition("has not learned")[2], trained.err


def test_predictions_by_chance_are_seldom_taken_for_learned() -> None:
    random = np.random.RandomState(0)
    draws = ((random.randint(2, size=200), random.randint(2, size=200)) for _ in range(400))
    silent = sum(guesses.of_classes(true, said, ("a", "b"), (100, 100)) == "" for true, said in draws)
    assert silent < 0.1 * 400
