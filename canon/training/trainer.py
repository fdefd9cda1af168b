"""The outer loop that all learners share: budget, logs, evaluation, early stopping, checkpoints, signals, exact resume.

Order within a step: learn, log, evaluate, checkpoint. A checkpoint holds everything up to its step, and says how many
bytes of metrics.jsonl belong to it, so that killed at any moment and resumed equals never killed.
metrics.jsonl holds only what the run decides; what the clock decides (rates, memory) goes to timing.jsonl.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import tomllib
import traceback
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from canon.config import Table
from canon.data.batching.loader import steps_per_epoch
from canon.data.batching.sequences import Windows, num_tokens
from canon.data.corpus.corpus import Corpus
from canon.data.schema import Columns, Data, check_vocabulary, num_examples
from canon.errors import CanonError, Unforeseen, sentence, unknown
from canon.recipe import Recipe
from canon.runs import checkpoint, files
from canon.storage import cannot_write, write_bytes, write_text
from canon.training.console import Console
from canon.training.devices import World, enter_world, leave_world, peak_memory, peak_rate, reset_peak_memory
from canon.training.gradient import Gradient, NonFinite
from canon.training.origin import start_from_elsewhere
from canon.training.ownership import Ownership
from canon.training.plan import build, earlier_words, floors_of, plan, read_data
from canon.training.run import Run, beginning, defined
from canon.training.signals import Interrupted, Signals, Stopped

_AGREE_EVERY = 10  # steps between the processes' asking each other whether to stop


def train(
    name: str = "",
    data: str = "",
    out: str | Path | None = None,
    resume: bool = False,
    changes: Table | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a recipe to its end, or goes on with a run; returns the run."""
    return train_and_keep(name, data, out, resume, changes, quiet)[0]


def train_and_keep(
    name: str, data: str, out: str | Path | None, resume: bool, changes: Table | None, quiet: bool
) -> tuple[Run, Data]:
    """`train`, which also returns the data that was read, for a report to be made of it without reading it again."""
    recipe, path = plan(name, data, out, resume, changes or {})
    world = enter_world(recipe.train)
    reset_peak_memory(world.device)
    ownership = Ownership()
    try:
        trainer = Trainer(recipe, path, world, quiet, ownership)
        return trainer.fit(), trainer.data
    finally:
        ownership.release()
        leave_world()


class Trainer:
    def __init__(
        self, recipe: Recipe, path: Path, world: World, quiet: bool = False, ownership: Ownership | None = None
    ) -> None:
        self.world = world
        self.run = Run(path)
        self.ownership = ownership or Ownership()
        # One process looks, so that all of them see the same.
        self._exists = bool(world.total([float(world.is_main and path.exists())])[0])
        if self._exists:
            self._take_up()
        self.data = read_data(recipe, path if self._exists else None)
        self.size = num_examples(self.data.splits["train"])
        # An existing run has its intervals worked out already.
        steps = steps_per_epoch(self.data.splits["train"], recipe.train.batch, recipe.train.tokens)
        recipe = recipe.fitted({**self.data.schema.sizes(), "num_examples": self.size}).resolved(self.size, steps)
        self.recipe = recipe
        self.total = self.recipe.total_steps(self.size)
        self.learner, self.task = build(self.recipe, self.data.schema, world)
        if self.task.carries and self.recipe.train.batch < world.size:
            raise CanonError(f"train.batch is {self.recipe.train.batch}, less than the {world.size} processes.")
        if not recipe.train.monitor and self.task.monitor != type(self.task).monitor:  # for want of labels
            self.recipe = recipe = recipe.with_monitor(self.task.monitor)
        for split, columns in self.data.splits.items():
            if (few := num_examples(columns)) < self.task.least:
                raise CanonError(
                    f"{recipe.system.name} is scored on {self.task.least} examples at least, but the {split} split of "
                    f"{self.data.name} has {few}; give more data, or another data.{split}."
                )
        self.monitor = self.recipe.train.monitor or self.task.monitor
        if self.monitor not in self.task.names():
            raise unknown("metric (train.monitor)", self.monitor, self.task.names())
        # Whatever is wrong with the settings shows before the run directory is made.
        self._origin = "" if self._exists else start_from_elsewhere(self.learner, recipe, self.data.schema)
        self.learner.begin(self.data.splits["train"], recipe.train.seed, recipe.train.batch, self.total)
        if self._exists:
            self.run.check_same_data(self.data)
        else:
            self._create()
        self.console = Console(self.run.path / "log.txt" if world.is_main else None, world.is_main and not quiet)
        self.signals = Signals(world)
        if isinstance(self.learner, Gradient):
            self.learner.pause = self.signals.check
        self._take_state(beginning({}))
        self._told: dict[str, float] = {}  # the newest numbers of training
        self._samples: list[str] = []  # what the network makes of some examples

    def _take_state(self, state: Table) -> None:
        self.step: int = state["step"]
        self.best: Table = state["best"]
        self.waited: int = state["waited"]  # evaluations since the best one
        self.seconds: float = state["seconds"]  # of training, over all sittings
        self.ended: str = state.get("ended", "")  # why training came to its end before its last step
        self._due: bool = state.get("due", False)  # whether the evaluation of this step is still to be made
        self._valid: dict[str, float] = state["valid"]  # the newest numbers of validation

    def _take_up(self) -> None:
        """An existing run: owned by this process before anything of it is used, and as it was written."""
        if self.world.is_main:
            try:
                self.ownership.take(self.run.path)
            except OSError as failure:
                raise cannot_write(self.run.path, failure) from None
        check_vocabulary(self.run.path)

    def _create(self) -> None:
        """The run directory, with what the run starts from; made by the main process."""
        start = (self.learner.tensors(), self.learner.state()) if self._origin else None
        if self.world.is_main:
            earlier = earlier_words(self.recipe, None)
            text = earlier.to_text() if earlier is not None else ""
            Run.create(self.run.path, self.recipe, self.data, text, start, self.ownership)
        self.world.wait()

    def fit(self) -> Run:
        with self.console, self.signals:
            try:
                self._fit()
            except OSError as failure:
                raise cannot_write(self.run.path, failure) from failure
            except NonFinite as mishap:
                raise CanonError(f"{mishap} at step {self.step + 1}; {self._last_good()}") from None
            except Exception as error:
                if not self.world.is_main or isinstance(error, Interrupted) or sentence(error):
                    raise
                self.console.log("".join(traceback.format_exception(error)))
                raise Unforeseen(self.run.path / "log.txt") from error
            finally:
                self.ownership.release()
        return self.run

    def _fit(self) -> None:
        self._introduce()
        changed = self._exists and tomllib.loads(self.recipe.to_toml()) != self.run.settings
        if not changed and self.run.result is not None:
            self._check_finished()
            self.console.say(f"{self.run.path} is finished; nothing is left to do.")
            return
        offset = self._resume() if self._exists else 0
        if changed:
            self._take_new_budget()
        self.open_files(offset)
        self.start_clock()
        self.console.start(self.total, self.step)
        try:
            self._loop()
            self._finish()
        except Stopped:
            raise Interrupted(self.signals.number, self._farewell()) from None
        self.world.wait()  # nobody leaves while another still writes

    def _check_finished(self) -> None:
        """Refuses a finished run whose weights are lost or damaged."""
        again = f"remove {self.run.path / 'result.json'} and use --resume again to train on from what is left"
        try:
            checkpoint.verify(self.run.best())
            for link in ("best", "last"):
                checkpoint.verify((self.run.path / link).resolve())
        except CanonError as damage:
            raise CanonError(f"{self.run.path} is finished, but {str(damage).rstrip('.')}; {again}.") from None

    def _take_new_budget(self) -> None:
        """Writes a changed budget into the run; what was its end is the end no more."""
        self.ended = ""
        if self.world.is_main:
            (self.run.path / "result.json").unlink(missing_ok=True)
            self.run.write_recipe(self.recipe)
        self.world.wait()

    def open_files(self, metrics_bytes: int) -> None:
        """Opens what is written to while training, cut back to the checkpoint it goes on from."""
        if self.world.is_main:
            self._metrics = _open_truncated(self.run.path / "metrics.jsonl", metrics_bytes)
            self._digest = hashlib.sha256((self.run.path / "metrics.jsonl").read_bytes())
            self._timing = _keep_lines(self.run.path / "timing.jsonl", self.step)
            self._board = self._tensorboard()

    def start_clock(self) -> None:
        # The share of the device's best rate that one example per second takes.
        peak = peak_rate(self.world.device)
        self._share = getattr(self.learner, "flops_per_example", 0) / peak if peak else 0.0
        self._unit = _unit(self.data.splits["train"])
        self._first, self._before = self.step, self.seconds
        self._begun = time.perf_counter()

    def _loop(self) -> None:
        """Steps until the budget is used up or something ends it sooner."""
        train, learner, due = self.recipe.train, self.learner, self.console.due
        self.ended = self.ended or self._out_of_patience()
        if self._due:
            self._conclude(self.step == self.total or bool(self.ended))
        while self.step < self.total and not self.ended:
            more = learner.step(self.step + 1)
            self.step += 1
            if not more:
                self.ended = "nothing is left to learn"
            elif train.seconds and self._agreed(self._elapsed() >= train.seconds):
                self.ended = "train.seconds are over"
            last = self.step == self.total or bool(self.ended)
            if last or self.step % train.log_every == 0:
                self._log()
            self._conclude(last)
            if due():
                self.console.paint(self.step, self._pace())

    def _conclude(self, last: bool) -> None:
        """Evaluates after a step and makes a checkpoint, where they are due."""
        train, step = self.recipe.train, self.step
        better = False
        if self._due or last or step % train.evaluate_every == 0:
            self._due = True
            try:
                better = self._evaluate()
            except Stopped:
                self._checkpoint()
                raise
            self._due = False
            self.ended = self.ended or self._out_of_patience()
        # A signal changes nothing but that a checkpoint is made here: the run goes on later as if it had not come.
        stopped = (self.world.size == 1 or step % _AGREE_EVERY == 0) and self.signals.came()
        if better or last or self.ended or stopped or step % train.checkpoint_every == 0:
            self._checkpoint()
        if stopped:
            raise Stopped

    def _out_of_patience(self) -> str:
        patience = self.recipe.train.patience
        return f"no better {self.monitor} in {patience} evaluations" if patience and self.waited >= patience else ""

    def _introduce(self) -> None:
        say, recipe, data = self.console.say, self.recipe, self.data
        sizes = ", ".join(f"{num_examples(columns):,} {name}" for name, columns in data.splits.items())
        say(f"{recipe.system.title} ({recipe.system_name}) on {data.name}: {sizes}.")
        replaced = [f"{key} of the recipe is {origin}." for key, origin in recipe.replaced.items()]
        for note in (*data.notes, *replaced, *filter(None, [self._origin])):
            say(note)
        processes = f", {self.world.size} processes" if self.world.size > 1 else ""
        say(f"{self.total:,} steps of {recipe.train.batch:,} examples on {self.world.device}{processes}.")
        for name, loss in floors_of(self.task, data).items():
            say(f"A guess by {name} has loss {loss:.4f}.")

    def _resume(self) -> int:
        """Takes up the last valid checkpoint; returns the bytes of metrics.jsonl that belong to it."""
        say, warn, metrics = self.console.say, self.console.warn, self.run.path / "metrics.jsonl"
        content = metrics.read_bytes() if metrics.is_file() else b""
        for path, tensors, state in checkpoint.whole(self.run.checkpoints, self.recipe.system.name, warn):
            digest = hashlib.sha256(content[: state["metrics_bytes"]]).hexdigest()
            if state.get("metrics_sha256", digest) != digest:  # earlier versions did not record it
                warn(f"{metrics} is not as it was when {path.name} was made. Falling back to the one before.")
                continue
            self.learner.restore(tensors, state["learner"])
            self._take_state(state)
            if self.world.is_main and self.step:
                self._link(path)
            say(f"Resumed from step {self.step:,}.")
            return int(state["metrics_bytes"])
        if self.recipe.train.init or self.recipe.train.embeddings:
            raise CanonError(
                f"{self.run.checkpoints} has no whole checkpoint, not even of what {self.run.path} started from: train "
                "again with another --out."
            )
        say(f"{self.run.checkpoints} has no whole checkpoint: the run starts over.")
        return 0

    def _log(self) -> None:
        logs = self.learner.logs()
        elapsed = self._elapsed()
        if not self.world.is_main:
            return
        epoch = round(self.step * self.recipe.train.batch / self.size, 6)
        row = {"step": self.step, "epoch": epoch, **{f"train/{key}": value for key, value in logs.items()}}
        self._write(row)
        rate = self._rate()
        timing = {"step": self.step, "seconds": round(elapsed, 3), "examples_per_second": round(rate, 1)}
        timing |= {"share_of_peak": rate * self._share, "memory_bytes": peak_memory(self.world.device)}
        self._timing.write(json.dumps(timing) + "\n")
        self._timing.flush()
        self._told = logs

    def _evaluate(self) -> bool:
        """Scores the validation set, if there is one, and says how the run stands; True if this is the best so far."""
        better = False
        if "valid" in self.data.splits:
            self._valid = self.evaluate("valid", shown=True)
            value = self._valid.get(self.monitor)  # None: undefined for this validation set
            sign = 1 if self.monitor in self.task.rising else -1
            # Small validation sets tie often; of equals the one with the lower loss is better.
            rank = [0.0 if value is None else sign * value, -self._valid["loss"]]
            better = not self.best or rank > self.best["rank"]
            self.waited = 0 if better else self.waited + 1
            if better:
                self.best = {"value": value, "rank": rank, "step": self.step}
            if self.world.is_main:
                self._write({"step": self.step, **{f"valid/{key}": number for key, number in self._valid.items()}})
        if self.world.is_main:
            self._say_standing()
        return better

    def _say_standing(self) -> None:
        """The newest numbers, each beside what the recipe is known to have at this step."""
        curve = self.recipe.expected().get("curve", {})
        known = {name: bounds for name, points in curve.items() for step, *bounds in points if step == self.step}
        numbers = {f"train/{key}": value for key, value in self._told.items() if key != "lr"}
        numbers |= {f"valid/{key}": value for key, value in self._valid.items()}
        told = [f"{key} {value:.4f}{_beside(known.get(key))}" for key, value in numbers.items()]
        if told:
            self.console.say(f"step {self.step:,}  {'  '.join(told)}")
        for line in self._samples:
            self.console.say(line)

    def evaluate(self, split: str, limit: int | None = None, shown: bool = False) -> dict[str, float]:
        """The metrics that are defined for a split; Stopped where a signal comes in the midst of it."""
        self.signals.check()
        columns = self.data.splits[split]
        if limit is not None and num_examples(columns) > limit:
            columns = _some(columns, limit)
        outputs = self.learner.outputs(columns)
        if shown and self.world.is_main:
            for name, png in self.task.pictures(outputs, columns).items():
                write_bytes(self.run.path / name / f"step-{self.step:08d}.png", png)
            self._samples = self.task.samples(outputs, columns)
        return defined(self.task.score(outputs, columns))

    def _checkpoint(self) -> None:
        tensors, learned = self.learner.tensors(), self.learner.state()
        self.seconds = self._elapsed()
        if not self.world.is_main:
            return
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        state = {
            "step": self.step,
            "best": self.best,
            "waited": self.waited,
            "valid": self._valid,
            "seconds": self.seconds,
            "metrics_bytes": self._metrics.tell(),
            "metrics_sha256": self._digest.hexdigest(),
            "ended": self.ended,
            "due": self._due,
            "learner": learned,
        }
        folder = self.run.checkpoints
        self._link(checkpoint.save(folder, self.step, self.recipe.system.name, tensors, state))
        checkpoint.prune(folder, self.step, self.recipe.train.keep, {int(self.best.get("step", 0))})

    def _link(self, last: Path) -> None:
        checkpoint.point(self.run.path / "last", last)
        best = checkpoint.path_of(self.run.checkpoints, int(self.best.get("step", -1)))
        if best.is_dir():
            checkpoint.point(self.run.path / "best", best)

    def _restore_best(self) -> int:
        """Takes the best weights that are whole; returns their step."""
        for path in self.run.to_use():
            try:
                tensors, state = checkpoint.load(path, self.recipe.system.name, groups=("model",))
            except checkpoint.Damaged as damage:
                self.console.warn(f"{damage} Other weights are scored in their place.")
                continue
            self.learner.restore(tensors, state["learner"])
            return checkpoint.step_of(path)
        raise CanonError(f"{self.run.checkpoints} has no whole checkpoint to score: use --resume.")

    def _finish(self) -> None:
        """Scores the best weights on all splits and writes result.json."""
        self.seconds = self._elapsed()
        self.world.wait()  # until the main process has written them
        best = self._restore_best()
        self.task.final = True
        most = self.task.risk_examples
        found = {split: self.evaluate(split, most if split == "train" else None) for split in self.data.splits}
        penalty = getattr(self.learner, "penalty", lambda: 0.0)()
        if not self.world.is_main:
            return
        # What is undefined for one split only (as AUC of a single class) is None there.
        names = dict.fromkeys(name for of in found.values() for name in of)
        scores = {split: {name: of.get(name) for name in names} for split, of in found.items()}
        risk = {"empirical": found["train"]["loss"], "structural": found["train"]["loss"] + penalty}
        if "test" in found:
            risk["generalization"] = found["test"]["loss"]
        expected = {key: value for key, value in self.recipe.expected().items() if key != "curve"}
        result = {
            "recipe": self.recipe.name,
            "system": self.recipe.system_name,
            "seed": self.recipe.train.seed,
            "steps": self.step,
            "best_step": best,
            "ended": self.ended or "all steps done",
            "scores": scores,
            "remarks": list(self.task.remarks),
            "risk": risk,
            "expected": expected,
            "protocol": {"data": self.data.fingerprint(), **self.data.protocol},
            "cost": {
                "seconds": round(self.seconds, 3),
                "examples": self.step * self.recipe.train.batch,
                "examples_per_second": round(self._rate(), 1),
                "parameters": self.learner.num_parameters,
                "memory_bytes": peak_memory(self.world.device),
                "device": str(self.world.device.type),
                "processes": self.world.size,
            },
        }
        write_text(self.run.path / "result.json", files.sealed(result))
        self._say_result(scores, expected)

    def _say_result(self, scores: dict[str, dict[str, float | None]], expected: Table) -> None:
        ended = f" ({self.ended})" if self.ended else ""
        self.console.say(f"Done in {self.seconds:.1f} s{ended}: {self._pace()}.")
        for split, found in scores.items():
            told = []
            for key, number in found.items():
                value = "–" if number is None else f"{number:.4f}"
                told.append(f"{key} {value}{_beside(expected.get(f'{split}/{key}'))}")
            self.console.say(f"{split:>5}  {'  '.join(told)}")
        for remark in self.task.remarks:
            self.console.say(remark)

    def _write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row) + "\n"
        self._digest.update(line.encode())
        self._metrics.write(line)
        self._metrics.flush()
        if self._board is not None:
            for key, value in row.items():
                if key not in ("step", "epoch"):
                    self._board.add_scalar(key, value, self.step)

    def _tensorboard(self) -> Any:
        if not self.recipe.train.tensorboard:
            return None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise CanonError("train.tensorboard needs the package tensorboard: pip install tensorboard.") from None
        return SummaryWriter(str(self.run.path / "tensorboard"), purge_step=self.step + 1)

    def _elapsed(self) -> float:
        return self._before + time.perf_counter() - self._begun

    def _rate(self) -> float:
        """Examples per second in this sitting."""
        done = (self.step - self._first) * self.recipe.train.batch
        return done / max(time.perf_counter() - self._begun, 1e-9)

    def _pace(self) -> str:
        """Examples per second, or tokens or words where they are made of those; share of the device's peak; memory."""
        rate = self._rate()
        parts, unit = self._unit
        share = f", {rate * self._share:.1%} of peak" if self._share else ""
        return f"{rate * parts:,.0f} {unit}/s{share}, {peak_memory(self.world.device) / 2**20:,.0f} MB"

    def _agreed(self, wish: bool) -> bool:
        """Whether any process wishes so; asked only now and then, at steps that all of them reach."""
        if self.world.size == 1:
            return wish
        return self.step % _AGREE_EVERY == 0 and self.world.total([float(wish)])[0] > 0

    def _farewell(self) -> str:
        return f"Stopped at step {self.step:,}; everything is saved. Go on with: canon train {self.run.path} --resume"

    def _last_good(self) -> str:
        found = next(checkpoint.whole(self.run.checkpoints, self.recipe.system.name, self.console.warn), None)
        if found is None:
            return "there is no checkpoint yet. Lower optimizer.lr or set train.clip."
        return (
            f"the last good checkpoint is {found[0].name}. Lower optimizer.lr, set train.clip, or train.nonfinite=skip."
        )


def _beside(bounds: list[float] | None) -> str:
    return f" (expected {bounds[0]:.4g}–{bounds[1]:.4g})" if bounds else ""


def _some(columns: Columns, limit: int) -> Columns:
    """So many rows from all over a split, whose order may mean something; of a running text its beginning."""
    running = isinstance(columns["input"], Windows | Corpus)
    index = np.arange(limit) if running else np.linspace(0, num_examples(columns) - 1, limit).astype(np.int64)
    return {name: c[index] if isinstance(c, np.ndarray) else c.take(index) for name, c in columns.items()}


def _unit(columns: Columns) -> tuple[float, str]:
    """What is counted per second, and how many of them an example has."""
    size = num_examples(columns)
    if tokens := num_tokens(columns.get("target", columns["input"])):
        return tokens / size, "tokens"
    if words := getattr(columns["input"], "num_words", 0):
        return words / size, "words"
    return 1.0, "examples"


def _open_truncated(path: Path, size: int) -> TextIO:
    """The file cut to its first `size` bytes, open at its end."""
    file = path.open("a", encoding="utf-8")
    file.truncate(size)
    file.seek(0, os.SEEK_END)
    return file


def _keep_lines(path: Path, step: int) -> TextIO:
    """The timing file, without lines after `step` and without what follows a damaged one."""
    kept = [row for row in files.rows(path)[0] if row["step"] <= step]
    write_text(path, "".join(json.dumps(row) + "\n" for row in kept))
    return path.open("a", encoding="utf-8")
