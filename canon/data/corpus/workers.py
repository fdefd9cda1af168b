"""Processes that answer requests: for work that holds the interpreter, so that threads do not speed it up.

Each process is a module of canon run by itself, which calls `serve`: it reads requests from its input and writes
answers to its output (a length in eight bytes, then so many bytes; an answer begins with a byte that says whether it is
an error). A process is started when a request finds no other idle, so a short text starts few. All end with this one,
however it ends: their input does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from queue import LifoQueue
from types import TracebackType
from typing import IO

from canon.errors import CanonError, reason

_GOOD, _BAD = b"+", b"!"
# One thread each: there is a process for every core.
_ALONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
_HOME = str(Path(__file__).resolve().parents[3])  # where this canon is

Process = subprocess.Popen[bytes]


class Workers:
    """Several threads may ask at a time, each one process. `first`: what every process is sent before its requests."""

    def __init__(self, module: str, count: int, doing: str, first: bytes = b"") -> None:
        self._module, self._doing, self._first = module, doing, first
        self._started: list[Process] = []
        self._idle: LifoQueue[Process | None] = LifoQueue()  # None: one that can be started
        for _ in range(count):
            self._idle.put(None)

    def ask(self, request: bytes) -> bytes:
        process = self._idle.get()
        try:
            if process is None:
                process = self._start()
            assert process.stdin is not None and process.stdout is not None
            _write(process.stdin, request)
            answer = _read(process.stdout)
        except BrokenPipeError:
            answer = None
        finally:
            self._idle.put(process)
        if answer is None:
            raise CanonError(f"A process that {self._doing} ended early, perhaps for lack of memory; start again.")
        if answer[:1] == _BAD:
            raise CanonError(answer[1:].decode("utf-8", "replace"))
        return answer[1:]

    def _start(self) -> Process:
        path = os.pathsep.join(filter(None, [_HOME, os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],  # -P: no module of the working folder is taken for a library's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ALONE, "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": path},
            start_new_session=True,  # so that Ctrl-C does not reach it before this process
        )
        self._started.append(process)
        assert process.stdin is not None
        _write(process.stdin, self._first)
        return process

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.communicate()


def serve(begin: Callable[[bytes], Callable[[bytes], bytes]]) -> None:
    """The whole life of such a process: `begin` is given what comes first, and returns what answers the requests."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    first = _read(requests)
    work: Callable[[bytes], bytes] | None = None
    while first is not None and (request := _read(requests)) is not None:
        try:
            work = work or begin(first)
            answer = work(request)
            mark = _GOOD
        except CanonError as mistake:
            answer, mark = str(mistake).encode("utf-8", "replace"), _BAD
        except Exception as mistake:
            answer, mark = f"Some text cannot be taken apart: {reason(mistake)}.".encode("utf-8", "replace"), _BAD
        _write(answers, answer, mark)


def _write(stream: IO[bytes], content: bytes, mark: bytes = b"") -> None:
    stream.write((len(mark) + len(content)).to_bytes(8, "little") + mark)
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    size = stream.read(8)
    if len(size) != 8:
        return None
    content = stream.read(int.from_bytes(size, "little"))
    return content if len(content) == int.from_bytes(size, "little") else None
