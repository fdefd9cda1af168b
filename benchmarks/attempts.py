"""The parts of attacks: command lines in copies of this process, failing file operations, damage, trainings.

Importing torch takes longer than most attempts, so each runs in a fork of a process that has imported it. File
operations are seen by an audit hook, which may count them, fail them, or kill the process.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from common import own_cache

from canon import command
from tests.battery.runs import BY_NAME, short

# Kinds of systems; of those marked so the run starts from weights of another run.
KINDS = {
    "mlp": "",
    "adaboost": "",
    "lenet": "",
    "gan": "",
    "transformer": "",
    "rnn-lm": "",
    "word2vec": "word2vec",
    "bert": "bert",
    "finetune": "bert",
}
SECONDS = 240  # an attempt that takes longer hangs
MEMORY = 4 << 30  # bytes; small inputs need no more


class Outcome(NamedTuple):
    code: int  # negative: the signal that ended it
    out: str
    err: str
    memory: int  # bytes at most

    @property
    def is_clean(self) -> bool:
        """An answer, or one sentence."""
        traceback = "Traceback" in self.out + self.err
        sentence = self.err.strip().splitlines()[-1:] and self.err.strip().splitlines()[-1].startswith("canon: ")
        return not traceback and (self.code == 0 or (self.code == 2 and bool(sentence)))


def last_line(outcome: Outcome) -> str:
    lines = outcome.err.strip().splitlines()
    return lines[-1][:300] if lines else ""


def canon(folder: Path, *arguments: str, hook: Callable[[str], None] | None = None, fsize: int = 0) -> Outcome:
    """Carries out `canon …` in `folder`; `hook` is called before every file operation inside it."""
    child = start(folder, *arguments, hook=hook, fsize=fsize)
    return finish(folder, child)


def start(folder: Path, *arguments: str, hook: Callable[[str], None] | None = None, fsize: int = 0) -> int:
    # The output has a unique name beside the folder: two may run in one folder.
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with suppress(OSError):
            os.setsid()
        for number, name in ((1, "out"), (2, "err")):
            handle = os.open(_output(folder, os.getpid(), name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            os.dup2(handle, number)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w"), "utf-8") for number in (1, 2))
        os.chdir(folder)
        os.environ |= {"CANON_DATA": str(folder / "sets"), **own_cache(folder)}
        sys.argv = ["canon", *arguments]
        if fsize:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (fsize, fsize))
        if hook is not None:
            watch(folder, hook)
        code = command.run()
        sys.stderr.flush()
    finally:
        os._exit(code)


def finish(folder: Path, child: int) -> Outcome:
    begun, pause = time.monotonic(), 0.001
    while True:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() - begun > SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    texts: dict[str, str] = {}
    for name in ("out", "err"):
        path = Path(_output(folder, child, name))
        texts[name] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        path.unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(code, texts["out"], texts["err"], used.ru_maxrss << 10)


def _output(folder: Path, process: int, name: str) -> str:
    return str(folder.with_name(f"{folder.name}.{process}.{name}"))


def watch(folder: Path, hook: Callable[[str], None]) -> None:
    """Calls `hook` before each operation that changes files in `folder`: creation, renaming, removal, syncing."""
    inside = str(folder)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(path, int) or not (flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
                return
        elif event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink", "os.truncate"):
            path = arguments[0]
        else:
            return
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if text and (not text.startswith("/") or text.startswith(inside)):
            hook(event)

    sync = os.fsync

    def synced(handle: Any) -> None:
        hook("fsync")
        sync(handle)

    os.fsync = synced  # type: ignore[assignment]
    sys.addaudithook(audit)


def counting(numbers: io.FileIO) -> Callable[[str], None]:
    def count(_event: str) -> None:
        numbers.write(b".")

    return count


def killing(at: int) -> Callable[[str], None]:
    passed = 0

    def count(_event: str) -> None:
        nonlocal passed
        passed += 1
        if passed == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


_FREEING = ("os.remove", "os.rmdir", "os.rename")  # what a full disk lets one do


def failing(at: int) -> Callable[[str], None]:
    passed = 0

    def count(event: str) -> None:
        nonlocal passed
        passed += 1
        if passed >= at and event not in _FREEING:  # a full disk stays full
            raise OSError(errno.ENOSPC, "No space left on device")

    return count


def flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return b"\x00"
    where = draw.randrange(len(content))
    return content[:where] + bytes([content[where] ^ 1 << draw.randrange(8)]) + content[where + 1 :]


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def blank(content: bytes, draw: random.Random) -> bytes:
    where, size = draw.randrange(len(content) + 1), draw.randint(1, 64)
    return content[:where] + b"\0" * min(size, len(content) - where) + content[where + size :]


def insert(content: bytes, draw: random.Random) -> bytes:
    where = draw.randrange(len(content) + 1)
    return content[:where] + draw.randbytes(draw.randint(1, 40)) + content[where:]


def swap_value(content: bytes, draw: random.Random) -> bytes:
    """Of JSON, one value by one of another type; of anything else, some bytes."""
    try:
        table = json.loads(content)
    except ValueError:
        return insert(content, draw)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            places.append((node, key))
            walk(value)

    walk(table)
    if not places:
        return b"[]"
    node, key = draw.choice(places)
    others = [None, "x", -1, 10**30, [], {}, [None], {"": 0}, True, 1e308, "\ud800", float("nan")]
    if isinstance(node, dict) and draw.random() < 0.3:
        node[f"{key}x"] = node.pop(key)
    else:
        node[key] = draw.choice(others)
    return json.dumps(table).encode()


DAMAGES = (flip, flip, cut, blank, insert, swap_value, swap_value, lambda *_: b"", None)  # None: removed


def damage(path: Path, draw: random.Random) -> str:
    chosen = draw.choice(DAMAGES)
    if chosen is None:
        path.unlink()
        return "removed"
    path.write_bytes(chosen(path.read_bytes(), draw))
    return chosen.__name__.strip("<>")


# Trainings and their ends.


def settings(kind: str, steps: int = 8, **more: Any) -> list[str]:
    changes = short(BY_NAME[kind], steps, **more) | {"train.checkpoint_every": 3, "train.evaluate_every": 4}
    return [part for key, value in changes.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def train_line(kind: str, out: str = "run", **more: Any) -> list[str]:
    if KINDS[kind]:
        more["train__init"] = "source"
    return ["train", BY_NAME[kind].recipe, "--out", out, "--quiet", *settings(kind, **more)]


def end_of(run: Path) -> str:
    """One hash of all that a run must end with: its weights, its metrics, its scores."""
    digest = hashlib.sha256()
    for file in sorted((run / "last").glob("*.safetensors")):
        digest.update(file.name.encode() + file.read_bytes())
    digest.update((run / "metrics.jsonl").read_bytes())
    result = json.loads((run / "result.json").read_text())
    digest.update(json.dumps(result["scores"], sort_keys=True).encode())
    return digest.hexdigest()


class Reference(NamedTuple):
    source: Path | None  # the run that this kind starts from
    run: Path
    operations: int


def references(place: Path) -> dict[str, Reference]:
    """Each kind trained once, undisturbed, with the number of its file operations."""
    sources: dict[str, Path] = {}
    trained = {}
    for kind, needed in KINDS.items():
        folder = place / "reference" / kind
        folder.mkdir(parents=True)
        if needed and needed not in sources:
            origin = place / "source" / needed
            origin.mkdir(parents=True)
            line = ["train", BY_NAME[needed].recipe, "--out", "source", "--quiet", *settings(needed, 4)]
            outcome = canon(origin, *line)
            assert outcome.code == 0, outcome.err
            sources[needed] = origin / "source"
        source = sources.get(needed)
        if source:
            shutil.copytree(source, folder / "source", symlinks=True)
        counter = folder.with_name(f"{kind}.operations")
        with counter.open("ab", buffering=0) as numbers:
            outcome = canon(folder, *train_line(kind), hook=counting(numbers))
        assert outcome.code == 0, (kind, outcome.err)
        trained[kind] = Reference(source, folder / "run", counter.stat().st_size)
    return trained
