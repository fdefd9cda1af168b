"""The outer loop that all learners share: budget, logs, evaluation, early stopping, checkpoints, signals, exact resume.

Order within a step: learn, log, evaluate, checkpoint. A checkpoint holds everything up to its step, and says how many
bytes of metrics.jsonl belong to it, so that killed at any moment and resumed equals never killed.
What is learned from is the learner's affair: the trainer knows the splits that are scored, and asks them for sizes.
"""

from __future__ import annotations

import tomllib
import traceback
from pathlib import Path

from canon.config import Table
from canon.contracts import World
from canon.data.schema import Data, check_vocabulary, num_examples, some
from canon.errors import CanonError, Unforeseen, sentence
from canon.recipe import Recipe
from canon.runs import files
from canon.storage import cannot_write, write_bytes, write_text
from canon.training import results
from canon.training.console import Console
from canon.training.curves import Curves
from canon.training.data import earlier_words, read_data
from canon.training.devices import enter_world, leave_world, reset_peak_memory
from canon.training.keeping import Keeper
from canon.training.origin import start_from_elsewhere
from canon.training.ownership import Ownership
from canon.training.pace import Pace
from canon.training.plan import floors_of, plan, prepare
from canon.training.run import Run, beginning, defined
from canon.training.signals import Interrupted, Signals, Stopped
from canon.training.update import NonFinite

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
        self.signals = Signals(world)
        # One process looks, so that all of them see the same.
        self._exists = bool(world.total([float(world.is_main and path.exists())])[0])
        if self._exists:
            self._take_up()
        self.data = read_data(recipe, path if self._exists else None)
        prepared = prepare(recipe, self.data, world, self.signals.check)
        self.recipe, self.size, self.total = prepared.recipe, prepared.size, prepared.total
        self.learner, self.task, self.monitor = prepared.learner, prepared.task, prepared.monitor
        recipe = self.recipe
        # Whatever is wrong with the settings shows before the run directory is made.
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
                raise CanonError(f"{mishap} at step {self.step + 1}; {self.keeper.last_good()}") from None
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
            self.keeper.check_finished()
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
            raise Interrupted(
                self.signals.number,
                f"Stopped at step {self.step:,}; everything is saved. Go on with: canon train {self.run.path} --resume",
            ) from None
        self.world.wait()  # nobody leaves while another still writes

    def _introduce(self) -> None:
        say, recipe, data = self.console.say, self.recipe, self.data
        sizes = ", ".join(f"{num_examples(columns):,} {name}" for name, columns in data.splits.items())
        say(f"{recipe.system.title} ({recipe.system_name}) on {data.name}: {sizes}.")
        replaced = [f"{key} of the recipe is {origin}." for key, origin in recipe.replaced.items()]
        for note in (*data.notes, *replaced, *filter(None, [self._origin])):
            say(note)
        processes = f", {self.world.size} processes" if self.world.size > 1 else ""
        unit = "examples" if self.size else self.learner.unit[1]
        say(f"{self.total:,} steps of {recipe.train.batch:,} {unit} on {self.world.device}{processes}.")
        for name, loss in floors_of(self.task, data).items():
            say(f"A guess by {name} has loss {loss:.4f}.")

    def _resume(self) -> int:
        """Takes up the last valid checkpoint; returns the bytes of metrics.jsonl that belong to it."""
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
        """Writes a changed budget into the run; what was its end is the end no more."""
        self.ended = ""
        if self.world.is_main:
            (self.run.path / "result.json").unlink(missing_ok=True)
            self.run.write_recipe(self.recipe)
        self.world.wait()

    def open_files(self, metrics_bytes: int) -> None:
        """Opens what is written to while training, cut back to the checkpoint it goes on from."""
        if self.world.is_main:
            self._curves = Curves(self.run.path, self.step, metrics_bytes, self.recipe.train.tensorboard)

    def start_clock(self) -> None:
        self._pace = Pace(self.learner, self.recipe.train.batch, self.world, self.step, self.seconds)

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
                self.console.paint(self.step, self._pace.text(self.step))

    def _agreed(self, wish: bool) -> bool:
        """Whether any process wishes so; asked only now and then, at steps that all of them reach."""
        if self.world.size == 1:
            return wish
        return self.step % _AGREE_EVERY == 0 and self.world.total([float(wish)])[0] > 0

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

    def _log(self) -> None:
        logs = self.learner.logs()
        if not self.world.is_main:
            return
        epoch = {"epoch": round(self.step * self.recipe.train.batch / self.size, 6)} if self.size else {}
        self._curves.write({"step": self.step, **epoch, **{f"train/{key}": value for key, value in logs.items()}})
        self._curves.write_timing(self._pace.timing(self.step))
        self._logged = logs

    def _evaluate(self) -> bool:
        """Scores the validation set, if there is one, and says how the run stands; True if this is the best so far."""
        better = False
        if "valid" in self.data.splits:
            self._valid = self.evaluate("valid", shown=True)
            value = self._valid.get(self.monitor)  # None: undefined for this validation set
            sign = 1 if self.monitor in self.task.rising else -1
            # Small validation sets tie often; of equals the one with the lower loss is better.
            rank = [0.0 if value is None else sign * value, -self._valid.get("loss", 0.0)]
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

    def evaluate(self, split: str, limit: int | None = None, shown: bool = False) -> dict[str, float]:
        """The metrics that are defined for a split; Stopped where a signal comes in the midst of it."""
        self.signals.check()
        columns = self.data.splits[split]
        if limit is not None:
            columns = some(columns, limit)
        outputs = self.learner.outputs(columns)
        if shown and self.world.is_main:
            for name, png in self.task.pictures(outputs, columns).items():
                write_bytes(self.run.path / name / f"step-{self.step:08d}.png", png)
            self._samples = self.task.samples(outputs, columns)
        return defined(self.task.score(outputs, columns))

    def _checkpoint(self) -> None:
        tensors, learned = self.learner.tensors(), self.learner.state()
        self.seconds = self._pace.seconds()
        if not self.world.is_main:
            return
        state = {
            "step": self.step,
            "best": self.best,
            "waited": self.waited,
            "valid": self._valid,
            "seconds": self.seconds,
            **self._curves.mark(),
            "ended": self.ended,
            "due": self._due,
            "learner": learned,
        }
        self.keeper.save(tensors, state, self.recipe.train.keep)

    # ---- the end

    def _finish(self) -> None:
        """Scores the best weights on all splits and writes result.json."""
        self.seconds = self._pace.seconds()
        self.world.wait()  # until the main process has written them
        best = self.keeper.restore_best(self.learner)
        self.task.final = True
        most = self.task.risk_examples
        scores = {split: self.evaluate(split, most if split == "train" else None) for split in self.data.splits}
        penalty = self.learner.penalty()
        if not self.world.is_main:
            return
        reached = {"steps": self.step, "best_step": best, "ended": self.ended or "all steps done"}
        cost = self._pace.cost(self.step, self.seconds)
        result = results.record(self.recipe, self.data, self.task, scores, penalty, reached, cost)
        write_text(self.run.path / "result.json", files.sealed(result))
        ended = f" ({self.ended})" if self.ended else ""
        self.console.say(f"Done in {self.seconds:.1f} s{ended}: {self._pace.text(self.step)}.")
        for line in results.lines(result):
            self.console.say(line)
