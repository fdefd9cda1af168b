"""The outer loop that all learners share: budget, logs, evaluation, early stopping, checkpoints, signals, exact resume.

Order within a step: learn, log, evaluate, checkpoint. A checkpoint holds everything up to its step, and says how many
bytes of metrics.jsonl belong to it, so that killed at any moment and resumed equals never killed.
The learner takes what it learns from out of the data; the trainer knows the splits that are scored.
"""

from __future__ import annotations

import math
import sys
import time
import tomllib
import traceback
from copy import deepcopy
from pathlib import Path

from canon.config import Table
from canon.contracts import NetworkLearner, World
from canon.data.schema import Data, check_vocabulary, num_examples, some
from canon.errors import CanonError, NonFinite, TooLarge, Unforeseen, sentence
from canon.metrics.records import is_rising
from canon.recipe import WORKED_OUT, Recipe
from canon.registry.recipes import time_of
from canon.runs import files
from canon.runs.checkpoint import Groups
from canon.storage import cannot_write, write_bytes, write_text
from canon.tasks.base import Decides, DrawsPictures, ShowsSamples
from canon.training import results
from canon.training.console import Console
from canon.training.curves import CurveFiles
from canon.training.data import earlier_words, read_data
from canon.training.keeping import Keeper
from canon.training.origin import start_from_elsewhere
from canon.training.ownership import Ownership
from canon.training.pace import Pace
from canon.training.plan import epoch_size, floors_of, plan, prepare, suggestions
from canon.training.run import Run, beginning, defined
from canon.training.signals import Interrupted, Signals, Stopped
from canon.training.world import enter_world, leave_world, reset_peak_memory

_SOONEST, _TIMES = 5.0, 10  # seconds between two checkpoints, and so many times as many as writing one takes
_LEAST_SCORED = 1000  # training examples that are scored, if there are so many
_UNDEFINED = -sys.float_info.max  # the rank of a score that is undefined: below all
_AGREE_EVERY = 10  # steps after which the processes ask each other whether to stop


def train(
    name: str = "",
    data: str = "",
    out: str | Path | None = None,
    resume: bool = False,
    changes: Table | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a recipe to its end, or resumes a run; returns the run."""
    return train_and_keep(name, data, out, resume, changes, quiet)[0]


def train_and_keep(
    name: str, data: str, out: str | Path | None, resume: bool, changes: Table | None, quiet: bool
) -> tuple[Run, Data]:
    """`train`, which also returns the data, so that a report need not read it again."""
    recipe, path = plan(name, data, out, resume, changes or {})
    world = enter_world(recipe.train, recipe.system)
    reset_peak_memory(world)
    ownership = Ownership()
    try:
        trainer = Trainer(recipe, path, world, quiet, ownership)
        return trainer.fit(), trainer.data
    finally:
        ownership.release()
        leave_world(world)


class Trainer:
    def __init__(
        self, recipe: Recipe, path: Path, world: World, quiet: bool = False, ownership: Ownership | None = None
    ) -> None:
        self.world = world
        self.run = Run(path)
        self.ownership = ownership or Ownership()
        self.signals = Signals(world)
        # One process looks, so that all of them see the same.
        self._exists = bool(world.total([float(world.is_main and path.exists())])[0])
        if self._exists:
            self._own()
        self.data = read_data(recipe, path if self._exists else None)
        recipe, self.learner, self.task = prepare(recipe, self.data, world, self._pause)
        self.recipe, self.size, self.monitor = recipe, epoch_size(self.data), recipe.train.monitor or self.task.monitor
        self.total = recipe.total_steps(self.size)
        # Mistakes in the settings show before the run directory is created.
        self._origin = "" if self._exists else start_from_elsewhere(self.learner, recipe, self.data.schema)
        self.learner.begin(self.data, recipe.train.batch, self.total)
        if self._exists:
            self.run.check_same_data(self.data)
        else:
            self._create()
        self.console = Console(self.run.path / "log.txt" if world.is_main else None, world.is_main and not quiet)
        self.keeper = Keeper(self.run, recipe.system.name, self.console.warn)
        self._take_state(beginning({}))
        self._logged: dict[str, float] = {}  # the newest numbers of training
        self._samples: list[str] = []  # lines about some examples
        self._held: tuple[Groups, Table] | None = None  # the best state, where it is not written yet
        self._written, self._cost = -math.inf, 0.0  # when the last checkpoint was, and how many seconds it took
        self._shortfall = ""  # what the task says about the last split, the test set, at the end

    def _take_state(self, state: Table) -> None:
        self.step: int = state["step"]
        self.best: Table = state["best"]
        self.waited: int = state["waited"]  # evaluations since the best one
        self.seconds: float = state["seconds"]  # of training, over all sittings
        self.ended: str = state.get("ended", "")  # why training ended before its last step
        self._due: bool = state.get("due", False)  # whether this step is still to be evaluated
        self._valid: dict[str, float] = state["valid"]  # the newest numbers of validation

    def _own(self) -> None:
        """Takes ownership of an existing run before anything of it is used, and checks that it is as it was written."""
        if self.world.is_main:
            try:
                self.ownership.take(self.run.path)
            except OSError as failure:
                raise cannot_write(self.run.path, failure) from None
        check_vocabulary(self.run.path)

    def _create(self) -> None:
        """The main process writes the run directory, with what the run starts from."""
        start = (self.learner.tensors(), self.learner.state()) if self._origin else None
        if self.world.is_main:
            earlier = earlier_words(self.recipe, None)
            text = earlier.to_text() if earlier is not None else ""
            Run.create(self.run.path, self.recipe, self.data, text, start, self.ownership, world=self.world)
        self.world.wait()

    def fit(self) -> Run:
        with self.console, self.signals:
            try:
                self._fit()
            except OSError as failure:
                raise cannot_write(self.run.path, failure) from failure
            except NonFinite as mishap:
                raise NonFinite(f"{mishap} at step {self.step + 1}; {self.keeper.last_good()}") from None
            except TooLarge as mishap:
                more = f" Continue with: canon train {self.run.path} --resume --set {mishap.setting}"
                raise CanonError(f"{mishap}{more if mishap.setting else ''}") from None
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
        # One process looks, since it is the one that then writes the change.
        looks = self._exists and self.world.is_main
        changed = looks and tomllib.loads(self.recipe.to_toml()) != self.run.settings
        changed = bool(self.world.total([float(changed)])[0])
        if not changed and self.run.result is not None:
            self.keeper.check_finished()
            self.console.say(f"{self.run.path} is finished; nothing is left to do.")
            return
        offset = self._resume() if self._exists else 0
        if changed:
            self._take_new_budget()
        if self.world.is_main:
            self._curves = CurveFiles(self.run.path, self.step, offset, self.recipe.train.tensorboard)
        self._pace = Pace(self.learner, self.recipe.train.batch, self.world, self.step, self.seconds)
        self.console.start(self.total, self.step)
        try:
            self._loop()
            self._finish()
        except Stopped:
            resume = f"canon train {self.run.path} --resume"
            message = f"Stopped at step {self.step:,}; everything is saved. Continue with: {resume}"
            raise Interrupted(self.signals.number, message) from None
        self.world.wait()  # nobody leaves while another still writes

    def _introduce(self) -> None:
        say, recipe, data = self.console.say, self.recipe, self.data
        if recipe.choice:
            say(recipe.choice)
        sizes = ", ".join(f"{num_examples(columns):,} {name}" for name, columns in data.splits.items())
        say(f"{recipe.system.title} ({recipe.system_name}) on {data.name}: {sizes}.")
        replaced = [f"{key} of the recipe is {origin}." for key, origin in recipe.replaced.items()]
        for note in (*data.notes, *replaced, *filter(None, [suggestions(recipe), self._origin])):
            say(note)
        processes = f", {self.world.size} processes" if self.world.size > 1 else ""
        unit = "examples" if self.size else self.learner.unit[1]
        say(f"{self.total:,} steps of {recipe.train.batch:,} {unit} on {self.world.place}{processes}.")
        if recipe.expected() and (known := time_of(recipe.name)):
            say(f"This recipe takes {known}, longer where other work shares the machine.")
        for name, loss in floors_of(self.task, data).items():
            say(f"A guess by {name} has loss {loss:.4f}.")

    def _resume(self) -> int:
        """Restores the last valid checkpoint; returns the bytes of metrics.jsonl that belong to it."""
        newest = self.keeper.newest()
        if newest is not None:
            path, tensors, state = newest
            self.learner.restore(tensors, state["learner"])
            self._take_state(state)
            if self.world.is_main and self.step:
                self.keeper.link(path, self.best)
            self.console.say(f"Resumed from step {self.step:,}.")
            return int(state["metrics_bytes"])
        if self.recipe.train.init or self.recipe.train.embeddings:
            raise CanonError(
                f"{self.run.checkpoints} has no whole checkpoint, not even of what {self.run.path} started from: train "
                "again with another --out."
            )
        self.console.say(f"{self.run.checkpoints} has no whole checkpoint: the run starts over.")
        return 0

    def _take_new_budget(self) -> None:
        """Writes a changed budget into the run, which is then not finished."""
        self.ended = ""
        if self.world.is_main:
            (self.run.path / "result.json").unlink(missing_ok=True)
            self.run.write_recipe(self.recipe)
        self.world.wait()

    # ---- the loop

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
            elif train.seconds and self._agreed(self._pace.seconds() >= train.seconds):
                self.ended = "train.seconds are over"
            last = self.step == self.total or bool(self.ended)
            if last or self.step % train.log_every == 0:
                self._log()
            self._conclude(last)
            if due():
                self.console.paint(self.step, self._pace.text(self._pace.recent(self.step)))

    def _agreed(self, wish: bool) -> bool:
        """Whether any process wishes so; asked only at some steps, which all of them reach."""
        if self.world.size == 1:
            return wish
        return self.step % _AGREE_EVERY == 0 and self.world.total([float(wish)])[0] > 0

    def _conclude(self, last: bool) -> None:
        """Evaluates after a step and writes a checkpoint, where they are due."""
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
        # A signal only causes a checkpoint here: a resumed run continues as if there had been no signal.
        stopped = (self.world.size == 1 or step % _AGREE_EVERY == 0) and self.signals.came()
        if last or self.ended or stopped:
            self._checkpoint()
        elif better or step % train.checkpoint_every == 0:
            if not self._is_soon():
                self._checkpoint()
            elif better:
                self._held = deepcopy(self._snapshot())
        if stopped:
            raise Stopped

    def _is_soon(self) -> bool:
        """Whether the last checkpoint is seconds old, or writing one now would take a tenth of the time since it: then
        the best weights wait in memory. A user's own checkpoint_every is kept to."""
        waits = time.perf_counter() - self._written < max(_SOONEST, _TIMES * self._cost)
        if self.recipe.origins.get("train.checkpoint_every") != WORKED_OUT:
            return False
        return self.world.total([float(self.world.is_main and waits)])[0] > 0

    def _out_of_patience(self) -> str:
        patience = self.recipe.train.patience
        return f"no better {self.monitor} in {patience} evaluations" if patience and self.waited >= patience else ""

    def _log(self) -> None:
        logs = self.learner.logs()
        if not self.world.is_main:
            return
        epoch = {"epoch": round(self.step * self.recipe.train.batch / self.size, 6)} if self.size else {}
        self._curves.write({"step": self.step, **epoch, **{f"train/{key}": value for key, value in logs.items()}})
        self._curves.write_timing(self._pace.timing(self.step))
        self._logged = logs

    def _evaluate(self) -> bool:
        """Scores the validation set, if there is one, and prints the newest numbers; True if it is the best so far."""
        better = False
        if "valid" in self.data.splits:
            self._valid = self.evaluate("valid", shown=True)
            value = self._valid.get(self.monitor)  # None: undefined for this validation set
            sign = 1 if is_rising(self.monitor) else -1
            # Small validation sets tie often; of equals the one with the lower loss is better.
            rank = [_UNDEFINED if value is None else sign * value, -self._valid.get("loss", 0.0)]
            better = not self.best or rank > self.best["rank"]
            self.waited = 0 if better else self.waited + 1
            if better:
                self.best = {"value": value, "rank": rank, "step": self.step}
            if self.world.is_main:
                self._curves.write({"step": self.step, **{f"valid/{key}": n for key, n in self._valid.items()}})
        if self.world.is_main:
            for line in (*results.standing(self.recipe, self.step, self._logged, self._valid), *self._samples):
                self.console.say(line)
        return better

    def evaluate(
        self, split: str, limit: int | None = None, shown: bool = False, judged: bool = False
    ) -> dict[str, float]:
        """The metrics that are defined for a split; raises Stopped where a signal comes meanwhile.

        judged: whether the run is compared with a guess by this split."""
        self._scored = split
        self._pause()
        columns = self.data.splits[split]
        if limit is not None:
            columns = some(columns, limit)
        outputs = self.learner.outputs(columns)
        if shown and self.world.is_main:
            if isinstance(self.task, DrawsPictures):
                for name, png in self.task.pictures(outputs, columns).items():
                    write_bytes(self.run.path / name / f"step-{self.step:08d}.png", png)
            if isinstance(self.task, ShowsSamples):
                self._samples = self.task.samples(outputs, columns)
        if judged:
            self._shortfall = self.task.shortfall(outputs, columns, self.data.splits.get("train", {}))
        return defined(self.task.score(outputs, columns))

    def _pause(self) -> None:
        """Called between the parts of an evaluation."""
        self.signals.check()
        if self.console.due():
            self.console.paint(self.step, f"evaluating {self._scored}")

    def _snapshot(self) -> tuple[Groups, Table]:
        """What a checkpoint of this moment holds; every process must call this."""
        tensors, learned = self.learner.tensors(), self.learner.state()
        self.seconds = self._pace.seconds()
        state = {
            "step": self.step,
            "best": self.best,
            "waited": self.waited,
            "valid": self._valid,
            "seconds": self.seconds,
            **(self._curves.mark() if self.world.is_main else {}),
            "ended": self.ended,
            "due": self._due,
            "learner": learned,
        }
        return tensors, state

    def _checkpoint(self) -> None:
        """Writes the state of this moment, and before it the best one, if that has been waiting."""
        now, held, self._held = self._snapshot(), self._held, None
        begun = time.perf_counter()
        best = [held] if held is not None and held[1]["step"] == self.best.get("step") else []
        for tensors, state in (*best, now):
            self.keeper.save(tensors, state, self.recipe.train.keep, self.world.is_main)
        self._written = time.perf_counter()
        self._cost = self._written - begun

    # ---- the end

    def _risk_examples(self) -> int:
        """How many training examples are scored at the end, at most. A short run on a large set learns from few of
        them: scoring the others would take longer than the run."""
        most = self.task.risk_examples
        if not isinstance(self.learner, NetworkLearner):
            return most
        return min(most, max(self.step * self.recipe.train.batch, _LEAST_SCORED))

    def _finish(self) -> None:
        """Scores the best weights on all splits and writes result.json."""
        self.seconds = self._pace.seconds()
        self.world.wait()  # until the main process has written them
        both = self.task.scores_last and "test" in self.data.splits and self.best.get("step", self.step) != self.step
        last = {"test": self.evaluate("test")} if both else {}
        best = self.keeper.restore_best(self.learner)
        self.learner.careful = True
        if isinstance(self.task, Decides) and "valid" in self.data.splits:
            self.task.decide(self.learner.outputs(self.data.splits["valid"]), self.data.splits["valid"])
        most = self._risk_examples()
        judged = next(reversed(self.data.splits), "")
        scores = {
            split: self.evaluate(split, most if split == "train" else None, judged=split == judged)
            for split in self.data.splits
        }
        penalty = self.learner.penalty()
        if not self.world.is_main:
            return
        reached = {"steps": self.step, "best_step": best, "ended": self.ended or "all steps done"}
        if "train" in self.data.splits:
            reached["risk_examples"] = min(most, num_examples(self.data.splits["train"]))
        cost = self._pace.cost(self.step, self.seconds)
        losses = [row["train/loss"] for row in self.run.metrics() if "train/loss" in row]
        warnings = results.warnings(self.recipe, self.task, self.data, self._shortfall, losses)
        result = results.record(self.recipe, self.data, self.task, scores, last, penalty, reached, cost, warnings)
        write_text(self.run.path / "result.json", files.sealed(result))
        ended = f" ({self.ended})" if self.ended else ""
        self.console.say(f"Done in {self.seconds:.1f} s{ended}: {self._pace.text(self._pace.rate(self.step))}.")
        for line in results.lines(result):
            self.console.say(line)
