"""Every file that canon writes is whole or absent, and every JSON file that it reads is checked: helpers for both.

A file is written beside its place, synced, and renamed: after a failure (a full disk, Ctrl-C, a kill) the earlier file
is as it was. What a killed process left beside a file is removed by the next writer of that file. Only the standard
library is used.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from canon.errors import CanonError, border, reason

_BESIDE = ".writing"  # .NAME.PID.writing is what process PID has not finished


def cache_folder() -> Path:
    """Where all is kept that can be made or fetched again: CANON_CACHE, else canon in the user's cache."""
    if given := os.environ.get("CANON_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "canon"


def clear_cache(names: tuple[str, ...]) -> None:
    """Empties parts of the cache."""
    for name in names:
        if (path := cache_folder() / name).exists():
            try:
                shutil.rmtree(path)
            except OSError as failure:
                raise CanonError(f"{path} cannot be removed: {reason(failure)}.") from failure


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def writing(path: Path, *others: Path) -> Iterator[Any]:
    """A path to write to in place of `path` (a tuple of paths for several), which takes its place when all is written.

    Several files appear together: none is replaced before all are written, and where one cannot be replaced, none is.
    A device such as /dev/stdout is written to as it is.
    """
    named = (path, *others)
    targets = [_target(each) for each in named]
    parts = [each if target is None else _beside(target) for each, target in zip(named, targets, strict=True)]
    pairs = [(part, target) for part, target in zip(parts, targets, strict=True) if target is not None]
    for each, target in zip(named, targets, strict=True):
        if target is not None and target.is_dir():
            raise CanonError(f"{each} is a folder: give the name of a file.")
    try:
        with _beside_targets(pairs):
            yield tuple(parts) if others else parts[0]
            for part, _ in pairs:
                sync_file(part)
            _replace(pairs)
    except Exception as failure:
        if (refusal := _refusal(failure)) is None:
            raise
        raise cannot_write(path, refusal) from failure
    _sync_in_place({target.parent for _, target in pairs})


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
    target = _target(path)
    if target is None or os.path.lexists(path):
        raise CanonError(f"{path} already exists: give another name for the folder.")
    part = _beside(target)
    try:
        with _beside_targets([(part, target)]):
            part.mkdir()
            yield part
            for inside in sorted(part.rglob("*"), reverse=True):
                if not inside.is_symlink():
                    sync_file(inside)
            sync_file(part)
            part.rename(target)  # fails where another process was first
    except Exception as failure:
        if (refusal := _refusal(failure)) is None:
            raise
        if os.path.lexists(target):
            raise CanonError(f"{path} already exists: another process was first; give another name.") from None
        raise cannot_write(path, refusal) from failure
    _sync_in_place({target.parent})


def _refusal(failure: Exception) -> OSError | UnicodeError | None:
    """What the system refused; safetensors reports it as another error, with the number in its text."""
    if isinstance(failure, OSError | UnicodeError):
        return failure
    number = None if isinstance(failure, CanonError) else re.search(r"\(os error (\d+)\)", str(failure))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def cannot_write(path: Path, failure: OSError | UnicodeError) -> CanonError:
    if not isinstance(failure, OSError):
        return CanonError(f"{path} cannot be written: {reason(failure)}.")
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return CanonError(f"The disk is full: {path} cannot be written.")
    return CanonError(f"{path} cannot be written: {failure.strerror or failure}.")


def read_json(path: Path, check: Callable[[Any], Any] | None = None) -> Any:
    """The content of a JSON file, passed through `check`; a file that cannot be read or checked is a CanonError."""
    with border(path):
        content = json.loads(path.read_bytes())
        return content if check is None else check(content)


def parse_json(text: str | bytes, where: str | Path) -> Any:
    """The content of a JSON text; `where` names it in an error."""
    with border(where):
        return json.loads(text)


def sync_file(path: Path) -> None:
    """Waits until a file or a folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_in_place(folders: set[Path]) -> None:
    """Syncs the names of files that are at their places: they are whole there, whether or not this can be done."""
    for folder in folders:
        with suppress(OSError):
            sync_file(folder)


def _target(path: Path) -> Path | None:
    """The file that is to be replaced: of a link, what it points to. None for a device, which is written to."""
    with border(path, "cannot be written"):  # such as a name that no file can have
        target = Path(os.path.realpath(path))
        if _is_device(path):
            return None
    return target


def _is_device(path: Path) -> bool:
    """Whether it exists but is neither a file nor a folder (a pipe, a terminal), or is one of our open streams."""
    stream = path.readlink() if path.is_symlink() else path
    if any(str(each.parent.resolve()).startswith("/proc/") for each in (path, stream)):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _beside_targets(pairs: list[tuple[Path, Path]]) -> Iterator[None]:
    """Makes the folders of the targets; after a failure removes the parts and the folders that it made."""
    new: list[Path] = []
    try:
        for _, target in pairs:
            for folder in reversed([folder for folder in target.parents if not folder.exists()]):
                folder.mkdir(exist_ok=True)
                new.append(folder)
            _sweep(target)
        yield
    except BaseException:
        for part, _ in pairs:
            _remove(part)
        for folder in reversed(new):
            with suppress(OSError):
                folder.rmdir()
        raise


def _replace(pairs: list[tuple[Path, Path]]) -> None:
    """Puts every part in its target's place; where one cannot go there, all earlier files come back."""
    kept = {target: part.with_name(f"{part.name}.earlier{_BESIDE}") for part, target in pairs}
    replaced: list[Path] = []
    try:
        if len(pairs) > 1:
            for target, earlier in kept.items():
                if target.is_file():
                    try:
                        os.link(target, earlier)
                    except OSError:  # there are file systems without links
                        shutil.copy2(target, earlier)
        for part, target in pairs:
            part.replace(target)
            replaced.append(target)
    except BaseException:
        for target in replaced:
            if kept[target].is_file():
                kept[target].replace(target)
            else:
                _remove(target)
        raise
    finally:
        for earlier in kept.values():
            _remove(earlier)


def _beside(path: Path) -> Path:
    return path.with_name(f".{_stem(path)}.{os.getpid()}{_BESIDE}")


def _stem(path: Path) -> str:
    """A file's name, cut where it would leave no room for what _beside adds; 255 bytes are the most anywhere."""
    return os.fsencode(path.name)[:200].decode(errors="ignore")


def _sweep(path: Path) -> None:
    """Removes what processes that are gone have left beside a path."""
    start = f".{_stem(path)}."
    for left in path.parent.glob(f"{glob.escape(start)}*{_BESIDE}"):
        number = left.name.removeprefix(start).partition(".")[0]
        if number.isdigit() and not _is_alive(int(number)):
            _remove(left)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # another user's
    return True


def _remove(path: Path) -> None:
    """Removes a file or a folder, if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
