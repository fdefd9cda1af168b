"""The facts of a run as JSON: all that a page of it shows, so that pages only draw.

Read from the run directory; for the floors and the predictions also from the data and the best weights, where they
still exist. `Facts` lists what is in them. A value that the run does not have is None, {} or [].
"""

from __future__ import annotations

import base64
import tomllib
from collections import Counter
from shlex import quote
from typing import Literal, TypedDict

import numpy as np

from canon.config import Table
from canon.contracts import Attends
from canon.data.encodings.features import FeatureSchema
from canon.data.schema import Columns, Data, take
from canon.errors import CanonError
from canon.inspect.attention import attention
from canon.recipe import effective_settings
from canon.tasks.table import TASKS
from canon.tasks.transduction import Transduction
from canon.training.data import read_data
from canon.training.plan import floors_of
from canon.training.run import Run
from canon.use.model import Model

_MOST_CLASSES = 30  # of a confusion matrix that can still be read
_MOST_SHOWN = 20  # translations
_MOST_EXAMPLES = 10_000  # of the test set that predictions are shown for


class System(TypedDict):
    name: str  # with its preset
    title: str
    paper: str


class Curves(TypedDict):
    rows: list[dict[str, float]]  # metrics.jsonl
    expected: dict[str, list[list[float]]]  # by metric: [step, low, high]
    floors: dict[str, float]  # losses of guesses that look at no input
    best_step: int | None  # None: there is no validation set to choose by


class Score(TypedDict):
    split: str
    examples: int
    metric: str
    value: float | None  # None: undefined for this split
    expected: list[float] | None  # low, high


class Predictions(TypedDict):
    """Of test examples. confusion: classes, and counts by true (rows) and predicted class. numbers: true, predicted.
    texts: rows of what was given, what the network said and what is right."""

    kind: Literal["confusion", "numbers", "texts"]
    examples: int  # that are shown
    of: int  # examples of the test set
    values: Table


class Cost(TypedDict):
    seconds: float
    examples: int
    examples_per_second: float
    share_of_peak: float  # 0: unknown
    memory_bytes: int
    device: str  # "": the run is not finished
    processes: int
    parameters: int | None


class Setting(TypedDict):
    key: str
    value: str  # as in TOML
    origin: str


class Picture(TypedDict):
    folder: str
    step: int
    png: str  # base64


class Facts(TypedDict):
    path: str
    recipe: str
    system: System
    seed: int
    step: int
    total_steps: int
    ended: str  # why training ended; "": it has not
    monitor: str  # the metric that chooses the best checkpoint
    warnings: list[str]  # what keeps something from being shown
    remarks: list[str]  # beside the scores
    curves: Curves
    scores: list[Score]
    best_step: int | None  # whose weights the scores are of
    risks: dict[str, float]
    predictions: Predictions | None
    attention: Table | None  # canon.inspect.attention, of one text
    pictures: list[Picture]
    cost: Cost | None
    settings: dict[str, list[Setting]]  # by section of the recipe
    data: Table  # data.json, and of a table how many columns of each kind
    environment: Table  # env.json
    commands: dict[str, str]  # resume, again, exact


def gather(run: Run, data: Data | None = None) -> Facts:
    """data: the run's, where it is read already."""
    recipe, result, recorded, rows = run.recipe, run.result or {}, run.data, run.metrics()
    _, settings = effective_settings(run.read_recipe())
    seen = _seen(run, data, bool(result))
    step = int(result.get("steps") or max((row["step"] for row in rows), default=0))
    schema = run.schema
    kinds = Counter(encoder.kind for encoder in schema.encoders) if isinstance(schema, FeatureSchema) else {}
    return {
        "path": str(run.path),
        "recipe": recipe.name,
        "system": {"name": recipe.system_name, "title": recipe.system.title, "paper": recipe.system.paper},
        "seed": recipe.train.seed,
        "step": step,
        "total_steps": recipe.total_steps(int(recorded["examples"].get("train", 0))),
        "ended": result.get("ended", ""),
        "monitor": recipe.train.monitor or TASKS[recipe.system.task].monitor,
        "warnings": seen.warnings,
        "remarks": result.get("remarks", []),
        "curves": {
            "rows": rows,
            "expected": recipe.expected().get("curve", {}),
            "floors": seen.floors,
            "best_step": result.get("best_step") if "valid" in recorded["examples"] else None,
        },
        "scores": _scores(result, recorded["examples"], TASKS[recipe.system.task].risk_examples),
        "best_step": result.get("best_step"),
        "risks": result.get("risk", {}),
        "predictions": seen.predictions,
        "attention": seen.attention,
        "pictures": _pictures(run, int(result.get("best_step", 0))),
        "cost": _cost(run.timings(), result.get("cost", {}), step * recipe.train.batch),
        "settings": {
            section: [{"key": key, "value": value, "origin": origin} for key, value, origin in lines]
            for section, lines in settings.items()
        },
        "data": {**recorded, "columns": dict(kinds)},
        "environment": run.env,
        "commands": _commands(run, settings),
    }


def _scores(result: Table, examples: dict[str, int], most: int) -> list[Score]:
    """most: examples of the training set that are scored."""
    scores: list[Score] = []
    for split, values in result.get("scores", {}).items():
        count = int(examples.get(split, 0))
        for metric, value in values.items():
            scores.append(
                {
                    "split": split,
                    "examples": min(count, most) if split == "train" else count,
                    "metric": metric,
                    "value": value,
                    "expected": result["expected"].get(f"{split}/{metric}"),
                }
            )
    return scores


def _cost(timings: list[dict[str, float]], cost: Table, examples: int) -> Cost | None:
    if not timings and not cost:
        return None
    known: Table = {**(timings[-1] if timings else {}), **cost}
    return {
        "seconds": known.get("seconds", 0.0),
        "examples": int(known.get("examples", examples)),
        "examples_per_second": known.get("examples_per_second", 0.0),
        "share_of_peak": known.get("share_of_peak", 0.0),
        "memory_bytes": int(known.get("memory_bytes", 0)),
        "device": known.get("device", ""),
        "processes": known.get("processes", 1),
        "parameters": known.get("parameters"),
    }


def _pictures(run: Run, best_step: int) -> list[Picture]:
    """The picture of the weights that are used in each folder, and the newest, where that is another."""
    pictures: list[Picture] = []
    for folder in sorted({path.parent for path in run.path.glob("*/step-*.png")}):
        for path in dict.fromkeys((folder / f"step-{best_step:08d}.png", max(folder.glob("step-*.png")))):
            if path.is_file():
                png = base64.b64encode(path.read_bytes()).decode()
                pictures.append({"folder": folder.name, "step": int(path.stem[5:]), "png": png})
    return pictures


def _commands(run: Run, settings: dict[str, list[tuple[str, str, str]]]) -> dict[str, str]:
    words = [f"canon train {run.recipe.name}"]
    for section, lines in settings.items():
        for key, value, origin in lines:
            if origin == "--data":
                words.append(f"--data {quote(tomllib.loads(f'value = {value}')['value'])}")
            elif origin in ("--set", "keyword"):
                words.append(f"--set {quote(f'{section}.{key}={value}')}")
    return {
        "resume": f"canon train {run.path} --resume",
        "again": " ".join(words),
        "exact": f"canon train {run.path / 'recipe.toml'} --out {run.path}-again",
    }


class _Seen:
    """What the data and the best weights add to the files of a run."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.floors: dict[str, float] = {}
        self.predictions: Predictions | None = None
        self.attention: Table | None = None


def _seen(run: Run, data: Data | None, finished: bool) -> _Seen:
    seen = _Seen()
    try:
        data = data or read_data(run.recipe, run.path)
        run.check_same_data(data)
        model = Model(run)
    except CanonError as mistake:
        seen.warnings.append(str(mistake))
        return seen
    seen.floors = floors_of(model.task, data)
    if not finished or "test" not in data.splits:
        return seen
    if isinstance(model.task, Transduction):
        seen.predictions = _texts(model.task, model, data.splits["test"])
        if isinstance(model.network, Attends):
            rows = seen.predictions["values"]["rows"]
            seen.attention = attention(model, rows[len(rows) // 2]["given"]).to_json()
    else:
        seen.predictions = _of_rows(model, data.splits["test"])
    return seen


def _of_rows(model: Model, test: Columns) -> Predictions | None:
    """Of tasks whose target is one class or number."""
    if not isinstance(test.get("target"), np.ndarray):
        return None
    total, task, schema = len(test["input"]), model.task, model.run.schema
    inputs, index = test["input"], np.arange(min(_MOST_EXAMPLES, total))
    rows = inputs[index] if isinstance(inputs, np.ndarray) else inputs.take(index)
    true = np.asarray(test["target"])[index]
    outputs = model.learner.outputs({"input": rows})
    if (scores := task.scores(outputs)) is not None and len(schema.classes) <= _MOST_CLASSES:
        counts = confusion(true, scores.argmax(dim=1).numpy(), len(schema.classes)).tolist()
        values: Table = {"classes": list(schema.classes), "counts": counts}
        return {"kind": "confusion", "examples": len(true), "of": total, "values": values}
    if (predicted := task.numbers(outputs)) is not None:
        values = {"label": schema.target.label, "true": true.tolist(), "predicted": predicted.tolist()}
        return {"kind": "numbers", "examples": len(true), "of": total, "values": values}
    return None


def confusion(true: np.ndarray, predicted: np.ndarray, size: int) -> np.ndarray:
    """Counts by true (rows) and predicted class."""
    counts = np.zeros((size, size), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    return counts


def _texts(task: Transduction, model: Model, test: Columns) -> Predictions:
    """What the network says of some test examples from all over the set, beside what is right."""
    total = len(test["input"])
    index = np.linspace(0, total - 1, min(_MOST_SHOWN, total)).astype(np.int64)
    some: Columns = take(test, index)
    rows = [
        {"given": given, "said": said, "right": list(right)}
        for given, said, right in task.shown(model.learner.outputs(some), some)
    ]
    return {"kind": "texts", "examples": len(rows), "of": total, "values": {"rows": rows}}
