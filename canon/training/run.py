"""The run directory: what training writes, and all that any later tool reads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from canon import recipe as recipes
from canon.config import Table
from canon.contracts import World
from canon.data.schema import LOST, Data, Schema
from canon.errors import CanonError, border
from canon.kernels import number
from canon.recipe import Recipe
from canon.runs import checkpoint, files
from canon.runs.checkpoint import Groups
from canon.storage import write_text, writing_folder
from canon.training.ownership import Ownership
from canon.training.world import name_of

EARLIER = Path("vocab") / "earlier.tsv"  # in a run of word vectors: the words of the run that it started from
_PACKAGES = ("deepcanon", "torch", "numpy", "safetensors", "scikit-learn")


class Run:
    """One run directory. Making the object reads nothing; `open` checks that it is one.

    path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in a folder; a CanonError if there is none.

        path: the folder.
        """
        path = Path(path)
        with border(path):
            if not path.exists():
                raise CanonError(f"There is no run {path}.")
            if not path.is_dir():
                raise CanonError(f"{path} is a file, not a run directory.")
            if not (path / "recipe.toml").is_file():
                raise CanonError(f"{path} is not a run: it has no recipe.toml.")
        return cls(path)

    @classmethod
    def create(
        cls,
        path: Path,
        recipe: Recipe,
        data: Data,
        earlier: str = "",
        start: tuple[Groups, Table] | None = None,
        ownership: Ownership | None = None,
        trained: bool = False,
        world: World | None = None,
    ) -> Run:
        """A new run directory with all that the run starts from, whole or absent.

        earlier: the words of the run of word vectors that it starts from. start: tensors and state of a learner that
        starts with more than its seed decides. ownership: takes the run before others see it. trained: whether
        the weights are used as they are. world: where it is trained."""
        vocab = data.schema.files() | ({EARLIER.name: earlier} if earlier else {})
        record = {**_data_record(data), "vocab": {name: files.digest(text) for name, text in vocab.items()}}
        with writing_folder(path) as part:
            if ownership is not None:
                ownership.take(part, path)
            run = cls(part)
            run.checkpoints.mkdir()
            (part / "vocab").mkdir()
            run.write_recipe(recipe)
            texts = {"data.json": files.sealed(record), "env.json": json.dumps(environment(world or World()), indent=1)}
            for name, text in {**texts, **{f"vocab/{name}": text for name, text in vocab.items()}}.items():
                (part / name).write_bytes(text.encode())  # the folder is synced as a whole
            if start is not None:
                tensors, learned = start
                first = checkpoint.save(run.checkpoints, 0, recipe.system.name, tensors, beginning(learned))
                if trained:
                    checkpoint.point(part / "last", first)
        return cls(path)

    def write_recipe(self, recipe: Recipe) -> None:
        """Writes recipe.toml, with the hash by which edits are noticed."""
        write_text(self.path / "recipe.toml", files.sealed_lines(recipe.to_toml()))

    @cached_property
    def recipe(self) -> Recipe:
        """The settings that the run was trained with, each with where it came from."""
        self.read_recipe()
        return recipes.load(str(self.path / "recipe.toml"))

    @property
    def settings(self) -> Table:
        """recipe.toml as a table."""
        with border(self.path / "recipe.toml", "is not valid TOML"):
            return tomllib.loads(self.read_recipe())

    def read_recipe(self) -> str:
        """recipe.toml, if it is as it was written."""
        file = self.path / "recipe.toml"
        with border(file):
            text = file.read_bytes().decode()
        if not files.is_as_sealed(text):
            raise CanonError(
                f"{file} is not as canon wrote it: undo the change. What may change in a run is set by --resume "
                f"--set; for other settings train a copy: canon train COPY.toml --out NAME."
            )
        return text

    @cached_property
    def schema(self) -> Schema:
        """How the data was encoded: columns, classes, vocabularies; what reading new data needs."""
        return Schema.open(self.path / "vocab")

    @property
    def data(self) -> Table:
        """data.json: files with their hashes, sizes of the splits, how they were made."""
        return files.read(self.path / "data.json", files.DATA, LOST)

    @property
    def env(self) -> Table:
        """env.json: versions, processor, threads, device and git state of the training."""
        return files.read(self.path / "env.json", {}, "write {} into it to do without what it said about the machine")

    @property
    def result(self) -> Table | None:
        """What the finished run reached; None while it is not finished."""
        path = self.path / "result.json"
        again = f"remove it, and canon train {self.path} --resume writes it again"
        return files.read(path, files.RESULT, again) if path.is_file() else None

    def metrics(self) -> list[dict[str, float]]:
        """The rows of metrics.jsonl: losses and scores, each with its step."""
        return self._rows("metrics.jsonl")

    def timings(self) -> list[dict[str, float]]:
        """The rows of timing.jsonl: seconds, rate and memory, each with its step."""
        return self._rows("timing.jsonl")

    def _rows(self, name: str) -> list[dict[str, float]]:
        rows, are_all = files.rows(self.path / name)
        if not are_all:
            raise CanonError(
                f"{self.path / name}, line {len(rows) + 1} is damaged: remove {self.path / 'result.json'}, and canon "
                f"train {self.path} --resume goes on from a checkpoint before that line."
            )
        return rows

    def best(self) -> Path:
        """The checkpoint to use: the best one, or the newest where none was evaluated."""
        path = next(self.to_use(), None)
        if path is None:
            raise CanonError(f"{self.path} has no checkpoint yet: train it first.")
        return path

    def to_use(self) -> Iterator[Path]:
        """All checkpoints, the best one first, then the newest."""
        linked = [checkpoint.linked(self.path / link, self.checkpoints).resolve() for link in ("best", "last")]
        newest = [path.resolve() for path in checkpoint.newest_first(self.checkpoints) if checkpoint.step_of(path)]
        for path in dict.fromkeys((*linked, *newest)):
            if path.is_dir():
                yield path

    def check_same_data(self, data: Data) -> None:
        """Refuses data that is not what the run began with."""
        before = self.data
        if before["fingerprint"] == data.fingerprint():
            return
        old = {record["name"]: record["sha256"] for record in before["files"]}
        new = {record.name: record.sha256 for record in data.files}
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        what = f"{', '.join(changed)} changed" if changed else "the data or its split changed"
        raise CanonError(f"{what} since {self.path} began: restore it, or train again with another --out.")


def defined(scores: dict[str, float]) -> dict[str, float]:
    """Without the metrics that are undefined for these rows, such as r² of a single one; a loss is kept."""
    return {name: value for name, value in scores.items() if name == "loss" or math.isfinite(value)}


def beginning(learned: Table) -> Table:
    """The state of a run at step 0."""
    return {
        "step": 0,
        "best": {},
        "waited": 0,
        "valid": {},
        "seconds": 0.0,
        "metrics_bytes": 0,
        "metrics_sha256": hashlib.sha256().hexdigest(),
        "ended": "",
        "due": False,
        "learner": learned,
    }


def environment(world: World) -> dict[str, Any]:
    """Versions, machine and git state, for env.json."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "packages": packages,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": number.threads(),
        "device": name_of(world),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "git": _git_state(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git_state() -> str:
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _data_record(data: Data) -> dict[str, Any]:
    sizes = {name: len(next(iter(columns.values()))) for name, columns in data.splits.items()}
    return {
        "name": data.name,
        "fingerprint": data.fingerprint(),
        "examples": sizes,
        "files": [asdict(record) for record in data.files],
        "protocol": data.protocol,
        "notes": list(data.notes),
    }
