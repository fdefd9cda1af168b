"""Every file that canon writes is whole or absent, and every JSON that it reads is checked: the one helper for both.

A file is written beside its place, synced, and renamed: after a failure (a full disk, Ctrl-C, a kill) the earlier file
is as it was. What a killed process left beside a file is removed by the next writer of that file. Only the standard
library is used.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from canon.errors import CanonError, border

_BESIDE = ".writing"  # .NAME.PID.writing is what process PID has not finished


@contextmanager
def writing(path: Path, *others: Path) -> Iterator[Any]:
    """A path to write to in place of `path` (a tuple of paths for several), which takes its place when all is written.

    Several files appear together: none is replaced before all are written. A device such as /dev/stdout is written to
    as it is.
    """
    # A link stays a link: the file that it names is replaced.
    targets = [_resolved(target) for target in (path, *others)]
    parts = [target if _is_device(target) else _beside(target) for target in targets]
    try:
        for target in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            _sweep(target)
        yield tuple(parts) if others else parts[0]
        for part, target in zip(parts, targets, strict=True):
            if part is not target:
                sync_file(part)
        for part, target in zip(parts, targets, strict=True):
            if part is not target:
                part.replace(target)
                sync_folder(target.parent)
    except Exception as failure:
        if (refusal := _refusal(failure)) is None:
            raise
        raise cannot_write(path, refusal) from failure
    finally:
        for part, target in zip(parts, targets, strict=True):
            if part is not target:
                _remove(part)


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole, or not at all."""
    with writing(path) as part, part.open("wb") as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    """Replaces a file as a whole, or not at all; UTF-8, lines ended by \\n."""
    with border(f"What was to be written to {path}"):
        encoded = content.encode()
    write_bytes(path, encoded)


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which is at its place once all is written and synced, or not at all."""
    if os.path.lexists(path):
        raise CanonError(f"{path} already exists: give another name for the folder.")
    part = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        part.mkdir()
        yield part
        for inside in sorted(part.rglob("*"), reverse=True):
            if not inside.is_symlink():
                (sync_folder if inside.is_dir() else sync_file)(inside)
        sync_folder(part)
        part.rename(path)  # fails where another process was first
        sync_folder(path.parent)
    except Exception as failure:
        if (refusal := _refusal(failure)) is None:
            raise
        if refusal.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(path):
            raise CanonError(f"{path} already exists: another process was first; give another name.") from None
        raise cannot_write(path, refusal) from failure
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _refusal(failure: Exception) -> OSError | None:
    """What the system refused; safetensors reports it as an error of its own, with the number in its text."""
    if isinstance(failure, OSError):
        return failure
    number = None if isinstance(failure, CanonError) else re.search(r"\(os error (\d+)\)", str(failure))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def cannot_write(path: Path, failure: OSError) -> CanonError:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return CanonError(f"The disk is full: {path} cannot be written.")
    return CanonError(f"{path} cannot be written: {failure.strerror or failure}.")


def read_json(path: Path, check: Callable[[Any], Any] | None = None) -> Any:
    """What a JSON file holds, or what `check` makes of it; a file that cannot be read or is not so is a CanonError."""
    with border(path):
        found = json.loads(path.read_bytes())
        return found if check is None else check(found)


def parse_json(text: str | bytes, where: str | Path) -> Any:
    """What a JSON text holds; `where` names it in a sentence."""
    with border(where):
        return json.loads(text)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


sync_folder = sync_file  # a folder is synced by the same calls


def _resolved(path: Path) -> Path:
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as failure:  # a link to itself
        raise CanonError(f"{path} cannot be written: {failure}.") from None


def _is_device(path: Path) -> bool:
    """Whether it is there and is neither a file nor a folder: a device, a pipe, a terminal."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:  # such as a name that is too long
        return False


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}{_BESIDE}") if path.name else path


def _sweep(path: Path) -> None:
    """Removes what processes that are gone have left beside a path."""
    for left in path.parent.glob(f".{_literal(path.name)}.*{_BESIDE}"):
        number = left.name.removesuffix(_BESIDE).rpartition(".")[2]
        if number.isdigit() and not _is_alive(int(number)):
            _remove(left)


def _literal(name: str) -> str:
    """A name in which no letter is a pattern of glob."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return  # such as a name that is too long to exist
