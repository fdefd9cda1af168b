"""Chinese text to words by jieba, with spaces between them: in as many processes as there are cores, in order.

jieba is written in Python, so threads do not speed it up. Each process is this module, run by itself (workers.py).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from canon.data.corpus.threads import in_order
from canon.data.corpus.workers import Workers, serve
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
    with Workers(__name__, workers, "segments Chinese") as processes:
        for _, text in in_order(lambda block: processes.ask(block.tobytes()), blocks, workers):
            yield text


def _begin(_: bytes) -> Callable[[bytes], bytes]:
    jieba = load_jieba()
    return lambda text: segmented(jieba, text)


if __name__ == "__main__":
    serve(_begin)
