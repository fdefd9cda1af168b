"""A full disk at every single write of every verb that writes: the folder is as it was, and one sentence says why.

The n-th call that creates, writes, syncs, links or renames below the folder fails as on a full disk, for n = 1, 2, …
until the command has no n-th one. Writes fail by the system's own /dev/full.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canon.errors import CanonError
from canon.interop import vision
from tests.hostile import small

_CALLS = ("open", "fsync", "replace", "rename", "mkdir", "link", "symlink")


class Disk:
    """Counts what is written below a folder; the n-th write fails."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.failing, self.calls = folder, 0, 0
        for name in _CALLS:
            patch.setattr(os, name, self._guarded(getattr(os, name), name))
        opened = self._opening(io.open)
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)

    def fails(self) -> bool:
        self.calls += 1
        return self.calls == self.failing

    def _is_below(self, path: Any) -> bool:
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        return Path(os.path.realpath(path)).is_relative_to(self.folder)

    def _guarded(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            places = [path, *rest[:1]] if name in ("replace", "rename", "link") else [path]
            counted = rest[0] if name == "symlink" else path
            is_read = name == "open" and not (rest and rest[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if not is_read and any(map(self._is_below, [counted, *places])) and self.fails():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            return real(path, *rest, **named)

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            written = not isinstance(path, int) and set(mode) & set("wax+") and self._is_below(path)
            if written and self.fails():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            file = real(path, mode, *rest, **named)
            if written and self.fails():
                full = os.open("/dev/full", os.O_WRONLY)
                os.dup2(full, file.fileno())
                os.close(full)
            return file

        return call


# The command without its output, the option or argument that names it, the files that it writes.
VERBS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "generate": (("generate", "ring", "--count", "5", "--out", "{}.csv"), ("{}.csv",)),
    "tokenizer": (("tokenizer", "train", "text.txt", "--kind", "word", "--out", "{}.json"), ("{}.json",)),
    "translate": (("translate", "pairs", "the cat", "--output", "{}.txt"), ("{}.txt",)),
    "plot": (("plot", "table", "--out", "{}.svg"), ("{}.svg",)),
    "describe": (("describe", "mlp:tiny", "--figure", "{}.png"), ("{}.png",)),
    "filters": (("inspect", "filters", "digits", "--out", "{}.pdf"), ("{}.pdf",)),
    "gradients": (("inspect", "gradients", "table", "--out", "{}.png"), ("{}.png",)),
    "attention": (
        ("inspect", "attention", "pairs", "the cat", "--out", "{}.png", "--json", "{}.json"),
        ("{}.png", "{}.json"),
    ),
    "importances": (("inspect", "importances", "order", "--out", "{}.png"), ("{}.png",)),
    "rank": (("rank", "order", "judged.letor", "--out", "{}.csv"), ("{}.csv",)),
    "recommend": (("recommend", "taste", "--user", "u1", "--out", "{}.jsonl"), ("{}.jsonl",)),
    "play": (("play", "agent", "--record", "{}.gif"), ("{}.gif",)),
    "features": (
        ("features", "documents.csv", "queries.tsv", "--out", "{}.txt"),
        ("{}.txt", "{}.features.txt"),
    ),
    "words to a run": (("convert", "vectors.txt", "{}", "--to", "canon"), ()),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.make(tmp_path_factory.mktemp("outputs") / "small")


@pytest.fixture
def world(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "world"
    shutil.copytree(made, folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("verb", "place"), [*((verb, "out") for verb in VERBS), ("generate", "new/deep/out"), ("words to a run", "new/out")]
)
def test_a_full_disk_at_every_write(
    verb: str, place: str, world: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, files = ([word.replace("{}", place) for word in words] for words in VERBS[verb])
    if place == "out":
        for name in files:
            Path(name).write_text("earlier")
    before = small.snapshot(world)
    with monkeypatch.context() as patch:
        disk = Disk(world, patch)
        while True:
            disk.failing, disk.calls = disk.failing + 1, 0
            code, _, err = canon(*command)
            if disk.calls < disk.failing:
                break
            if code == 0:  # what failed was no more than the syncing of a name: the result is there, and whole
                for name in files:
                    assert Path(name).read_bytes() != b"earlier"
                    Path(name).write_text("earlier") if place == "out" else None
                shutil.rmtree("new" if "new" in place else place, ignore_errors=True)
                before = small.snapshot(world)
                continue
            assert (code, err.count("\n")) == (2, 1), err
            assert err.startswith("canon: The disk is full: "), err
            assert small.snapshot(world) == before
    assert code == 0 and disk.failing > 3
    assert not list(world.rglob("*.writing*"))
    assert all(Path(name).read_bytes() != b"earlier" for name in files)


@pytest.mark.parametrize("ending", [".safetensors", ".pt"])
def test_a_full_disk_under_a_state_dict(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    target = tmp_path / f"weights{ending}"
    target.write_text("earlier")
    disk = Disk(tmp_path, monkeypatch)
    while True:
        disk.failing, disk.calls = disk.failing + 1, 0
        try:
            vision.write_tensors({"a": torch.ones(1000)}, target)
        except CanonError as refusal:
            assert str(refusal) == f"The disk is full: {target} cannot be written."
            assert target.read_text() == "earlier" and len(list(tmp_path.iterdir())) == 1
        if disk.calls < disk.failing:
            break
    assert disk.failing > 2 and target.stat().st_size > 4000
