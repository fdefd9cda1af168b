"""The checkpoints of a run as the trainer uses them: the newest whole one to resume from, the best one to score."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from canon.config import Table
from canon.contracts import Arrays, Learner
from canon.errors import CanonError
from canon.runs import checkpoint
from canon.runs.checkpoint import Groups
from canon.training.run import Run


class Keeper:
    """warn: called with a sentence where a checkpoint had to be passed over."""

    def __init__(self, run: Run, system: str, warn: Callable[[str], None]) -> None:
        self._run, self._system, self._warn = run, system, warn

    def newest(self) -> tuple[Path, dict[str, Arrays], Table] | None:
        """The newest whole checkpoint to whose step metrics.jsonl is as it was; None where there is none."""
        metrics = self._run.path / "metrics.jsonl"
        content = metrics.read_bytes() if metrics.is_file() else b""
        for path, tensors, state in checkpoint.whole(self._run.checkpoints, self._system, self._warn):
            digest = hashlib.sha256(content[: state["metrics_bytes"]]).hexdigest()
            if state.get("metrics_sha256", digest) == digest:  # earlier versions did not record it
                return path, tensors, state
            self._warn(f"{metrics} changed since {path.name} was written. Falling back to the checkpoint before it.")
        return None

    def save(self, tensors: Groups, state: Table, keep: int, is_main: bool) -> None:
        """Writes a checkpoint, points `best` and `last` to where they belong, and removes old ones. Shards are written
        by all processes, the rest by the main one."""
        folder, step, best = self._run.checkpoints, state["step"], state["best"]
        if checkpoint.in_pieces(tensors):
            path = checkpoint.save_together(folder, step, self._system, tensors, state if is_main else None)
        elif is_main:
            path = checkpoint.save(folder, step, self._system, tensors, state)
        if not is_main:
            return
        self.link(path, best)
        checkpoint.prune(folder, step, keep, {int(best.get("step", 0))})

    def link(self, last: Path, best: Table) -> None:
        checkpoint.point(self._run.path / "last", last)
        path = checkpoint.path_of(self._run.checkpoints, int(best.get("step", -1)))
        if path.is_dir():
            checkpoint.point(self._run.path / "best", path)

    def restore_best(self, learner: Learner) -> int:
        """Gives a learner the best weights that are whole; returns their step."""
        for path in self._run.to_use():
            try:
                tensors, state = checkpoint.load(path, self._system, groups=("model",))
            except checkpoint.Damaged as damage:
                self._warn(f"{damage} Other weights are scored in their place.")
                continue
            learner.restore(tensors, state["learner"])
            return checkpoint.step_of(path)
        raise CanonError(f"{self._run.checkpoints} has no whole checkpoint to score: use --resume.")

    def check_finished(self) -> None:
        """Refuses a finished run whose weights are lost or damaged."""
        path = self._run.path
        again = f"remove {path / 'result.json'} and use --resume again to train on from what is left"
        try:
            checkpoint.verify(self._run.best())
            for link in ("best", "last"):
                checkpoint.verify(checkpoint.linked(path / link, self._run.checkpoints))
        except CanonError as damage:
            raise CanonError(f"{path} is finished, but {str(damage).rstrip('.')}; {again}.") from None

    def last_good(self) -> str:
        """What to do after a step that was not finite."""
        last = next(checkpoint.whole(self._run.checkpoints, self._system, self._warn), None)
        if last is None:
            return "there is no checkpoint yet. Lower optimizer.lr or set train.clip."
        return (
            f"the last good checkpoint is {last[0].name}. Lower optimizer.lr, set train.clip, or train.nonfinite=skip."
        )
