"""Streams that pyarrow reads in a thread of its own: whoever ends one early has no thread of it in Python any more."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from threading import current_thread, main_thread

import pytest

from canon.data.formats.arrow_csv import arrow_blocks

EXIT = """
import sys, time
from functools import partial
from pyarrow import csv
from canon.data.formats.arrow_csv import arrow_blocks

def pieces():
    while True:
        time.sleep(0.05)
        yield b"1,2\\n" * 4096

for block in arrow_blocks(pieces(), partial(csv.open_csv, read_options=csv.ReadOptions(block_size=1 << 14))):
    sys.exit(2)
"""


def test_a_process_that_leaves_a_stream_ends_as_it_says() -> None:
    done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "")


@pytest.mark.parametrize("how", ["close", "error"])
def test_no_thread_reads_on(how: str) -> None:
    from pyarrow import csv

    reads: list[bool] = []

    def pieces() -> Iterator[bytes]:
        while True:
            reads.append(current_thread() is main_thread())
            time.sleep(0.02)
            yield b"1,2\n" * 4096

    blocks = arrow_blocks(pieces(), partial(csv.open_csv, read_options=csv.ReadOptions(block_size=1 << 14)))
    next(blocks)
    if how == "close":
        blocks.close()  # type: ignore[attr-defined]
    else:
        with pytest.raises(KeyError):
            blocks.throw(KeyError("x"))  # type: ignore[attr-defined]
    before = len(reads)
    time.sleep(0.1)
    assert len(reads) == before > 0
