"""Losses, predictions and scores of the kinds of fine-tuning, against hand computation, scikit-learn, scipy and brute
force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from canon import metrics
from canon.data.batching.framed import Asked, Values, objects
from canon.data.encodings.framed import FramedSchema
from canon.data.targets import Choice, Class, Number, Span, Tags, Target
from canon.data.text.tags import is_entities
from canon.nn.ragged import Layout
from canon.systems.pretrained.finetune import Config
from canon.tasks.finetune import FineTuningTask
from canon.tasks.finetune_spans import best_spans, merge
from canon.tasks.table import FINE_TUNING
from tests.objectives.choices import choice
from tests.tasks.arrays import arrays

ABC = Class(("a", "b", "c"))


def task(
    target: Target, framing: str = "bert", monitor: str = "", objective: dict[str, Any] | None = None, **settings: Any
) -> FineTuningTask:
    schema = FramedSchema(target, framing=framing, limit=64, monitor=monitor)
    chosen = choice("finetune", "fine-tuning", **(objective or {}))
    return FINE_TUNING[type(target)](chosen, Config(kind=target.name, **settings), schema)  # type: ignore[arg-type]


def host(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def log_softmax(row: list[float], index: int) -> float:
    return row[index] - math.log(sum(math.exp(value) for value in row))


# Whole texts


def test_classes_by_hand() -> None:
    """−w_y log softmax(f)_y; balanced weights n / (C n_y) have the mean 1 over the training targets."""
    logits = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]
    batch = {"target": host(1, 0), "part_lengths": host(1, 1)}
    plain = task(ABC)
    losses = plain.losses(torch.tensor(logits), batch)
    wanted = [-log_softmax(logits[0], 1), -log_softmax(logits[1], 0)]
    assert losses.tolist() == pytest.approx(wanted, rel=1e-6) and plain.count(batch) == 2
    counts = (6, 3, 1)
    weighted = task(Class(ABC.classes, counts=counts), objective={"class_weights": "balanced"})
    weights = [10 / (3 * count) for count in counts]
    assert np.average(weights, weights=counts) == pytest.approx(1)
    assert weighted.losses(torch.tensor(logits), batch).tolist() == pytest.approx(
        [weights[1] * wanted[0], weights[0] * wanted[1]], rel=1e-6
    )


def test_scores_of_classes() -> None:
    from sklearn.metrics import f1_score, matthews_corrcoef

    generator = np.random.default_rng(0)
    logits, target = generator.normal(size=(50, 3)), generator.integers(0, 3, 50)
    own = task(ABC)
    outputs = own.outputs(torch.tensor(logits), {"target": torch.tensor(target), "part_lengths": host(*[1] * 50)})
    scores = own.score(arrays(outputs), {"target": target})
    guess = logits.argmax(1)
    assert tuple(scores) == own.names()
    assert scores["accuracy"] == np.mean(guess == target)
    assert scores["f1_macro"] == pytest.approx(f1_score(target, guess, average="macro"))
    assert scores["matthews"] == pytest.approx(matthews_corrcoef(target, guess))
    assert scores["loss"] == pytest.approx(
        np.mean([-log_softmax(list(f), y) for f, y in zip(logits, target, strict=True)])
    )
    rows = own.rows(arrays(outputs), {}, top=2)
    assert rows[0]["prediction"] == "abc"[guess[0]] and len(rows[0]["top"]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_correlations_are_scipys_and_scikit_learns(seed: int) -> None:
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import matthews_corrcoef

    generator = np.random.default_rng(seed)
    y, f = generator.integers(0, 6, 40) / 2, generator.normal(size=40).round(1)  # with ties
    assert metrics.pearson(y, f) == pytest.approx(pearsonr(y, f).statistic)
    assert metrics.spearman(y, f) == pytest.approx(spearmanr(y, f).statistic)
    assert metrics.pearson(y, np.ones(40)) == metrics.spearman(np.ones(40), f) == 0.0
    labels, guess = generator.integers(0, 4, 40), generator.integers(0, 3, 40)
    assert metrics.matthews(labels, guess) == pytest.approx(matthews_corrcoef(labels, guess))
    assert metrics.matthews(labels, np.ones(40)) == 0.0


def test_numbers_by_hand() -> None:
    """(f − (y − ȳ)/s)² in the unit of the standard deviation; scores in the data's own."""
    own = task(Number(mean=2.0, std=4.0))
    batch = {"target": torch.tensor([6.0, 0.0]), "part_lengths": host(1, 1)}
    outputs = own.outputs(torch.tensor([[0.5], [0.5]]), batch)
    assert outputs["loss"].tolist() == [0.25, 1.0]
    assert own.rows(arrays(outputs), {}, 1) == [{"prediction": 4.0}, {"prediction": 4.0}]
    assert own.score(arrays(outputs), {"target": np.array([6.0, 0.0])})["mse"] == 10.0
    assert own.monitor == "spearman" and task(Class(("a",)), monitor="matthews").monitor == "matthews"


def test_choices_by_hand() -> None:
    """Softmax over each example's own choices, of which there may be different numbers."""
    own = task(Choice())
    scores = [1.0, 3.0, 2.0, 0.0, 1.0]
    batch = {"target": host(1, 2), "part_lengths": host(2, 3)}
    outputs = own.outputs(torch.tensor(scores)[:, None], batch)
    assert outputs["loss"].tolist() == pytest.approx([-log_softmax(scores[:2], 1), -log_softmax(scores[2:], 2)])
    assert own.score(arrays(outputs), {"target": np.array([1, 2])})["accuracy"] == 0.5
    choices = objects([(("A", "B"), ("one", "two")), (("A", "B", "C"), ("x", "y", "z"))])
    rows = own.rows(arrays(outputs), {"choices": choices}, top=3)
    assert [row["prediction"] for row in rows] == ["B", "A"]
    assert [len(row["top"]) for row in rows] == [2, 3]
    assert sum(choice["probability"] for choice in rows[1]["top"]) == pytest.approx(1)


# Words


def test_tags_by_hand() -> None:
    """Three sentences, the second in two sequences; a tag that training lacks has no loss and is wrong."""
    own = task(Tags(("B-X", "I-X", "O")))
    logits = torch.tensor([[3.0, 0, 0], [0, 3, 0], [0, 0, 3], [0, 0, 3], [3, 0, 0.0]])
    batch = {
        "target": host(0, 1, 2, -1, 2),
        "target_lengths": host(2, 2, 1),
        "part_lengths": host(1, 2, 1),
        "place_lengths": host(2, 1, 1, 1),
        "marks": host(0, 1, 0, 1, 0),
        "width_lengths": torch.tensor(4),
    }
    outputs = own.outputs(logits, batch)
    right = -log_softmax([3.0, 0, 0], 0)
    wrong = -log_softmax([3.0, 0, 0], 2)
    assert outputs["loss"].tolist() == pytest.approx([2 * right, right, wrong])
    assert outputs["tags"].tolist() == [[0, 1, -1, -1], [2, 2, -1, -1], [0, -1, -1, -1]]
    gold = [("B-X", "I-X"), ("O", "B-NEW"), ("O",)]
    columns = {
        "tags": objects(gold),
        "words": objects([("a", "b"), ("c", "d"), ("e",)]),
        "target": Values(np.zeros(5), np.array([2, 2, 1])),
    }
    scores = own.score(arrays(outputs), columns)
    assert scores["tag_accuracy"] == 3 / 5
    assert (scores["entity_precision"], scores["entity_recall"]) == (1 / 2, 1 / 2)
    assert own.monitor == "entity_f1" and tuple(scores) == own.names()
    record = own.rows(arrays(outputs), columns, 1)[0]
    assert record["entities"] == [{"type": "X", "text": "a b", "first": 0, "last": 1}] and record["tags"] == [
        "B-X",
        "I-X",
    ]


@pytest.mark.parametrize(
    ("classes", "entities"),
    [
        (("B-PER", "I-PER", "O"), True),
        (("S-X", "O"), True),
        (("NOUN", "O", "VERB"), False),
        (("O",), False),
        (("B-X", "NN"), False),
    ],
)
def test_which_tags_are_entities(classes: tuple[str, ...], entities: bool) -> None:
    assert is_entities(classes) == entities


# Answers


def brute_force(logits: np.ndarray, most: int) -> list[tuple[float, int, int]]:
    pairs = [
        (float(logits[i, 0] + logits[j, 1]), i, j)
        for i in range(len(logits))
        for j in range(i, min(i + most, len(logits)))
    ]
    return sorted(pairs, reverse=True)[:20]


@pytest.mark.parametrize("most", [1, 4, 30])
def test_best_spans_by_brute_force(most: int) -> None:
    """The twenty best pairs of windows of unequal length, one shorter than twenty pairs."""
    generator = np.random.default_rng(1)
    lengths = [17, 3, 40]
    logits = generator.normal(size=(sum(lengths), 2)).astype(np.float32)
    marks = np.concatenate([np.arange(length) + 5 for length in lengths])
    actual = best_spans(torch.tensor(logits), Layout(torch.tensor(lengths)), torch.tensor(marks), most)
    start = 0
    for window, length in enumerate(lengths):
        wanted = brute_force(logits[start : start + length], most)
        rows = [row for row in actual[window].tolist() if row[0] > -1e4]
        assert [(int(i) - 5, int(j) - 5) for _, i, j in rows] == [(i, j) for _, i, j in wanted]
        assert [score for score, _, _ in rows] == pytest.approx([score for score, _, _ in wanted], rel=1e-5)
        start += length


def test_merging_windows_keeps_the_better_score() -> None:
    one = torch.tensor([[5.0, 1, 2], [4.0, 3, 3]])
    two = torch.tensor([[6.0, 1, 2], [1.0, 9, 9]])
    kept = [row for row in merge(torch.stack([one, two])).tolist() if row[0] > -1e4]
    assert kept == [[6.0, 1, 2], [4.0, 3, 3], [1.0, 9, 9]]


def spans_batch() -> tuple[Tensor, dict[str, Tensor]]:
    """Two questions, the first in two windows: [CLS] q c c c, [CLS] q c c, [CLS] q c c."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(13, 2, generator=generator)
    return logits, {
        "input_lengths": host(5, 4, 4),
        "part_lengths": host(2, 1),
        "places": host(2, 3, 4, 7, 8, 11, 12),
        "marks": host(0, 1, 2, 1, 2, 0, 1),
        "place_lengths": host(3, 2, 2),
        "target": torch.tensor([[2, 3], [0, 0], [0, 0]]),
    }


def test_span_loss_by_hand() -> None:
    """Half the sum of both ends' −log softmax over all tokens of a window; one for each window."""
    own = task(Span(unanswerable=True))
    logits, batch = spans_batch()
    start = 0
    wanted = []
    for (first, last), length in zip(batch["target"].tolist(), batch["input_lengths"].tolist(), strict=True):
        ends = logits[start : start + length].T.tolist()
        wanted.append(-(log_softmax(ends[0], first) + log_softmax(ends[1], last)) / 2)
        start += length
    assert own.losses(logits, batch).tolist() == pytest.approx(wanted, rel=1e-5) and own.count(batch) == 3


@pytest.mark.parametrize("framing", ["bert", "xlnet"])
def test_answers_by_brute_force(framing: str) -> None:
    """The best pair over the windows of a question; none scores the least of its windows at the frame's own token."""
    own = task(Span(unanswerable=True), framing)
    logits, batch = spans_batch()
    outputs = own.outputs(logits, batch)
    windows = [logits[2:5], logits[7:9]]
    candidates = [
        (score, i + mark, j + mark)
        for window, mark in zip(windows, (0, 1), strict=True)
        for score, i, j in brute_force(window.numpy(), 30)
    ]
    assert outputs["best"][0, 0].tolist() == pytest.approx(max(candidates), rel=1e-5)
    places = ([0, 5], [9]) if framing == "bert" else ([4, 8], [12])
    assert outputs["none"].tolist() == pytest.approx([min(logits[p].sum().item() for p in own) for own in places])


def test_an_answer_is_cut_from_the_documents_own_characters() -> None:
    """With spaces, capitals and accents as they stand; "" where none scores more."""
    document = "Émile  Zola (1840–1902)"
    spans = np.array([[0, 5], [7, 11], [12, 13], [13, 17]])
    asked = objects([Asked("q1", document, spans, ("Émile  Zola",)), Asked("q2", document, spans, ())])
    best = torch.full((2, 20, 3), -1e4)
    best[:, 0] = torch.tensor([4.0, 0, 1])
    best[:, 1] = torch.tensor([1.0, 3, 3])
    outputs = {"best": best, "none": torch.tensor([3.0, 5.0]), "loss": torch.ones(2), "count": torch.ones(2)}
    own = task(Span(unanswerable=True))
    rows = own.rows(arrays(outputs), {"asked": asked}, top=3)
    assert [row["prediction"] for row in rows] == ["Émile  Zola", ""] and rows[0]["id"] == "q1"
    assert [answer["answer"] for answer in rows[0]["top"]] == ["Émile  Zola", "", "1840"]
    assert rows[0]["none_over_best"] == -1.0
    result = own.score(arrays(outputs), {"asked": asked})
    assert result == {"loss": 1.0, "exact_match": 1.0, "f1": 1.0, "answer_f1": 1.0, "no_answer_accuracy": 1.0}
    strict = task(Span(unanswerable=True), null_threshold=2.0)
    assert strict.rows(arrays(outputs), {"asked": asked}, top=1)[0]["prediction"] == ""
    always = task(Span())  # SQuAD 1.1: there is always an answer
    assert [row["prediction"] for row in always.rows(arrays(outputs), {"asked": asked}, top=1)] == ["Émile  Zola"] * 2
