"""Measures what recipes reach and writes it into them: `python benchmarks/expect.py [RECIPE …] [--seeds 5]`.

The final figures are the mean ± 3 standard deviations over the seeds; the curve is the least and the greatest over the
seeds at some ten of the run's evaluations, or of its logged steps where the two seldom meet. What a recipe says it
reaches is therefore always something that was printed. `--runs FOLDER` takes runs that were made elsewhere,
FOLDER/NAME-SEED, in place of training; they must be of the recipe as it is, but for the settings in `_FREE`.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from canon import recipe as recipes
from canon.errors import CanonError
from canon.training.run import Run
from canon.training.trainer import train

_POINTS = 10
_FREE = {"train.seed", "train.init", "train.device", "train.threads", "train.compile"}


def measure(name: str, seeds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for seed in range(seeds):
            out = Path(folder) / str(seed)
            changes: dict[str, object] = {"train.seed": seed}
            if needed := recipes.load(name).needs:
                first = Path(folder) / f"{seed}-first"
                changes["train.init"] = str(train(needed, out=first, changes={"train.seed": seed}, quiet=True).path)
            runs.append(train(name, out=out, changes=changes, quiet=True))
            print(name, seed, runs[-1].result["scores"][_judged(runs[-1])], flush=True)
        return summarize(runs)


def finished(name: str, seeds: int, folder: Path) -> list[Run]:
    """The runs FOLDER/NAME-SEED, each seen to be whole and of the recipe as it is now."""
    asked = recipes.load(name)
    runs = [Run.open(folder / f"{name.split('/')[1]}-{seed}") for seed in range(seeds)]
    for seed, run in enumerate(runs):
        made, result = run.recipe, run.result
        if result is None or result["seed"] != seed:
            raise CanonError(f"{run.path} is not a finished run with seed {seed}.")
        stated = [(asked.table[part], made.table[part]) for part in ("system", "train")]
        # Of text, a run has worked the epochs out into steps.
        left = {"init"} if "epochs" in made.table["train"] else {"init", "epochs"}
        same = all(ours.get(k) == value for theirs, ours in stated for k, value in theirs.items() if k not in left)
        whole = (made.name, made.data, made.optimizer, made.optimizers)
        # What was set for a run may have become the recipe's own since.
        free = _FREE | {f"{part}.{key}" for part in ("system", "train") for key in asked.table[part]}
        changed = {key for key, origin in made.origins.items() if origin in ("--set", "--data")} - free
        if not same or changed or whole != (asked.name, asked.data, asked.optimizer, asked.optimizers):
            raise CanonError(f"{run.path} has other settings than the recipe {name} has now.")
        print(name, seed, result["scores"][_judged(run)], flush=True)
    return runs


def summarize(runs: list[Run]) -> dict[str, object]:
    expect: dict[str, object] = {}
    split = _judged(runs[0])
    for metric in runs[0].result["scores"][split]:
        values = [run.result["scores"][split][metric] for run in runs]
        mean = statistics.mean(values)
        expect[f"{split}/{metric}"] = _bounds([mean], margin=3 * statistics.stdev(values))
    return {**expect, "curve": _curve(runs)}


def _judged(run: Run) -> str:
    """The split whose scores a recipe states: the test set's, or where all is learned from, that of training."""
    return "test" if "test" in run.result["scores"] else "train"


def _curve(runs: list[Run]) -> dict[str, list[list[float]]]:
    """Least and greatest over the runs, at steps where a run says how it stands."""
    every = runs[0].recipe.train.evaluate_every
    rows = [run.metrics() for run in runs]
    names = [
        name
        for name in (
            *(
                "train/loss",
                "train/weighted_error",
                "valid/accuracy",
                "valid/probe_accuracy",
                "valid/wer",
                "valid/bleu",
                "valid/perplexity",
            ),
            "valid/two_sample_accuracy",
        )
        if any(name in r for r in rows[0])
    ]
    curve = {}
    for name in names:
        values = [{int(row["step"]): row[name] for row in own if name in row} for own in rows]
        steps = [step for step in values[0] if step % every == 0]
        if len(steps) < _POINTS:
            steps = list(values[0])
        chosen = steps[:: max(1, len(steps) // _POINTS)]
        curve[name] = [[step, *_bounds([own[step] for own in values])] for step in chosen]
    return curve


def _bounds(values: list[float], margin: float = 0.0) -> list[float]:
    """Least and greatest to four digits, rounded outwards."""
    return [_rounded(min(values) - margin, math.floor), _rounded(max(values) + margin, math.ceil)]


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return float(f"{towards(value / unit) * unit:.4g}")


def write(name: str, expect: dict[str, object]) -> None:
    path = recipes.RECIPES / f"{name}.toml"
    kept = path.read_text().split("\n[expect]")[0].rstrip()
    curve = expect.pop("curve")
    lines = ["[expect]", *_lines(expect), "", "[expect.curve]", *_lines(curve)]
    path.write_text("\n".join([kept, "", *lines, ""]))


def _lines(table: dict[str, object]) -> list[str]:
    return [f'"{key}" = {json.dumps(value)}' for key, value in table.items()]  # of numbers, JSON is TOML


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=recipes.names())
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=Path, help="folder of finished runs, NAME-SEED, taken in place of training")
    arguments = parser.parse_args()
    for name in arguments.recipes:
        if arguments.runs:
            expect = summarize(finished(name, arguments.seeds, arguments.runs))
        else:
            expect = measure(name, arguments.seeds)
        write(name, expect)


if __name__ == "__main__":
    main()
