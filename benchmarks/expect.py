"""Measures what recipes reach and writes it into them: `python benchmarks/expect.py [RECIPE …] [--jobs 2]`.

A recipe is run with several seeds under every instruction set of the machine, since sums in another order lead chaotic
systems elsewhere just as another seed does; each run is a process with one thread. A band is the mean ± 5 standard
deviations over all runs, at least their least and greatest and one example more or less, within what the metric can
be, and rounded outwards to four digits: of final figures, and at some ten of the run's evaluations, or of its logged
steps where the two seldom meet. (With 24 runs, Student's t leaves a new run outside with probability 6e-5, so that all
800 figures of the quick recipes are within their bands on a new machine nineteen times of twenty; with 4 standard
deviations about one of them would be outside.)

`--json FILE` keeps every run's numbers; what FILE has is not measured again, so a measurement can go on after a stop.
Without recipes, `--json FILE` writes those that FILE has, measured here or on another machine. `--runs FOLDER` takes
runs that were made elsewhere, FOLDER/NAME-SEED, in place of training; they must be of the recipe as it is, but for the
settings in `_FREE`. `--quick` runs a few steps of one small recipe with two seeds and prints the bands.
"""

from __future__ import annotations

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from common import arguments as arguments_of
from common import instruction_sets

from canon import recipe as recipes
from canon import storage
from canon.errors import CanonError
from canon.training.run import Run

_POINTS = 10
_DEVIATIONS = 5
_FREE = {"train.seed", "train.init", "train.device", "train.threads", "train.compile"}
_CURVES = (
    *("train/loss", "train/weighted_error", "valid/accuracy", "valid/probe_accuracy", "valid/wer", "valid/bleu"),
    *("valid/perplexity", "valid/two_sample_accuracy", "valid/ndcg@10", "train/found", "train/counted"),
    *("train/return", "train/start_value", "train/td_error", "train/weighted"),
)
# What a metric can be, by the first pattern that is in its name; of the others, at least 0.
_LIMITS = {
    r"accuracy|auc|f1|precision|recall|high_quality|weighted_error|questions-words": (0.0, 1.0),
    r"wordsim|simlex|spearman": (-1.0, 1.0),
    r"return(?!_std)|value|predicted|discounted|truth|ordinary|weighted$|per_decision|interval": (-math.inf, math.inf),
    r"r2": (-math.inf, 1.0),
    r"uniformity": (-math.inf, math.inf),
    r"bleu": (0.0, 100.0),
    r"perplexity": (1.0, math.inf),
}


class Numbers(TypedDict):
    """What one run reached: {"test/loss": …}, and {"train/loss": [[step, value], …]}."""

    scores: dict[str, float]
    curve: dict[str, list[list[float]]]


Measured = dict[str, dict[str, Numbers]]  # of recipe and SET-SEED


def measure(names: list[str], sets: list[str], seeds: int, jobs: int, kept: Path) -> None:
    """Every run that is not in the file `kept` yet, each written there at once; a recipe, when its last run is done."""
    measured: Measured = storage.read_json(kept) if kept.exists() else {}
    pool = ThreadPoolExecutor(jobs)
    runs = {
        pool.submit(_apart, name, seed, instruction_sets()[which]): (name, f"{which}-{seed}")
        for name in names or measured
        for seed in range(seeds if names else 0)
        for which in sets
        if f"{which}-{seed}" not in measured.get(name, {})
    }
    left = Counter(name for name, _ in runs.values())
    for name in names or measured:
        if not left[name]:
            write(name, summarize([*measured[name].values()]))
    try:
        for done, run in enumerate(as_completed(runs), start=1):
            name, key = runs[run]
            measured.setdefault(name, {})[key] = run.result()
            storage.write_text(kept, json.dumps(measured))
            print(f"{done}/{len(runs)}", name, key, measured[name][key]["scores"], flush=True)
            left[name] -= 1
            if not left[name]:
                write(name, summarize([*measured[name].values()]))
    finally:
        pool.shutdown(cancel_futures=True)


def _apart(name: str, seed: int, environment: dict[str, str], quick: bool = False) -> Numbers:
    """What a process with this environment and one thread prints for `--one`."""
    command = [sys.executable, __file__, name, "--one", str(seed), *["--quick"] * quick]
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{name}, seed {seed}, {environment}:\n{ended.stderr}")
    numbers: Numbers = json.loads(ended.stdout.splitlines()[-1])
    return numbers


def once(name: str, seed: int, quick: bool) -> Numbers:
    from canon.training.trainer import train

    with tempfile.TemporaryDirectory() as folder:
        changes: dict[str, object] = {"train.seed": seed, "train.threads": 1, "train.device": "cpu"}
        changes |= {"train.steps": 20} if quick else {}
        if needed := recipes.load(name).needs:
            first = train(needed, out=Path(folder) / "first", changes=changes, quiet=True)
            changes = {**changes, "train.init": str(first.path)}
        return numbers_of(train(name, out=Path(folder) / "run", changes=changes, quiet=True))


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
    return runs


def numbers_of(run: Run) -> Numbers:
    """The scores of the test set, or where all is learned from, of training; and the curve at chosen steps."""
    assert run.result is not None
    split = "test" if "test" in run.result["scores"] else "train"
    scores = {f"{split}/{metric}": value for metric, value in run.result["scores"][split].items()}
    rows = run.metrics()
    curve = {}
    for name in _CURVES:
        values = [[int(row["step"]), row[name]] for row in rows if name in row]
        evaluated = [point for point in values if point[0] % run.recipe.train.evaluate_every == 0]
        points = evaluated if len(evaluated) >= _POINTS else values
        if points:
            curve[name] = points[:: max(1, len(points) // _POINTS)]
    return {"scores": scores, "curve": curve}


def summarize(runs: list[Numbers]) -> dict[str, Any]:
    expect: dict[str, Any] = {}
    for name in runs[0]["scores"]:
        values = [run["scores"][name] for run in runs if name in run["scores"]]  # some are not always defined
        expect[name] = band(name, values, granule(values))
    curve = {}
    for name, points in runs[0]["curve"].items():
        values = [value for run in runs for _, value in run["curve"][name]]
        at = [{point[0]: point[1] for point in run["curve"][name]} for run in runs]
        curve[name] = [[step, *band(name, [row[step] for row in at], granule(values))] for step, _ in points]
    return {**expect, "curve": curve}


def granule(values: list[float]) -> float:
    """The least difference of two values: for a share, that of one example more or less."""
    return min((high - low for low, high in pairwise(sorted({*values}))), default=0.0)


def band(name: str, values: list[float], least: float) -> list[float]:
    """Where a new run's value will be; values that are all the same leave `least` and rounding errors free."""
    low, high = next((limits for part, limits in _LIMITS.items() if re.search(part, name)), (0.0, math.inf))
    if min(values) < 0:  # the loss of a game
        low = -math.inf
    mean = statistics.mean(values)
    margin = max(_DEVIATIONS * statistics.stdev(values), least, 1e-4 * abs(mean), 1e-9)
    return [
        _rounded(min(max(mean - margin, low), *values), math.floor),
        _rounded(max(min(mean + margin, high), *values), math.ceil),
    ]


def _rounded(value: float, towards: Callable[[float], int]) -> float:
    """To four digits."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return float(f"{towards(value / unit) * unit:.4g}")


def write(name: str, expect: dict[str, Any]) -> None:
    path = recipes.RECIPES / f"{name}.toml"
    kept = path.read_text().split("\n[expect]")[0].rstrip()
    curve = expect.pop("curve")
    lines = ["[expect]", *_lines(expect), "", "[expect.curve]", *_lines(curve)]
    path.write_text("\n".join([kept, "", *lines, ""]))


def _lines(table: dict[str, Any]) -> list[str]:
    return [f'"{key}" = {json.dumps(value)}' for key, value in table.items()]  # of numbers, JSON is TOML


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--isa", nargs="+", choices=instruction_sets(), default=[*instruction_sets()])
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--json", type=Path, help="file of all runs' numbers, kept and gone on with")
    parser.add_argument("--runs", type=Path, help="folder of finished runs, NAME-SEED, taken in place of training")
    parser.add_argument("--one", type=int, metavar="SEED", help="run this seed and print its numbers")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(once(arguments.recipes[0], arguments.one, arguments.quick)))
        return
    if arguments.quick:
        print(json.dumps(summarize([_apart("linear/digits-softmax", seed, {}, quick=True) for seed in range(2)])))
        return
    if not arguments.recipes and not arguments.json:
        parser.error("name a recipe, or a --json FILE that has some")
    if arguments.runs:
        for name in arguments.recipes:
            write(name, summarize([numbers_of(run) for run in finished(name, arguments.seeds, arguments.runs)]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            kept = arguments.json or Path(folder) / "numbers.json"
            measure(arguments.recipes, arguments.isa, arguments.seeds, arguments.jobs, kept)


if __name__ == "__main__":
    main()
