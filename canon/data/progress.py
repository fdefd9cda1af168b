"""Progress of work that takes over a second, on stderr: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 1.0  # seconds of silence on a terminal
LINE_SECONDS = 10.0  # between lines elsewhere
T = TypeVar("T")


class Bar:
    def __init__(self, text: str, total: int, enabled: bool, unit: str) -> None:
        self.text, self.total, self.unit, self.done = text, total, unit, 0
        self._enabled, self._progress, self._terminal = enabled, None, sys.stderr.isatty()
        self._next = time.monotonic() + (PATIENCE if self._terminal else LINE_SECONDS)

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        if self._progress is None and self._enabled and time.monotonic() > self._next:
            if self._terminal:
                self._progress, self._task = _rich_bar(self.text, self.total, self.unit)
            else:
                self._next += LINE_SECONDS
                share = f"{min(self.done / self.total, 1):.0%}" if self.total else f"{self.done:,} {self.unit}".rstrip()
                print(f"{self.text}: {share}", file=sys.stderr, flush=True)
        if self._progress is not None:
            self._progress.update(self._task, completed=self.done)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """The items, each of which is one step."""
        for item in items:
            yield item
            self.advance()

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def bar(text: str, total: int, unit: str = "", enabled: bool = True) -> Iterator[Bar]:
    """`with bar("reading", 100) as progress: progress.advance()`; `unit="bytes"` shows sizes and rates."""
    shown = Bar(text, total, enabled, unit)
    try:
        yield shown
    finally:
        shown.close()


def _rich_bar(text: str, total: int, unit: str) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as Speed

    count = (DownloadColumn(), Speed()) if unit == "bytes" else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *count, TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task(text, total=total or None)
    progress.start()
    return progress, task
