"""Checkpoints that are whole or absent: written beside, synced, renamed, and hashed in a manifest.

A checkpoint is a folder step-00001000/ with one .safetensors file per group of tensors ("model", "optimizer"),
state.json, and manifest.json (the system it belongs to, size and sha256 of the other files). Tensors and JSON only:
nothing is pickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from canon.errors import CanonError
from canon.training.learner import Tensors

_SLACK = 1 << 20  # bytes left free beside a checkpoint: for logs, and for the file system's own records


def save(folder: Path, step: int, system: str, tensors: dict[str, Tensors], state: dict[str, Any]) -> Path:
    """Writes checkpoint `step` below `folder`; a full disk is a CanonError and leaves the others untouched."""
    final = folder / f"step-{step:08d}"
    files = {f"{name}.safetensors": dump_tensors(_storable(group)) for name, group in tensors.items()}
    files["state.json"] = json.dumps(state, indent=1).encode()
    records = {name: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for name, b in files.items()}
    files["manifest.json"] = json.dumps({"system": system, "step": step, "files": records}, indent=1).encode()
    needed = sum(map(len, files.values())) + _SLACK
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _disk_full(folder, f"needs {needed >> 20} MB and {free >> 20} MB are free")
    temporary = folder / f".writing-{step:08d}"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        for name, content in files.items():
            write_synced(temporary / name, content)
        sync_folder(temporary)
        if final.exists():  # the same step again, after falling back past an invalid checkpoint
            shutil.rmtree(final)
        temporary.rename(final)
        sync_folder(folder)
    except OSError as failure:
        shutil.rmtree(temporary, ignore_errors=True)
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(folder, "did not fit") from None
        raise
    return final


def load(path: Path, system: str, groups: tuple[str, ...] = ()) -> tuple[dict[str, Tensors], dict[str, Any]]:
    """The tensors (of `groups`, or all) and state of a checkpoint, checked against its manifest."""
    manifest = _read_manifest(path)
    if manifest["system"] != system:
        raise CanonError(f"{path} is a checkpoint of {manifest['system']}, not of {system}.")
    wanted = [f"{group}.safetensors" for group in groups] or [n for n in manifest["files"] if n != "state.json"]
    content = {name: _read_checked(path / name, manifest["files"][name]) for name in [*wanted, "state.json"]}
    try:
        tensors = {name.removesuffix(".safetensors"): load_tensors(content[name]) for name in wanted}
    except SafetensorError as damage:
        raise Damaged(f"{path} holds a file that is not safetensors: {damage}") from None
    return tensors, json.loads(content["state.json"])


class Damaged(CanonError):
    """A checkpoint that is incomplete or not what its manifest says."""


def last_valid(folder: Path, tell: Callable[[str], None]) -> Path | None:
    """The newest checkpoint whose files are all as its manifest says; says so when it must pass one over."""
    for path in newest_first(folder):
        try:
            verify(path)
            return path
        except Damaged as damage:
            tell(f"{damage} Falling back to the one before.")
    return None


def verify(path: Path) -> None:
    for name, record in _read_manifest(path)["files"].items():
        _read_checked(path / name, record)


def newest_first(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("step-*"), reverse=True)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def prune(folder: Path, keep: int, spare: set[str]) -> None:
    """Removes all but the `keep` newest checkpoints and those named in `spare`, and what killed writers left."""
    for path in list(newest_first(folder))[keep:]:
        if path.name not in spare:
            # Renamed first, so that a half-removed folder is never taken for a checkpoint.
            doomed = path.rename(folder / f".removing-{path.name}")
            shutil.rmtree(doomed, ignore_errors=True)
    for leftover in [*folder.glob(".removing-*"), *folder.glob(".writing-*")]:
        shutil.rmtree(leftover, ignore_errors=True)


def write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, content: str) -> None:
    """Replaces a small file as a whole, or not at all."""
    temporary = path.with_name(f".{path.name}.writing")
    write_synced(temporary, content.encode())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def point(link: Path, target: Path) -> None:
    """Makes `link` a relative symbolic link to `target`, replacing an old one in one step."""
    if link.is_symlink() and link.readlink() == target.relative_to(link.parent):
        return
    temporary = link.with_name(f".{link.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.relative_to(link.parent))
    temporary.replace(link)


def _storable(group: Tensors) -> Tensors:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in group.items()}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        return {"system": manifest["system"], "files": dict(manifest["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise Damaged(f"{path} has no readable manifest.json.") from None


def _read_checked(path: Path, record: dict[str, Any]) -> bytes:
    try:
        content = path.read_bytes()
    except OSError:
        raise Damaged(f"{path} is missing.") from None
    if len(content) != record["bytes"]:
        raise Damaged(f"{path} has {len(content)} bytes where {record['bytes']} were written.")
    if hashlib.sha256(content).hexdigest() != record["sha256"]:
        raise Damaged(f"{path} is not what was written (its sha256 differs).")
    return content


def _disk_full(folder: Path, why: str) -> CanonError:
    kept = next(newest_first(folder), None)
    last = f"the last one, {kept.name}, is intact" if kept else "there is none yet"
    return CanonError(f"The disk is full: a checkpoint in {folder} {why}; {last}. Free some room and use --resume.")
