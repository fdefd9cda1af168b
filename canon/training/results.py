"""What a run has reached: result.json, and the lines that say so beside what the recipe is expected to reach."""

from __future__ import annotations

import numpy as np

from canon.config import Table
from canon.data import encodings
from canon.data.schema import Data
from canon.recipe import Recipe
from canon.tasks.base import Decides, Remarks, Scoring

Scores = dict[str, dict[str, float]]
_LONG = 1e9  # numbers from here on are printed with an exponent
_FEW_LOGS = 3  # training losses of each half of a run to say whether they fall


def record(
    recipe: Recipe,
    data: Data,
    task: Scoring,
    scores: Scores,
    last: Scores,
    penalty: float,
    reached: Table,
    cost: Table,
    warnings: list[str],
) -> Table:
    """What result.json holds. last: scores of the last weights, where they are reported too. reached: steps, best_step,
    ended and risk_examples."""
    names = dict.fromkeys(name for of_split in scores.values() for name in of_split)
    return {
        "recipe": recipe.name,
        "system": recipe.system_name,
        "seed": recipe.train.seed,
        **reached,
        # What is undefined for one split only (as AUC of a single class) is None there.
        "scores": {split: {name: of_split.get(name) for name in names} for split, of_split in scores.items()},
        **({"last": last} if last else {}),
        "remarks": list(task.remarks) if isinstance(task, Remarks) else [],
        "warnings": warnings,
        **({"threshold": task.threshold} if isinstance(task, Decides) and task.threshold is not None else {}),
        "risk": _risks(scores, penalty),
        "expected": {key: value for key, value in recipe.expected().items() if key != "curve"},
        "protocol": {"data": data.fingerprint(), **data.protocol},
        "cost": cost,
    }


def warnings(recipe: Recipe, task: Scoring, data: Data, shortfall: str, losses: list[float]) -> list[str]:
    """A sentence where the run has not learned, with the likeliest causes for such data.

    shortfall: what the task says about the split that it is judged by. losses: of training, as they were logged."""
    falls = not task.loss_falls or bool(recipe.train.init) or _fell(losses)
    flat = "" if falls else f"the training loss did not fall (from {losses[0]:.4g} to {losses[-1]:.4g})"
    if not (problems := " and ".join(filter(None, [shortfall and f"it is {shortfall}", flat]))):
        return []
    causes = encodings.find(data.schema.encoding).causes
    listed = "; ".join(f"({number}) {cause}" for number, cause in enumerate(causes, start=1))
    return [f"This run has not learned: {problems}. Likely causes: {listed}."]


def _fell(losses: list[float]) -> bool:
    """Whether losses are lower in the second half than in the first, or than at first; of a few nothing is known."""
    half = len(losses) // 2
    if half < _FEW_LOGS:
        return True
    late, early, first = (float(np.mean(some)) for some in (losses[half:], losses[:half], losses[:1]))
    return early - late > 0.001 * abs(early) or first - late > 0.01 * abs(first)


def _risks(scores: Scores, penalty: float) -> dict[str, float]:
    """Mean training loss, the same with the regulariser, and mean test loss; of the splits that have a loss."""
    losses = {split: of_split["loss"] for split, of_split in scores.items() if "loss" in of_split}
    risks = {}
    if "train" in losses:
        risks = {"empirical": losses["train"], "structural": losses["train"] + penalty}
    if "test" in losses:
        risks["generalization"] = losses["test"]
    return risks


def lines(result: Table) -> list[str]:
    """One line for each split, each number beside what is expected of it, and the remarks."""
    text = []
    last = {f"{split}, last weights": scores for split, scores in result.get("last", {}).items()}
    for split, scores in (result["scores"] | last).items():
        numbers = []
        for key, number in scores.items():
            value = "–" if number is None else _shown(number)
            numbers.append(f"{key} {value}{_beside(result['expected'].get(f'{split}/{key}'))}")
        text.append(f"{split:>5}  {'  '.join(numbers)}")
    if (threshold := result.get("threshold")) is not None:
        text.append(f"The second class is predicted from a probability of {threshold:.3f} on (objective.threshold).")
    return [*text, *result["remarks"], *result["warnings"]]


def standing(recipe: Recipe, step: int, train: dict[str, float], valid: dict[str, float]) -> list[str]:
    """The newest numbers of training and validation in a line, each beside what the recipe is known to have at this
    step; none where there are none."""
    curve = recipe.expected().get("curve", {})
    bounds = {name: between for name, points in curve.items() for at, *between in points if at == step}
    numbers = {f"train/{key}": value for key, value in train.items() if key != "lr"}
    numbers |= {f"valid/{key}": value for key, value in valid.items()}
    texts = [f"{key} {_shown(value)}{_beside(bounds.get(key))}" for key, value in numbers.items()]
    return [f"step {step:,}  {'  '.join(texts)}"] if texts else []


def _shown(number: float) -> str:
    return f"{number:.4f}" if abs(number) < _LONG else f"{number:.5g}"


def _beside(bounds: list[float] | None) -> str:
    return f" (expected {bounds[0]:.4g}–{bounds[1]:.4g})" if bounds else ""
