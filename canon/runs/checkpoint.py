"""Checkpoints that are whole or absent: written beside, synced, renamed, and hashed in a manifest.

A checkpoint is a folder step-00001000/ with one .safetensors file per group of tensors ("model", "optimizer"),
state.json, and manifest.json (the system it belongs to, size and sha256 of the other files). Tensors and JSON only:
nothing is pickled. step-00000000 is what a run started from, if that is more than its seed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from canon.config import Table
from canon.errors import CanonError
from canon.runs import files
from canon.storage import parse_json, writing_folder

Tensors = dict[str, Tensor]
_SLACK = 1 << 20  # bytes left free beside a checkpoint: for logs and the file system


class Damaged(CanonError):
    """A checkpoint that is incomplete or differs from its manifest."""


def save(folder: Path, step: int, system: str, tensors: dict[str, Tensors], state: Table) -> Path:
    """Writes checkpoint `step` below `folder`; a full disk is a CanonError and leaves the others untouched."""
    final = path_of(folder, step)
    content = {f"{name}.safetensors": dump_tensors(_storable(group)) for name, group in tensors.items()}
    content["state.json"] = json.dumps(state, indent=1).encode()
    records = {name: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for name, b in content.items()}
    content["manifest.json"] = files.sealed({"system": system, "step": step, "files": records}).encode()
    needed = sum(map(len, content.values())) + _SLACK
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _disk_full(folder, f"needs {needed >> 20} MB and {free >> 20} MB are free")
    if final.exists():  # the same step again: its evaluation was due, or it was damaged
        _remove(final)
    try:
        with writing_folder(final) as part:
            for name, data in content.items():
                (part / name).write_bytes(data)
    except CanonError as mistake:
        if isinstance(mistake.__cause__, OSError) and mistake.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(folder, "did not fit") from None
        raise
    return final


def load(path: Path, system: str = "", groups: tuple[str, ...] = ()) -> tuple[dict[str, Tensors], Table]:
    """The tensors (of `groups`, or all) and state of a checkpoint of `system`, or any, checked against its manifest."""
    manifest = _read_manifest(path)
    if system and manifest["system"] != system:
        raise CanonError(f"{path} is a checkpoint of {manifest['system']}, not of {system}.")
    wanted = [f"{group}.safetensors" for group in groups] or [n for n in manifest["files"] if n != "state.json"]
    content = {name: _read_checked(path / name, manifest["files"][name]) for name in [*wanted, "state.json"]}
    try:
        tensors = {name.removesuffix(".safetensors"): load_tensors(content[name]) for name in wanted}
        state = files.checked(parse_json(content["state.json"], path / "state.json"), files.STATE, path / "state.json")
    except (SafetensorError, CanonError) as damage:
        raise Damaged(f"{path} has a file that cannot be read: {str(damage).rstrip('.')}.") from None
    return tensors, state


def whole(folder: Path, system: str, say: Callable[[str], None]) -> Iterator[tuple[Path, dict[str, Tensors], Table]]:
    """The checkpoints whose files match their manifests, newest first; `say` reports one that is skipped."""
    for path in newest_first(folder):
        try:
            tensors, state = load(path, system)
        except Damaged as damage:
            say(f"{damage} Falling back to the one before.")
        else:
            yield path, tensors, state


def verify(path: Path) -> None:
    for name, record in _read_manifest(path)["files"].items():
        _read_checked(path / name, record)


def newest_first(folder: Path) -> Iterator[Path]:
    yield from sorted((path for path in folder.glob("step-*") if path.name[5:].isdigit()), reverse=True)


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def prune(folder: Path, step: int, keep: int, spare: set[int]) -> None:
    """Removes all checkpoints but the `keep` newest up to `step`, the first and those of the steps in `spare`; also
    later ones, which the run fell back from, and what killed writers left."""
    kept = [path for path in newest_first(folder) if step_of(path) <= step][:keep]
    for path in newest_first(folder):
        if path not in kept and step_of(path) not in {0, *spare}:
            _remove(path)
    for leftover in [*folder.glob(".removing-*"), *folder.glob(".*.writing")]:
        shutil.rmtree(leftover, ignore_errors=True)


def _remove(path: Path) -> None:
    # Renamed first, so that a half-removed folder never looks like a checkpoint.
    doomed = path.with_name(f".removing-{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def point(link: Path, target: Path) -> None:
    """Makes `link` a relative symbolic link to `target`, replacing an old one in one step."""
    if link.is_symlink() and link.readlink() == target.relative_to(link.parent):
        return
    temporary = link.with_name(f".{link.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.relative_to(link.parent))
    temporary.replace(link)


def _storable(group: Tensors) -> Tensors:
    """Contiguous tensors that share no memory: one with two names (an embedding that is also the output) is written
    under both."""
    storable: Tensors = {}
    seen: set[int] = set()
    for name, tensor in group.items():
        plain = tensor.detach().cpu().contiguous()
        place = plain.untyped_storage().data_ptr()
        storable[name] = plain.clone() if place in seen else plain
        seen.add(place)
    return storable


def _read_manifest(path: Path) -> Table:
    try:
        manifest = files.read(path / "manifest.json", files.MANIFEST, "this checkpoint cannot be used")
    except CanonError as damage:
        raise Damaged(str(damage)) from None
    if manifest["step"] != step_of(path):
        raise Damaged(f"{path} has a manifest.json of step {manifest['step']}.")
    return manifest


def _read_checked(path: Path, record: Table) -> bytes:
    try:
        content = path.read_bytes()
    except OSError:
        raise Damaged(f"{path} is missing.") from None
    if len(content) != record["bytes"]:
        raise Damaged(f"{path} has {len(content)} bytes where {record['bytes']} were written.")
    if hashlib.sha256(content).hexdigest() != record["sha256"]:
        raise Damaged(f"{path} is not as it was written (its sha256 differs).")
    return content


def _disk_full(folder: Path, why: str) -> CanonError:
    kept = next(newest_first(folder), None)
    last = f"the last one, {kept.name}, is intact" if kept else "there is none yet"
    return CanonError(f"The disk is full: a checkpoint in {folder} {why}; {last}. Free some space and use --resume.")
