"""Settings by random search within a time: every trial is an ordinary run, the validation metric decides, test waits.

Bergstra and Bengio 2012, Random search for hyper-parameter optimization. Trial 1 is the recipe as it stands; the others
draw each setting of the system's space by itself, from a stream that `seed` and the trial's number decide: what is
tried does not depend on the machine, only how much of it. All have the recipe's own train.seed, data and split.
A trial may take an eighth of the time; one that is cut short stands by what it had reached, and if it is the best it is
trained to its end afterwards. OUT/trial-NNN are the runs, OUT/best is the chosen one, tune.json the record; the same
command goes on where it was stopped. Weights of other trials than the best are removed unless they are to be kept.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canon import recipe as recipes
from canon.config import Table, parse_assignment
from canon.errors import CanonError, border
from canon.recipe import EITHER, Recipe
from canon.registry import Range
from canon.report.run import write_report
from canon.runs import files
from canon.runs.checkpoint import point
from canon.storage import write_text
from canon.tasks.table import TASKS
from canon.training.data import read_data
from canon.training.run import Run
from canon.training.trainer import train

Space = Mapping[str, Range | tuple[Any, ...]]

_SHARE = 8  # of the whole time that one trial may take: an eighth
_LEAST_SECONDS = 1.0  # of a trial
_WITHOUT_END = 1e9  # seconds
_RECORD = {"recipe": str, "metric": str, "trials": [dict]}  # of tune.json, what is read again


@dataclass
class Trial:
    """One set of settings and what the validation set says of it."""

    number: int
    settings: Table
    value: float | None = None  # of the metric; None where it failed
    scores: dict[str, float | None] = field(default_factory=dict)  # of the validation set
    seconds: float = 0.0  # by the clock, reading and writing too
    ended: str = ""  # why the run ended, or what was wrong
    run: str = ""

    @property
    def cut_short(self) -> bool:
        return self.ended == "train.seconds are over"


@dataclass
class Tuning:
    """What a search has found."""

    folder: Path
    recipe: str
    metric: str
    higher_is_better: bool
    trials: list[Trial]
    finished: bool = False

    @property
    def best(self) -> Trial | None:
        """Of equals the earlier one."""
        sign = 1 if self.higher_is_better else -1
        judged = [trial for trial in self.trials if trial.value is not None]
        return max(judged, key=lambda trial: (sign * (trial.value or 0.0), -trial.number), default=None)

    def rows(self, most: int = 10) -> list[dict[str, Any]]:
        """The best trials, best first, to print."""
        sign = 1 if self.higher_is_better else -1
        judged = sorted(
            (trial for trial in self.trials if trial.value is not None),
            key=lambda trial: (-sign * (trial.value or 0.0), trial.number),
        )
        keys = list(dict.fromkeys(key for trial in judged for key in trial.settings))
        return [
            {"trial": trial.number, f"valid/{self.metric}": trial.value, "seconds": round(trial.seconds, 1)}
            | {key.split(".", 1)[1]: _told(trial.settings.get(key)) for key in keys}
            | {"ended": "cut short" if trial.cut_short else ""}
            for trial in judged[:most]
        ]

    def to_json(self) -> Table:
        best = self.best
        return {
            "recipe": self.recipe,
            "metric": self.metric,
            "finished": self.finished,
            "best": best.number if best else None,
            "run": str(self.folder / "best") if best else None,
            "trials": [asdict(trial) for trial in self.trials],
        }


def tune(
    name: str,
    data: str = "",
    seconds: float = 300.0,
    trials: int = 0,
    seed: int = 0,
    space: Space | None = None,
    changes: Table | None = None,
    out: str | Path | None = None,
    keep: bool = False,
    quiet: bool = False,
) -> Tuning:
    """Searches for `seconds` (and at most `trials`, where given), then trains the best to its end."""
    if seconds <= 0 or not math.isfinite(seconds):
        raise CanonError(f"--seconds must be a positive number, got {seconds:g}.")
    changes = changes or {}
    recipe = recipes.load(name, data, changes)
    # Of two settings for one thing (steps and epochs) both are given by one.
    given = {*changes, *(EITHER[key] for key in EITHER if key in changes)}
    wanted = {key: value for key, value in {**space_of(recipe), **(space or {})}.items() if key not in given}
    check_space(wanted, name, data, changes)
    metric = _metric(recipe)
    folder = Path(out) if out is not None else Path("runs") / f"tune-{recipe.name.split('/')[-1].replace(':', '-')}"
    found = _taken_up(folder, name, metric, metric in TASKS[recipe.system.task].rising)
    search = _Search(found, name, data, changes, wanted, seconds, seed, keep, quiet)
    search.run(trials)
    search.finish()
    return found


def space_of(recipe: Recipe) -> Space:
    """What the system's record declares; of a network that declares nothing, its learning rate."""
    if recipe.system.space:
        return recipe.system.space
    if recipe.system.loop != "gradient":
        raise CanonError(f"{recipe.system.name} declares nothing to tune; name settings with --try system.KEY=a,b.")
    rate = recipe.optimizer.settings.lr
    return {"optimizer.lr": Range(rate / 30, rate * 30)}


def check_space(space: Space, name: str, data: str, changes: Table) -> None:
    """Every end of it must be a setting that the recipe takes."""
    if not space:
        raise CanonError("There is nothing left to tune: every setting of the space is given by --set.")
    for key, values in space.items():
        for value in (values.low, values.high) if isinstance(values, Range) else values:
            recipes.load(name, data, {**changes, key: value})


def parse_space(text: str) -> tuple[str, Range | tuple[Any, ...]]:
    """`system.lr=0.01..1` to a range, `system.dim=10,50,100` to choices."""
    key, equals, value = text.partition("=")
    low, dots, high = value.partition("..")
    try:
        if equals and dots:
            ends = parse_assignment(f"{key}={low}")[1], parse_assignment(f"{key}={high}")[1]
            if all(type(end) in (int, float) for end in ends) and 0 < ends[0] < ends[1]:
                return key.strip(), Range(*ends)
        elif equals and value:
            return key.strip(), tuple(parse_assignment(f"{key}={part}")[1] for part in value.split(","))
    except CanonError:
        pass
    raise CanonError(f'--try takes key=low..high or key=a,b,c, as in --try system.lr=0.01..1; got "{text}".')


def draw(space: Space, seed: int, number: int) -> Table:
    """The settings of a trial: each a function of the seed, the trial's number and the setting's name."""
    found: Table = {}
    for key, values in space.items():
        # RandomState, since numpy promises its stream for ever; one for each setting, so that others do not matter.
        keyed = np.array([seed & 0xFFFFFFFF, number, *key.encode()], dtype=np.uint32)
        share = float(np.random.RandomState(keyed).random_sample())
        if not isinstance(values, Range):
            found[key] = values[int(share * len(values))]
        elif isinstance(values.low, int):
            drawn = math.exp(math.log(values.low) + share * (math.log(values.high + 1) - math.log(values.low)))
            found[key] = min(int(drawn), int(values.high))
        else:
            drawn = math.exp(math.log(values.low) + share * (math.log(values.high) - math.log(values.low)))
            found[key] = float(f"{drawn:.4g}")
    return found


class _Search:
    def __init__(
        self,
        found: Tuning,
        name: str,
        data: str,
        changes: Table,
        space: Space,
        seconds: float,
        seed: int,
        keep: bool,
        quiet: bool,
    ) -> None:
        self.found, self.name, self.data, self.changes = found, name, data, changes
        self.space, self.seconds, self.seed, self.keep, self.quiet = space, seconds, seed, keep, quiet

    def run(self, most: int) -> None:
        """Trials until the time is over or there are as many as asked for."""
        self._write()  # so that a search that is stopped in its first trial is known again
        spent = sum(trial.seconds for trial in self.found.trials)
        number = len(self.found.trials)
        while (not most or number < most) and (spent < self.seconds or not number):
            number += 1
            settings = {} if number == 1 else draw(self.space, self.seed, number)
            trial = Trial(number, settings, run=str(self._place(number)))
            self._carry_out(trial, self.seconds - spent)
            spent += trial.seconds
            before = self.found.best
            self.found.trials.append(trial)
            self._tell(trial)
            self._forget(before, trial)
            self._write()

    def _place(self, number: int) -> Path:
        return self.found.folder / f"trial-{number:03d}"

    def _carry_out(self, trial: Trial, left: float) -> None:
        path, begun = Path(trial.run), time.perf_counter()
        share = max(min(self.seconds / _SHARE, left), _LEAST_SECONDS)
        wished = recipes.load(self.name, self.data, self.changes).train.seconds
        changes = {**self.changes, **trial.settings, "train.seconds": float(min(share, wished or share))}
        try:
            if path.exists():  # the search was stopped in the midst of it
                shutil.rmtree(path)
            run = train(self.name, self.data, path, changes=changes, quiet=True)
        except CanonError as mistake:
            if trial.number == 1:  # the recipe itself cannot be carried out
                raise
            trial.ended = str(mistake)
        else:
            self._judge(trial, run)
        trial.seconds = round(time.perf_counter() - begun, 3)

    def _judge(self, trial: Trial, run: Run) -> None:
        result = run.result or {}
        trial.scores, trial.ended = result["scores"]["valid"], result["ended"]
        trial.value = trial.scores.get(self.found.metric)
        if trial.value is None:
            trial.ended = f"{self.found.metric} is undefined for its validation set: choose another by train.monitor."

    def _forget(self, before: Trial | None, trial: Trial) -> None:
        """Removes the weights of the one that is not the best."""
        best = self.found.best
        if best is not None:
            point(self.found.folder / "best", Path(best.run))
        loser = before if best is trial else trial
        if loser is not None and not self.keep:
            for link in ("best", "last"):
                (Path(loser.run) / link).unlink(missing_ok=True)
            shutil.rmtree(Path(loser.run) / "checkpoints", ignore_errors=True)

    def finish(self) -> None:
        """The best, trained to the end of its own budget, with a report."""
        best = self.found.best
        if best is None:
            raise CanonError(f"No trial in {self.found.folder} could be judged: {self.found.trials[-1].ended}")
        if best.cut_short:
            self._say(f"Training trial {best.number} to its end.")
            longer = {"train.seconds": _WITHOUT_END}
            run = train(self.name, self.data, Path(best.run), resume=True, changes=longer, quiet=True)
            self._judge(best, run)
        write_report(Run.open(best.run))
        self.found.finished = True
        self._write()

    def _write(self) -> None:
        record = json.dumps(self.found.to_json(), ensure_ascii=False, indent=1)
        write_text(self.found.folder / "tune.json", record)

    def _tell(self, trial: Trial) -> None:
        if trial.value is None:
            self._say(f"[{trial.number}] failed: {trial.ended}")
            return
        told = " ".join(f"{key}={_told(value)}" for key, value in trial.settings.items()) or "the recipe as it stands"
        best = "  best so far" if self.found.best is trial else ""
        short = ", cut short" if trial.cut_short else ""
        head = f"[{trial.number}] {self.found.metric} {trial.value:.4f}  {trial.seconds:.1f} s{short}"
        self._say(f"{head}  {told}{best}")

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def _metric(recipe: Recipe) -> str:
    """What decides; there must be a validation set to decide by."""
    task = TASKS[recipe.system.task]
    read = read_data(recipe)
    if "valid" not in read.splits:
        raise CanonError(f"{read.name} has no validation set to choose by: give data.valid a share or a file.")
    return recipe.train.monitor or task.monitor


def _taken_up(folder: Path, name: str, metric: str, rising: bool) -> Tuning:
    """The search that `folder` holds, without a trial that was not finished; or a new one."""
    file = folder / "tune.json"
    if not file.is_file():
        if folder.exists() and any(folder.iterdir()):
            raise CanonError(f"{folder} holds something else than a search: give another --out.")
        return Tuning(folder, name, metric, rising, [])
    again = "remove it to search again"
    stored = files.read(file, _RECORD, again)
    if (stored["recipe"], stored["metric"]) != (name, metric):
        was = f"{stored['recipe']} by {stored['metric']}"
        raise CanonError(f"{folder} holds a search for {was}, not for {name} by {metric}: give another --out.")
    with border(file, f"is damaged, {again}"):
        return Tuning(folder, name, metric, rising, [Trial(**row) for row in stored["trials"]])


def _told(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
