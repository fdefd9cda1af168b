"""The losses of guesses that look at no input, of every task that has some, against the guesses themselves."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from canon.data.encodings.bags import BagSchema
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.sequences import SequenceSchema
from canon.data.encodings.windows import WindowSchema
from canon.data.schema import Schema
from canon.data.targets import Class, Labels, NextToken, Number, OtherText
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import BOS, UNK
from canon.tasks.table import TASKS
from tests.objectives.choices import choice

TOKENIZER = Tokenizer.train(["a b c d e"], "split")
TOKENS = np.array([4, 5, 5, 6, 7, 8, 8, 8])
NUMBERS = np.array([1.0, 2.0, 2.5, 9.0])
CLASSES = ("x", "y", "z")
CODES = np.array([0, 0, 0, 1, 2, 2])


def shares_loss(targets: np.ndarray) -> float:
    """The mean of −log of the share that each target has."""
    counts = {value: int((targets == value).sum()) for value in targets.tolist()}
    return float(np.mean([-math.log(counts[value] / len(targets)) for value in targets.tolist()]))


def task(name: str, schema: Schema, objective: str = "cross-entropy", **config: Any) -> Any:
    return TASKS[name](choice(objective, name), SimpleNamespace(**config), schema)


def of_text(name: str, **config: Any) -> Any:
    objective = "bidirectional" if name.startswith("bidirectional") else "cross-entropy"
    return task(name, WindowSchema(NextToken(), tokenizers={"text": TOKENIZER}), objective, **config)


def of_pairs() -> Any:
    tokenizers = {"source": TOKENIZER, "target": TOKENIZER}
    return task("transduction", SequenceSchema(OtherText(), tokenizers=tokenizers), max_length=0)


def of_classes(name: str, objective: str) -> Any:
    schema = BagSchema(Labels(CLASSES)) if name == "labels" else FeatureSchema(Class(CLASSES), (2,))
    return task(name, schema, objective)


def of_numbers(objective: str) -> Any:
    return task("regression", FeatureSchema(Number(mean=2.0, std=0.5), (2,)), objective)


SCALED = (NUMBERS - 2.0) / 0.5
CASES = {
    "language model": (of_text("language-model"), TOKENS, math.log(TOKENIZER.size), shares_loss(TOKENS)),
    "both ways": (
        of_text("bidirectional-language-model", softmax_words=0),
        TOKENS,
        math.log(TOKENIZER.size),
        shares_loss(TOKENS),
    ),
    # Only 7 words have an output of their own: the others, 7 and 8, count as unknown.
    "both ways, few words": (
        of_text("bidirectional-language-model", softmax_words=7),
        TOKENS,
        math.log(7),
        shares_loss(np.where(TOKENS < 7, TOKENS, UNK)),
    ),
    # What a sequence begins with is never asked for.
    "pairs": (of_pairs(), np.concatenate([[BOS], TOKENS, [BOS]]), math.log(TOKENIZER.size), shares_loss(TOKENS)),
    "classes": (of_classes("classification", "cross-entropy"), CODES, math.log(3), shares_loss(CODES)),
    "labels": (of_classes("labels", "softmax"), CODES, math.log(3), shares_loss(CODES)),
}


@pytest.mark.parametrize("case", CASES)
def test_uniform_guesses_and_shares(case) -> None:
    own, targets, uniform, shares = CASES[case]
    result = own.floors(targets)
    (name,) = result.keys() - {"uniform"}
    assert result["uniform"] == pytest.approx(uniform) and result[name] == pytest.approx(shares)


@pytest.mark.parametrize(
    ("objective", "constant"),
    [("squared", np.mean((SCALED - SCALED.mean()) ** 2)), ("absolute", np.mean(np.abs(SCALED - np.median(SCALED))))],
)
def test_the_best_constant(objective, constant) -> None:
    losses = {"squared": lambda guess: np.mean((SCALED - guess) ** 2)}.get(
        objective, lambda guess: np.mean(np.abs(SCALED - guess))
    )
    result = of_numbers(objective).floors(NUMBERS)["a constant"]
    assert result == pytest.approx(constant)
    assert result == pytest.approx(min(losses(guess) for guess in np.linspace(-5, 20, 2001)), rel=1e-3)


def test_labels_one_by_one() -> None:
    reported = of_classes("labels", "one-vs-all").floors(CODES)
    expected = sum(shares_loss((code == CODES).astype(int)) for code in range(3))
    assert reported == {"label shares": pytest.approx(expected)}
    assert of_classes("labels", "negative-sampling").floors(CODES) == {}


def test_margins_have_none() -> None:
    assert of_classes("classification", objective="hinge").floors(CODES) == {}
