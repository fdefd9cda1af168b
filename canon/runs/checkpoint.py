"""Checkpoints that are whole or absent: written beside, synced, renamed, and hashed in a manifest.

A checkpoint is a folder step-00001000/ with one .safetensors file per group of tensors ("model", "optimizer"),
state.json, and manifest.json (the system it belongs to, size and sha256 of the other files). Tensors and JSON only:
nothing is pickled. step-00000000 is what a run started from, if that is more than its seed. Where several processes
write one together, a group is a folder with a file of each (shards.py).
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as dump_arrays

from canon.config import Table
from canon.contracts import Arrays, Unchanging
from canon.errors import CanonError, reason
from canon.runs import files
from canon.storage import parse_json, writing_folder

Groups = Mapping[str, Mapping[str, Any]]  # arrays or tensors by name, in groups
_PIECE = 1 << 22  # bytes that are hashed at a time
_SLACK = 1 << 20  # bytes left free beside a checkpoint: for logs and the file system


class Damaged(CanonError):
    """A checkpoint that is incomplete or differs from its manifest."""


def save(folder: Path, step: int, system: str, tensors: Groups, state: Table) -> Path:
    """Writes checkpoint `step` below `folder`; a full disk is a CanonError and leaves the others untouched."""
    final = path_of(folder, step)
    linked = _written(folder, step, [f"{name}.safetensors" for name, x in tensors.items() if isinstance(x, Unchanging)])
    groups = {f"{name}.safetensors": group for name, group in tensors.items()}
    content = {name: dump_arrays(_storable(group)) for name, group in groups.items() if name not in linked}
    content["state.json"] = json.dumps(state, indent=1).encode()
    records = {name: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for name, b in content.items()}
    records |= {name: record for name, (_, record) in linked.items()}
    content["manifest.json"] = files.sealed({"system": system, "step": step, "files": records}).encode()
    needed = sum(map(len, content.values())) + _SLACK
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise _disk_full(folder, f"needs {needed >> 20} MB and {free >> 20} MB are free")
    if final.exists():  # the same step again: its evaluation was due, or it was damaged
        _remove(final)
    try:
        with writing_folder(final) as part:
            for name, (earlier, _) in linked.items():
                _link(earlier, part / name)
            for name, data in content.items():
                (part / name).write_bytes(data)
    except CanonError as mistake:
        if isinstance(mistake.__cause__, OSError) and mistake.__cause__.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(folder, "did not fit") from None
        raise
    return final


def _written(folder: Path, step: int, names: list[str]) -> dict[str, tuple[Path, Table]]:
    """Those of the files that the checkpoint before `step` has, with their records."""
    before = next((path for path in newest_first(folder) if step_of(path) < step), None)
    if before is None or not names:
        return {}
    try:
        records = _read_manifest(before)["files"]
    except Damaged:
        return {}
    has = {name: before / name for name in names if name in records and (before / name).is_file()}
    return {name: (path, records[name]) for name, path in has.items() if path.stat().st_size == records[name]["bytes"]}


def _link(earlier: Path, new: Path) -> None:
    """One file under two names; a copy where the file system has no links."""
    try:
        new.hardlink_to(earlier)
    except OSError:
        shutil.copyfile(earlier, new)


def save_together(folder: Path, step: int, system: str, tensors: Groups, state: Table | None) -> Path:
    """`save` by all processes, each its shards; state: the main process's, None elsewhere."""
    import torch.distributed as dist

    from canon.runs import shards

    final = path_of(folder, step)
    with writing_folder_together(final, state is not None) as part:
        for group, pieces in tensors.items():
            shards.write(part / group, pieces)
        number = f"shard-{dist.get_rank() + 1:05d}-"
        hashes = {str(path.relative_to(part)): hashed(path) for path in part.glob(f"*/{number}*.safetensors")}
        every: list[Table] = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(every, hashes)
        if state is not None:
            content = json.dumps(state, indent=1).encode()
            (part / "state.json").write_bytes(content)
            records = {name: record for records in every for name, record in records.items()}
            records["state.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            record = {"system": system, "step": step, "groups": list(tensors), "files": records}
            (part / "manifest.json").write_bytes(files.sealed(record).encode())
    return final


def in_pieces(tensors: Groups) -> bool:
    """Whether any of the tensors is one process's shard."""
    return any(hasattr(tensor, "placements") for group in tensors.values() for tensor in group.values())


@contextmanager
def writing_folder_together(final: Path, is_main: bool) -> Iterator[Path]:
    """The folder that the main process makes, for all; a mistake of any process ends in a CanonError on each."""
    import torch.distributed as dist
    from torch.distributed.checkpoint import CheckpointException

    with ExitStack() as stack:
        place: list[str | None] = [None]
        refusal: CanonError | None = None
        if is_main:
            try:
                if final.exists():
                    _remove(final)
                place[0] = str(stack.enter_context(writing_folder(final)))
            except CanonError as mistake:
                refusal = mistake
        dist.broadcast_object_list(place)
        if place[0] is None:
            raise refusal or CanonError(f"{final} cannot be written: the main process says why.")
        try:
            yield Path(place[0])
        except CheckpointException as mistake:
            causes = [cause for cause, _ in mistake.failures.values()]
            if any(isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT) for cause in causes):
                raise _disk_full(final.parent, "did not fit") from None
            raise CanonError(f"{final} cannot be written: {reason(causes[0])}.") from None


def load(path: Path, system: str = "", groups: tuple[str, ...] = ()) -> tuple[dict[str, Arrays], Table]:
    """The arrays (of `groups`, or all) and state of a checkpoint of `system`, or any, checked against its manifest."""
    manifest = _read_manifest(path)
    if system and manifest["system"] != system:
        raise CanonError(f"{path} is a checkpoint of {manifest['system']}, not of {system}.")
    together = manifest.get("groups", [])
    names = [n for n in manifest["files"] if "/" not in n and n != "state.json"]
    wanted = [f"{group}.safetensors" for group in groups if group not in together] if groups else names
    content = {name: _read_checked(path / name, manifest["files"][name]) for name in [*wanted, "state.json"]}
    try:
        tensors: dict[str, Any] = {name.removesuffix(".safetensors"): load_arrays(content[name]) for name in wanted}
        for group in (group for group in together if group in groups or not groups):
            from canon.runs import shards

            records = {name: record for name, record in manifest["files"].items() if name.startswith(f"{group}/")}
            for name, record in records.items():
                _check(path / name, record)
            tensors[group] = shards.Shards([path / name for name in records])
        state = files.checked(parse_json(content["state.json"], path / "state.json"), files.STATE, path / "state.json")
    except (SafetensorError, CanonError) as damage:
        raise Damaged(f"{path} has a file that cannot be read: {str(damage).rstrip('.')}.") from None
    return tensors, state


def whole(folder: Path, system: str, say: Callable[[str], None]) -> Iterator[tuple[Path, dict[str, Arrays], Table]]:
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
        _check(path / name, record)


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


def linked(link: Path, folder: Path) -> Path:
    """The checkpoint of `folder` that a link points to; of a run whose copy has a folder in its place, the same one."""
    if link.is_symlink() or not link.is_dir():
        return link.resolve()
    return path_of(folder, files.read(link / "manifest.json", files.MANIFEST, "this copy cannot be used")["step"])


def point(link: Path, target: Path) -> None:
    """Makes `link` a relative symbolic link to `target`, replacing an old one in one step."""
    if link.is_symlink() and link.readlink() == target.relative_to(link.parent):
        return
    if link.is_dir() and not link.is_symlink():  # a copy of the run that followed its links
        shutil.rmtree(link)
    temporary = link.with_name(f".{link.name}.link")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target.relative_to(link.parent))
    temporary.replace(link)


def _storable(group: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What each is to be written from, with its dimensions; one with two names (an embedding that is also the output)
    is written under both."""
    plain = {
        name: each if isinstance(each, np.ndarray) else each.detach().cpu().numpy() for name, each in group.items()
    }
    return {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in plain.items()}


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
    _compare(path, {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}, record)
    return content


def hashed(path: Path) -> Table:
    """The size and sha256 of a file that may be larger than memory."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": digest.hexdigest()}


def _check(path: Path, record: Table) -> None:
    """Without holding the file."""
    try:
        content = hashed(path)
    except OSError:
        raise Damaged(f"{path} is missing.") from None
    _compare(path, content, record)


def _compare(path: Path, content: Table, record: Table) -> None:
    if content["bytes"] != record["bytes"]:
        raise Damaged(f"{path} has {content['bytes']} bytes where {record['bytes']} were written.")
    if content["sha256"] != record["sha256"]:
        raise Damaged(f"{path} is not as it was written (its sha256 differs).")


def _disk_full(folder: Path, why: str) -> CanonError:
    kept = next(newest_first(folder), None)
    last = f"the last one, {kept.name}, is intact" if kept else "there is none yet"
    return CanonError(f"The disk is full: a checkpoint in {folder} {why}; {last}. Free some space and use --resume.")
