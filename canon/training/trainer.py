"""The outer loop that all learners share: budget, logs, evaluation, early stopping, checkpoints, signals, exact resume.

Order within a step: learn, log, evaluate, checkpoint. A checkpoint holds everything up to its step, and says how many
bytes of metrics.jsonl belong to it, so that killed at any moment and resumed equals never killed.
metrics.jsonl holds only what the run decides; what the clock decides (rates, memory) goes to timing.jsonl.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from canon.config import Table
from canon.data.corpus import Corpus
from canon.data.loader import steps_per_epoch
from canon.data.schema import Columns, Data, num_examples
from canon.data.sequences import Windows, num_tokens
from canon.errors import CanonError, unknown
from canon.interop import huggingface
from canon.interop.weights import read_tensors, start_from
from canon.recipe import Recipe
from canon.training import checkpoint
from canon.training.console import Console
from canon.training.devices import World, enter_world, leave_world, peak_memory, peak_rate, reset_peak_memory
from canon.training.gradient import Gradient, NonFinite
from canon.training.plan import EARLIER, build, earlier_words, floors_of, plan, read_data
from canon.training.run import Run, cannot_write

_AGREE_EVERY = 10  # steps between the processes' asking each other whether to stop


class Interrupted(Exception):
    """The user or the system asked to stop; everything is saved."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


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
    try:
        trainer = Trainer(recipe, path, world, quiet)
        return trainer.fit(), trainer.data
    finally:
        leave_world()


class Trainer:
    def __init__(self, recipe: Recipe, path: Path, world: World, quiet: bool = False) -> None:
        self.world = world
        self.path = path
        self.data = read_data(recipe, path)
        self.size = num_examples(self.data.splits["train"])
        # An existing run has its intervals worked out already.
        steps = steps_per_epoch(self.data.splits["train"], recipe.train.batch, recipe.train.tokens)
        recipe = recipe.fitted({**self.data.schema.sizes(), "num_examples": self.size}).resolved(self.size, steps)
        self.recipe = recipe
        self.total = self.recipe.total_steps(self.size)
        if self.recipe.train.batch < world.size:
            raise CanonError(f"train.batch is {self.recipe.train.batch}, less than the {world.size} processes.")
        self.learner, self.task = build(self.recipe, self.data.schema, world)
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
        self._origin = "" if path.exists() else self._start_from(recipe.train.init, recipe.train.embeddings)
        self.learner.begin(self.data.splits["train"], recipe.train.seed, recipe.train.batch, self.total)
        self.run = self._enter()
        self.console = Console(self.run.path / "log.txt" if world.is_main else None, world.is_main and not quiet)
        self.step = 0
        self.best: dict[str, Any] = {}
        self.waited = 0  # evaluations since the best one
        self.seconds = 0.0  # of training, over all sittings
        self._signal = 0
        self._told: dict[str, float] = {}  # the newest numbers of training
        self._valid: dict[str, float] = {}  # and of validation
        self._samples: list[str] = []  # and what the network makes of some examples

    def _start_from(self, weights: str, embeddings: str) -> str:
        """Takes what was learned elsewhere for whatever part of the network it fits; says which."""
        told: list[str] = []
        if isinstance(self.learner, Gradient) and weights and "tokens" in self.recipe.system.inputs:
            from canon.interop.backbones import take_backbone

            told.append(take_backbone(self.learner.network, weights))
        elif isinstance(self.learner, Gradient) and weights:
            if huggingface.is_folder(weights):
                own = self.data.schema.tokenizers.get("text")
                tensors, notes = huggingface.tensors_to_start_from(weights, self.recipe.config, own)
                told += notes
            else:
                tensors = read_tensors(weights)
            taken, anew = start_from(self.learner.network, tensors, weights)
            rest = f"; made anew: {', '.join(anew)}" if anew else ""
            told.append(f"Started from {weights}: {len(taken)} tensors taken{rest}.")
        elif weights:
            from canon.interop.word_weights import adopt

            told.append(adopt(self.learner, self.recipe.system.name, self.data.schema.words, weights))
        if embeddings:
            from canon.interop.word_weights import fill_embeddings

            network = getattr(self.learner, "network", None)
            told.append(fill_embeddings(network, self.data.schema.tokenizers, embeddings, self.recipe.system.name))
        return " ".join(told)

    def _enter(self) -> Run:
        """The run directory: made by the main process, or checked to be of the same data."""
        exists = self.path.exists()
        self.world.wait()  # until all have looked whether it is there
        if exists:
            run = Run.open(self.path)
            run.check_same_data(self.data)
        elif self.world.is_main:
            run = Run.create(self.path, self.recipe, self.data)
            if (earlier := earlier_words(self.recipe, None)) is not None:
                checkpoint.write_atomic(self.path / EARLIER, earlier.to_text())
        self.world.wait()
        return Run(self.path)

    def fit(self) -> Run:
        with self.console, self._signals():
            try:
                self._fit()
            except OSError as failure:
                raise cannot_write(self.run.path, failure) from failure
            except NonFinite as mishap:
                raise CanonError(f"{mishap} at step {self.step + 1}; {self._last_good()}") from None
        return self.run

    def _fit(self) -> None:
        self._introduce()
        offset = self._resume()
        self._take_new_budget()
        if self.run.result:
            self.console.say(f"{self.run.path} is finished; nothing is left to do.")
            return
        self.open_files(offset)
        self.start_clock()
        self.console.start(self.total, self.step)
        self._finish(self._loop())
        self.world.wait()  # nobody leaves while another still writes

    def _take_new_budget(self) -> None:
        """Writes a changed budget into the run; what was its end is the end no more."""
        effective, file = self.recipe.to_toml(), self.run.path / "recipe.toml"
        if self.world.is_main and file.read_text(encoding="utf-8") != effective:
            (self.run.path / "result.json").unlink(missing_ok=True)
            checkpoint.write_atomic(file, effective)
        self.world.wait()

    def open_files(self, metrics_bytes: int) -> None:
        """Opens what is written to while training, cut back to the checkpoint it goes on from."""
        if self.world.is_main:
            self._metrics = _open_truncated(self.run.path / "metrics.jsonl", metrics_bytes)
            self._timing = _keep_lines(self.run.path / "timing.jsonl", self.step)
            self._board = self._tensorboard()

    def start_clock(self) -> None:
        # The share of the device's best rate that one example per second takes.
        peak = peak_rate(self.world.device)
        self._share = getattr(self.learner, "flops_per_example", 0) / peak if peak else 0.0
        self._unit = _unit(self.data.splits["train"])
        self._first, self._before = self.step, self.seconds
        self._begun = time.perf_counter()

    def _loop(self) -> str:
        """Steps until the budget is used up or something ends it sooner; says what."""
        train, batch = self.recipe.train, self.recipe.train.batch
        step, learner, due = self.step, self.learner, self.console.due
        reason = self._out_of_patience()
        while step < self.total and not reason:
            more = learner.step(step + 1)
            step += 1
            self.step = step
            if not more:
                reason = "nothing is left to learn"
            elif train.seconds and self._agreed(step, self._elapsed() >= train.seconds):
                reason = "train.seconds are over"
            last = step == self.total or bool(reason)
            if last or step % train.log_every == 0:
                self._log(step * batch / self.size)
            better = False
            if last or step % train.evaluate_every == 0:
                better = self._evaluate()
                reason = reason or self._out_of_patience()
            # A signal changes nothing but that a checkpoint is made here: the run goes on later as if it had not come.
            stopped = self._told_to_stop(step)
            if better or last or reason or stopped or step % train.checkpoint_every == 0:
                self._checkpoint()
            if stopped:
                raise Interrupted(self._signal, self._farewell())
            if due():
                self.console.paint(step, self._pace())
        return reason

    def _out_of_patience(self) -> str:
        patience = self.recipe.train.patience
        return f"no better {self.monitor} in {patience} evaluations" if patience and self.waited >= patience else ""

    def _introduce(self) -> None:
        say, recipe, data = self.console.say, self.recipe, self.data
        sizes = ", ".join(f"{num_examples(columns):,} {name}" for name, columns in data.splits.items())
        say(f"{recipe.system.title} ({recipe.system_name}) on {data.name}: {sizes}.")
        for note in (*data.notes, *filter(None, [self._origin])):
            say(note)
        processes = f", {self.world.size} processes" if self.world.size > 1 else ""
        say(f"{self.total:,} steps of {recipe.train.batch:,} examples on {self.world.device}{processes}.")
        for name, loss in floors_of(self.task, data).items():
            say(f"A guess by {name} has loss {loss:.4f}.")

    def _resume(self) -> int:
        """Takes up the last valid checkpoint, if there is one; returns the bytes of metrics.jsonl that belong to it."""
        found = checkpoint.last_valid(self.run.checkpoints, self.console.say)
        if found is None:
            return 0
        tensors, state = checkpoint.load(found, self.recipe.system.name)
        self.learner.restore(tensors, state["learner"])
        self.step, self.best, self.waited = state["step"], state["best"], state["waited"]
        self.seconds, self._valid = state["seconds"], state["valid"]
        if self.world.is_main:
            self._link(found)
        self.console.say(f"Resumed from step {self.step:,}.")
        return state["metrics_bytes"]

    def _log(self, epoch: float) -> None:
        logs = self.learner.logs()
        elapsed = self._elapsed()
        if not self.world.is_main:
            return
        row = {"step": self.step, "epoch": round(epoch, 6), **{f"train/{key}": value for key, value in logs.items()}}
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
            value = self._valid[self.monitor]
            sign = 1 if self.monitor in self.task.rising else -1
            # Small validation sets tie often; of equals the one with the lower loss is better.
            rank = [sign * value, -self._valid["loss"]]
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
        columns = self.data.splits[split]
        if limit is not None and num_examples(columns) > limit:
            columns = _some(columns, limit)
        outputs = self.learner.outputs(columns)
        if shown and self.world.is_main:
            for name, png in self.task.pictures(outputs, columns).items():
                (self.run.path / name).mkdir(exist_ok=True)
                (self.run.path / name / f"step-{self.step:08d}.png").write_bytes(png)
            self._samples = self.task.samples(outputs, columns)
        return self.task.score(outputs, columns)

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
            "learner": learned,
        }
        path = checkpoint.save(self.run.checkpoints, self.step, self.recipe.system.name, tensors, state)
        self._link(path)

    def _link(self, last: Path) -> None:
        checkpoint.point(self.run.path / "last", last)
        best = self.run.checkpoints / f"step-{int(self.best.get('step', -1)):08d}"
        if best.is_dir():
            checkpoint.point(self.run.path / "best", best)
        checkpoint.prune(self.run.checkpoints, self.recipe.train.keep, {best.name})

    def _finish(self, reason: str) -> None:
        """Scores the best weights on all splits and writes result.json."""
        self.seconds = self._elapsed()
        best = self.run.best() if self.world.is_main or self.world.size == 1 else None
        self.world.wait()
        best = best or self.run.best()
        tensors, state = checkpoint.load(best, self.recipe.system.name)
        self.learner.restore(tensors, state["learner"])
        self.task.final = True
        most = self.task.risk_examples
        scores = {split: self.evaluate(split, most if split == "train" else None) for split in self.data.splits}
        penalty = getattr(self.learner, "penalty", lambda: 0.0)()
        if not self.world.is_main:
            return
        risk = {"empirical": scores["train"]["loss"], "structural": scores["train"]["loss"] + penalty}
        if "test" in scores:
            risk["generalization"] = scores["test"]["loss"]
        expected = {key: value for key, value in self.recipe.expected().items() if key != "curve"}
        result = {
            "recipe": self.recipe.name,
            "system": self.recipe.system_name,
            "seed": self.recipe.train.seed,
            "steps": self.step,
            "best_step": checkpoint.step_of(best),
            "ended": reason or "all steps done",
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
        checkpoint.write_atomic(self.run.path / "result.json", json.dumps(result, ensure_ascii=False, indent=1))
        self._tell_result(scores, expected, reason)

    def _tell_result(self, scores: dict[str, dict[str, float]], expected: Table, reason: str) -> None:
        ended = f" ({reason})" if reason else ""
        self.console.say(f"Done in {self.seconds:.1f} s{ended}: {self._pace()}.")
        for split, found in scores.items():
            told = []
            for key, number in found.items():
                told.append(f"{key} {number:.4f}{_beside(expected.get(f'{split}/{key}'))}")
            self.console.say(f"{split:>5}  {'  '.join(told)}")
        for remark in self.task.remarks:
            self.console.say(remark)

    def _write(self, row: dict[str, Any]) -> None:
        self._metrics.write(json.dumps(row) + "\n")
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

    def _told_to_stop(self, step: int) -> bool:
        if self.world.size == 1:
            return bool(self._signal)
        if step % _AGREE_EVERY:
            return False
        agreed = self.world.total([float(self._signal), float(bool(self._signal))])
        if agreed[1]:
            self._signal = int(agreed[0] / agreed[1])
        return bool(agreed[1])

    def _agreed(self, step: int, wish: bool) -> bool:
        """Whether any process wishes so; asked only now and then, at steps that all of them reach."""
        if self.world.size == 1:
            return wish
        return step % _AGREE_EVERY == 0 and self.world.total([float(wish)])[0] > 0

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM finish the step and save; a second Ctrl-C stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, _frame: object) -> None:
            if self._signal:
                raise KeyboardInterrupt
            self._signal = number

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _farewell(self) -> str:
        return f"Stopped at step {self.step:,}; everything is saved. Go on with: canon train {self.run.path} --resume"

    def _last_good(self) -> str:
        found = checkpoint.last_valid(self.run.checkpoints, self.console.say)
        if found is None:
            return "there is no checkpoint yet. Lower optimizer.lr or set train.clip."
        return f"the last good checkpoint is {found.name}. Lower optimizer.lr, set train.clip, or train.nonfinite=skip."


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
    """The timing file, without lines after `step` and without a line that was cut off."""
    kept = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except ValueError:
                break
    checkpoint.write_atomic(path, "".join(kept))
    return path.open("a", encoding="utf-8")
