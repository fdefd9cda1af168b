"""Chinese text to words by jieba, with spaces between them: in as many processes as there are cores, in order.

jieba is written in Python, so threads do not speed it up. Each process is this module, run by itself: it reads blocks
of text from its input and writes them, segmented, to its output (a length in eight bytes, then so much UTF-8).
"""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from canon.data.corpus.threads import in_order
from canon.data.text.vocabularies import cut_words
from canon.errors import CanonError

BLOCK = 1 << 19  # bytes that are segmented at a time
FEW = 4  # blocks; so short a text is segmented in this process


def load_jieba(setting: str = "data.tokenizer") -> Any:
    """The library with its dictionary, or the error that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its patterns' spelling, and of pkg_resources
            jieba = import_module("jieba")
    except ModuleNotFoundError:
        other = ', or put spaces between the words and set data.tokenizer = "split"' * (setting == "data.tokenizer")
        install = 'install it with pip install "deepcanon[words]"'
        raise CanonError(f'{setting} = "jieba" needs jieba; {install}{other}.') from None
    jieba.setLogLevel(logging.ERROR)
    jieba.initialize()
    return jieba


def segmented(jieba: Any, text: bytes) -> bytes:
    """Lines stay lines; there is a single space between jieba's words."""
    lines = cut_words(text.decode()).split("\n")  # jieba's time grows with the square of a run without marks
    # A block may end within a line: then a space must separate it from the next.
    return "\n".join(" ".join(filter(str.strip, jieba.cut(line))) + " " for line in lines).encode()


def segment(blocks: Iterator[np.ndarray], workers: int) -> Iterator[bytes]:
    """The blocks, segmented, in their order."""
    jieba = load_jieba()
    first = [block for _, block in zip(range(FEW), blocks, strict=False)]
    yield from (segmented(jieba, block.tobytes()) for block in first)
    if len(first) < FEW:
        return
    with ExitStack() as stack:
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(workers):
            idle.put(stack.enter_context(_process()))
        for _, text in in_order(lambda block: _ask(idle, block.tobytes()), blocks, workers):
            yield text


@contextmanager
def _process() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", __name__]
    # In a session of its own, so that Ctrl-C does not reach it before this process; it ends with its input.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _ask(idle: SimpleQueue[subprocess.Popen[bytes]], text: bytes) -> bytes:
    process = idle.get()
    assert process.stdin is not None and process.stdout is not None
    try:
        _write(process.stdin, text)
        segmented_text = _read(process.stdout)
    except BrokenPipeError:
        segmented_text = None
    finally:
        idle.put(process)
    if segmented_text is None:
        raise CanonError("A process that segments Chinese ended early, perhaps for lack of memory; start again.")
    return segmented_text


def _write(stream: IO[bytes], text: bytes) -> None:
    stream.write(len(text).to_bytes(8, "little") + text)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    size = stream.read(8)
    return stream.read(int.from_bytes(size, "little")) if len(size) == 8 else None


def main() -> None:
    jieba = load_jieba()
    while (text := _read(sys.stdin.buffer)) is not None:
        _write(sys.stdout.buffer, segmented(jieba, text))


if __name__ == "__main__":
    main()
