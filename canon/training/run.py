"""The run directory: what training leaves behind, and all that any later tool reads."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from canon import recipe as recipes
from canon.data.schema import Data, Schema
from canon.errors import CanonError
from canon.recipe import Recipe
from canon.training import checkpoint
from canon.training.checkpoint import write_atomic

_PACKAGES = ("deepcanon", "torch", "numpy", "safetensors", "scikit-learn")


class Run:
    """One run directory. Making the object reads nothing; `open` checks that it is one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    @classmethod
    def open(cls, path: str | Path) -> Run:
        path = Path(path)
        if not path.exists():
            raise CanonError(f"There is no run {path}.")
        if not path.is_dir():
            raise CanonError(f"{path} is a file, not a run directory.")
        if not (path / "recipe.toml").is_file():
            raise CanonError(f"{path} is not a run: it has no recipe.toml.")
        return cls(path)

    @classmethod
    def create(cls, path: Path, recipe: Recipe, data: Data) -> Run:
        """A new run directory, whole or absent."""
        temporary = path.with_name(f".{path.name}.writing")
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            (temporary / "checkpoints").mkdir(parents=True)
            (temporary / "vocab").mkdir()
            write_atomic(temporary / "recipe.toml", recipe.to_toml())
            write_atomic(temporary / "data.json", json.dumps(_data_record(data), ensure_ascii=False, indent=1))
            write_atomic(temporary / "env.json", json.dumps(environment(), indent=1))
            for name, text in data.schema.files().items():
                write_atomic(temporary / "vocab" / name, text)
            temporary.rename(path)
        except OSError as failure:
            shutil.rmtree(temporary, ignore_errors=True)
            raise cannot_write(path, failure) from None
        return cls(path)

    @cached_property
    def recipe(self) -> Recipe:
        return recipes.load(str(self.path / "recipe.toml"))

    @cached_property
    def schema(self) -> Schema:
        return Schema.open(self.path / "vocab")

    @property
    def data(self) -> dict[str, Any]:
        return json.loads((self.path / "data.json").read_text(encoding="utf-8"))

    @property
    def env(self) -> dict[str, Any]:
        return json.loads((self.path / "env.json").read_text(encoding="utf-8"))

    @property
    def result(self) -> dict[str, Any] | None:
        """What the finished run reached; None while it is not finished."""
        path = self.path / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def metrics(self) -> list[dict[str, float]]:
        return self._lines("metrics.jsonl")

    def timings(self) -> list[dict[str, float]]:
        return self._lines("timing.jsonl")

    def _lines(self, name: str) -> list[dict[str, float]]:
        path = self.path / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def best(self) -> Path:
        """The checkpoint to use: the best one, or the newest where none was evaluated."""
        for link in ("best", "last"):
            if (self.path / link / "manifest.json").is_file():
                return (self.path / link).resolve()
        found = next(checkpoint.newest_first(self.checkpoints), None)
        if found is None:
            raise CanonError(f"{self.path} has no checkpoint yet: train it first.")
        return found

    def check_same_data(self, data: Data) -> None:
        """Refuses data that is not what the run began with."""
        before = self.data
        if before["fingerprint"] == data.fingerprint():
            return
        old = {record["name"]: record["sha256"] for record in before["files"]}
        new = {record.name: record.sha256 for record in data.files}
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        what = f"{', '.join(changed)} changed" if changed else "the data or its split changed"
        raise CanonError(f"{what} since {self.path} began: restore it, or train anew with another --out.")


def cannot_write(path: Path, failure: OSError) -> CanonError:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return CanonError(f"The disk is full: {path} cannot be written.")
    return CanonError(f"{path} cannot be written: {failure.strerror}.")


def environment() -> dict[str, Any]:
    """Versions, machine and git state, for env.json."""
    import torch

    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    cuda = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "packages": packages,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
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
