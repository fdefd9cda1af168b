"""What a run's best weights predict for its test set, as JSON: scores of each class, mistakes, numbers, texts; and what
a guess that looks at no input would score."""

from __future__ import annotations

import base64
from typing import Any, Literal, TypedDict

import numpy as np

from canon import metrics
from canon.config import Table
from canon.data.batching.documents import LabelLists
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Columns, Data, Schema, take
from canon.data.targets import Number
from canon.metrics.classification import divide
from canon.tasks import pictures
from canon.tasks.base import PredictsClasses, PredictsNumbers, PredictsTags, PredictsTexts, Task
from canon.use.model import Model

_MOST_CLASSES = 30  # of a confusion matrix or a table of scores that can still be read
_MOST_SHOWN = 20  # translations
_MOST_MISTAKES = 12
_MOST_EXAMPLES = 10_000  # of the test set that predictions are shown for


class Guess(TypedDict):
    """A predictor that gives the same answer to everything, chosen by the training set."""

    name: str
    scores: dict[str, float]  # by metric, on the validation set: valid/accuracy


class Predictions(TypedDict):
    """Of test examples. What `values` holds:

    | kind | values |
    | --- | --- |
    | classes | classes; counts by true (rows) and predicted class, none of too many; scores of each class; mistakes |
    | tags | scores of each kind of entity, or of each tag |
    | numbers | label, true, predicted |
    | texts | rows of what was given, what the network put out ("said") and what is right |
    """

    kind: Literal["classes", "tags", "numbers", "texts"]
    examples: int  # that are shown
    of: int  # examples of the test set
    values: Table


def guess_of(task: Task, data: Data) -> Guess | None:
    """The majority class, or the mean; None where the task has neither, or there is no validation set."""
    target, valid = data.schema.target, data.splits.get("valid", {})
    if isinstance(target, Number):
        true_n = np.asarray(valid.get("target", ()), dtype=np.float64)
        if not len(true_n):
            return None
        gaps_n = true_n - target.mean
        scores = {"valid/mse": float((gaps_n**2).mean()), "valid/mae": float(np.abs(gaps_n).mean())}
        return {"name": f"the mean, {target.mean:.4g}", "scores": scores}
    if not target.counts or not isinstance(task, PredictsClasses | PredictsTags) or "target" not in valid:
        return None
    best = int(np.argmax(target.counts))
    name = f'the majority class, "{target.classes[best]}"'
    if isinstance(task, PredictsTags):
        tags: Any = valid["tags"]
        right = [tag == target.classes[best] for sentence in tags for tag in sentence]
        return {"name": name, "scores": {"valid/tag_accuracy": float(np.mean(right))}} if right else None
    labels = LabelLists.of(valid["target"])
    labels = labels.take(np.flatnonzero(labels.lengths))
    if not len(labels):
        return None
    hits = np.bincount(_rows_of(labels)[labels.flat == best], minlength=len(labels))
    scores = {"valid/accuracy": float((hits > 0).mean())}
    if (labels.lengths == 1).all():
        scores["valid/f1_macro"] = metrics.f1(labels.flat, np.full(len(labels), best), average="macro")
    return {"name": name, "scores": scores}


def predictions_of(model: Model, test: Columns) -> Predictions | None:
    """None for tasks whose predictions a page cannot show."""
    task = model.task
    if isinstance(task, PredictsTexts):
        return _texts(task, model, test)
    if "target" not in test:
        return None
    total = len(test["input"])
    rows = take(test, np.arange(min(_MOST_EXAMPLES, total)))
    given = {name: column for name, column in rows.items() if name != "target"}
    values: Table
    if isinstance(task, PredictsClasses) and isinstance(rows["target"], np.ndarray | LabelLists):
        outputs = model.learner.outputs(given)
        values = _classes(task.scores(outputs), task.decided(outputs), rows, model.schema)
        return {"kind": "classes", "examples": min(_MOST_EXAMPLES, total), "of": total, "values": values}
    if isinstance(task, PredictsNumbers):
        true, predicted = np.asarray(rows["target"]), task.numbers(model.learner.outputs(given))
        values = {"label": model.schema.target.label, "true": true.tolist(), "predicted": predicted.tolist()}
        return {"kind": "numbers", "examples": len(true), "of": total, "values": values}
    if isinstance(task, PredictsTags):
        values = {"scores": _tags(task, model, rows, given)}
        return {"kind": "tags", "examples": min(_MOST_EXAMPLES, total), "of": total, "values": values}
    return None


def _classes(scores_nC: np.ndarray, predicted_n: np.ndarray, rows: Columns, schema: Schema) -> Table:
    classes, labels = list(schema.classes), LabelLists.of(rows["target"])
    right_n = np.zeros(len(labels), dtype=bool)
    owner_T = _rows_of(labels)
    right_n[owner_T[labels.flat == predicted_n[owner_T]]] = True
    counts: list[list[int]] = []
    if len(classes) <= _MOST_CLASSES and (labels.lengths == 1).all():
        counts = metrics.confusion_matrix(labels.flat, predicted_n, classes=np.arange(len(classes))).tolist()
    known_n = labels.lengths > 0
    scores = _scores(
        classes,
        np.bincount(predicted_n[right_n], minlength=len(classes)),
        np.bincount(predicted_n[known_n], minlength=len(classes)),
        np.bincount(labels.flat, minlength=len(classes)),
    )
    sure_n = np.take_along_axis(scores_nC, predicted_n[:, None], axis=1)[:, 0]
    wrong = np.flatnonzero(~right_n & known_n)
    wrong = wrong[np.argsort(-sure_n[wrong], kind="stable")][:_MOST_MISTAKES]
    shown = take({"input": rows["input"]}, wrong)["input"]
    mistakes = []
    for place, row in enumerate(wrong.tolist()):
        true = [classes[code] for code in labels.take(np.array([row])).flat.tolist()]
        mistakes.append(
            {
                "given": schema.shown(shown, place),
                "picture": _picture(schema, shown, place),
                "true": " and ".join(true),
                "predicted": classes[int(predicted_n[row])],
                "score": float(sure_n[row]),
            }
        )
    return {
        "classes": classes,
        "counts": counts,
        "scores": scores,
        "mistakes": mistakes,
        "wrong": int((~right_n).sum()),
    }


def _scores(names: list[str], hit_C: np.ndarray, called_C: np.ndarray, true_C: np.ndarray) -> list[Table]:
    """Of each class; of too many, those with the lowest F1."""
    columns = {
        "class": names,
        "precision": divide(hit_C, called_C, 0.0).tolist(),
        "recall": divide(hit_C, true_C, 0.0).tolist(),
        "f1": divide(2 * hit_C, called_C + true_C, 0.0).tolist(),
        "examples": true_C.tolist(),
        "predicted": called_C.tolist(),
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return rows if len(rows) <= _MOST_CLASSES else sorted(rows, key=lambda row: row["f1"])[:_MOST_CLASSES]


def _tags(task: PredictsTags, model: Model, rows: Columns, given: Columns) -> list[Table]:
    predicted = task.tags(model.learner.outputs(given))
    tags: Any = rows["tags"]
    right = [list(sentence) for sentence in tags]
    if task.of_entities:
        names: list[str] = sorted({kind for of in (right, predicted) for tags in of for kind, _, _ in _spans(tags)})
        flat_right, flat_predicted = ([set(_spans(tags)) for tags in of] for of in (right, predicted))
    else:
        names = sorted({tag for of in (right, predicted) for tags in of for tag in tags})
        flat_right, flat_predicted = (
            [{(tag, place, place) for place, tag in enumerate(tags)} for tags in of] for of in (right, predicted)
        )
    place = {name: code for code, name in enumerate(names)}
    counts = np.zeros((3, len(names)), dtype=np.int64)  # hit, called, true
    for wanted, offered in zip(flat_right, flat_predicted, strict=True):
        for row, group in enumerate((wanted & offered, offered, wanted)):
            for kind, _, _ in group:
                counts[row, place[kind]] += 1
    return _scores(names, *counts)


def _spans(tags: list[str]) -> list[tuple[str, int, int]]:
    return list(metrics.entities(tags))


def _rows_of(labels: LabelLists) -> np.ndarray:
    """The example that each label is of."""
    return np.repeat(np.arange(len(labels)), labels.lengths)


def _picture(schema: Schema, column: Any, row: int) -> str:
    """The PNG of an image, in base64; "" of anything else, and where Pillow is not installed."""
    if not isinstance(schema, PixelSchema) or not pictures.can_draw():
        return ""
    return base64.b64encode(pictures.grid(np.asarray(column[row : row + 1]), schema.white)).decode()


def _texts(task: PredictsTexts, model: Model, test: Columns) -> Predictions:
    """What the network puts out for test examples from all over the set, beside what is right."""
    total = len(test["input"])
    some = take(test, np.linspace(0, total - 1, min(_MOST_SHOWN, total)).astype(np.int64))
    rows = [
        {"given": given, "said": answer, "right": list(right)}
        for given, answer, right in task.shown(model.learner.outputs(some), some)
    ]
    return {"kind": "texts", "examples": len(rows), "of": total, "values": {"rows": rows}}
