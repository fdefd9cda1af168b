"""The facts of a run as JSON: everything that its page shows, so that pages only draw.

They come from the run directory; floors and predictions also from the data and the best weights, if these still exist.
`RunFacts` lists them. A value that the run does not have is None, {} or [].
"""

from __future__ import annotations

import base64
from typing import TypedDict

from canon.config import Table
from canon.contracts import Attends, WeighsFeatures
from canon.data.encodings.lists import ListSchema
from canon.data.encodings.prompted import PromptedSchema
from canon.data.schema import Data
from canon.errors import CanonError
from canon.recipe_text import effective_settings
from canon.report.commands import Command, training_commands, use_commands
from canon.report.orders import orders_of
from canon.report.policy import policy_of
from canon.report.predictions import Guess, Predictions, guess_of, predictions_of
from canon.tasks import table as tasks
from canon.training.data import read_data
from canon.training.plan import floors_of
from canon.training.run import Run
from canon.use.model import Model

_MOST_FEATURES = 20


class SystemFacts(TypedDict):
    name: str  # with its preset
    title: str
    paper: str


class CurveFacts(TypedDict):
    rows: list[dict[str, float]]  # metrics.jsonl
    expected: dict[str, list[list[float]]]  # by metric: [step, low, high]
    together: list[list[str]]  # numbers that one chart has
    floors: dict[str, float]  # losses of guesses that look at no input
    guess: Guess | None  # what one of them would score
    best_step: int | None  # None: there is no validation set to choose by


class ScoreFacts(TypedDict):
    split: str
    examples: int
    metric: str
    value: float | None  # None: undefined for this split
    expected: list[float] | None  # low, high


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


class RunFacts(TypedDict):
    path: str
    recipe: str
    system: SystemFacts
    seed: int
    step: int
    total_steps: int
    ended: str  # why training ended; "": it has not
    monitor: str  # the metric that chooses the best checkpoint
    warnings: list[str]  # that the run has not learned, with likely causes
    unshown: list[str]  # what keeps something from being shown
    remarks: list[str]  # beside the scores
    curves: CurveFacts
    scores: list[ScoreFacts]
    best_step: int | None  # whose weights the scores are of
    risks: dict[str, float]
    predictions: Predictions | None
    prompt: list[Table]  # canon.use.prompts: the tokens that a prompt's vectors are nearest to
    attention: Table | None  # canon.inspect.attention, of one text
    policy: Table | None  # canon.report.policy: of an agent
    orders: Table | None  # canon.report.orders: of a ranker or a recommender
    importances: list[Table]  # canon.inspect.importances: the features that count most
    pictures: list[Picture]
    cost: Cost | None
    settings: dict[str, list[Setting]]  # by section of the recipe
    data: Table  # data.json, and of a table how many columns of each kind
    environment: Table  # env.json
    commands: dict[str, str]  # resume, again, exact
    use: list[Command]  # what the run can be used for


def gather(run: Run, data: Data | None = None) -> RunFacts:
    """data: the run's, if it has been read already."""
    recipe, result, recorded, rows = run.recipe, run.result or {}, run.data, run.metrics()
    _, settings = effective_settings(run.read_recipe())
    shown = _from_weights(run, data, bool(result))
    task = tasks.of(recipe.system)
    step = int(result.get("steps") or max((row["step"] for row in rows), default=0))
    return {
        "path": str(run.path),
        "recipe": recipe.name,
        "system": {"name": recipe.system_name, "title": recipe.system.title, "paper": recipe.system.paper},
        "seed": recipe.train.seed,
        "step": step,
        "total_steps": recipe.total_steps(int(recorded["examples"].get("train", 0))),
        "ended": result.get("ended", ""),
        "monitor": recipe.train.monitor or task.monitor,
        "warnings": result.get("warnings", []),
        "unshown": shown["unshown"],
        "remarks": result.get("remarks", []),
        "curves": {
            "rows": rows,
            "expected": recipe.expected().get("curve", {}),
            "together": [list(group) for group in task.drawn_together],
            "floors": shown["floors"],
            "guess": shown["guess"],
            "best_step": result.get("best_step") if "valid" in recorded["examples"] else None,
        },
        "scores": _scores(result, recorded["examples"]),
        "best_step": result.get("best_step"),
        "risks": result.get("risk", {}),
        "predictions": shown["predictions"],
        "prompt": shown["prompt"],
        "attention": shown["attention"],
        "policy": shown["policy"],
        "orders": shown["orders"],
        "importances": shown["importances"],
        "pictures": _pictures(run, int(result.get("best_step", 0))),
        "cost": _cost(run.timings(), result.get("cost", {}), step * recipe.train.batch),
        "settings": {
            section: [{"key": key, "value": value, "origin": origin} for key, value, origin in lines]
            for section, lines in settings.items()
        },
        "data": {**recorded, "columns": run.schema.column_kinds()},
        "environment": run.env,
        "commands": training_commands(run, settings),
        "use": shown["use"],
    }


def _scores(result: Table, examples: dict[str, int]) -> list[ScoreFacts]:
    scores: list[ScoreFacts] = []
    for split, values in result.get("scores", {}).items():
        count = int(examples.get(split, 0))
        count = int(result.get("risk_examples", count)) if split == "train" else count
        for metric, value in values.items():
            scores.append(
                {
                    "split": split,
                    "examples": count,
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
    """From each folder the picture of the best weights, and the newest, if that is another."""
    pictures: list[Picture] = []
    for folder in sorted({path.parent for path in run.path.glob("*/step-*.png")}):
        for path in dict.fromkeys((folder / f"step-{best_step:08d}.png", max(folder.glob("step-*.png")))):
            if path.is_file():
                png = base64.b64encode(path.read_bytes()).decode()
                pictures.append({"folder": folder.name, "step": int(path.stem[5:]), "png": png})
    return pictures


def _from_weights(run: Run, data: Data | None, finished: bool) -> Table:
    """What the data and the best weights add to the files of a run, or why they cannot be read."""
    shown: Table = {"unshown": [], "floors": {}, "guess": None, "predictions": None, "attention": None, "use": []}
    shown |= {"prompt": [], "importances": [], "policy": None, "orders": None}
    try:
        data = data or read_data(run.recipe, run.path)
        run.check_same_data(data)
        model = Model(run)
    except CanonError as mistake:
        return shown | {"unshown": [str(mistake)]}
    shown |= {"floors": floors_of(model.task, data), "guess": guess_of(model.task, data)}
    shown["use"] = use_commands(model, data)
    shown["policy"] = policy_of(model, data)
    if isinstance(model.learner, WeighsFeatures) or (finished and isinstance(model.schema, ListSchema)):
        from canon.inspect.importances import importances

        shown["importances"] = importances(model, data, quick=True).rows[:_MOST_FEATURES]
    if isinstance(model.schema, PromptedSchema):
        from canon.use.prompts import nearest

        shown["prompt"] = nearest(model)
    if not finished or "test" not in data.splits:
        return shown
    shown["orders"] = orders_of(model, data)
    shown["predictions"] = predictions = predictions_of(model, data.splits["test"])
    if predictions is not None and predictions["kind"] == "texts" and isinstance(model.network, Attends):
        from canon.inspect.attention import attention

        rows = predictions["values"]["rows"]
        shown["attention"] = attention(model, rows[len(rows) // 2]["given"]).to_json()
    return shown
