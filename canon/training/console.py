"""What a run prints: sentences to the terminal and log.txt, and a progress bar on a terminal.

Everything goes to stderr; stdout is for results.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType

_PAINT_SECONDS = 0.1
_LINE_SECONDS = 10.0  # between progress lines where there is no terminal


class Console:
    def __init__(self, log: Path | None, speaks: bool = True) -> None:
        self._log = log
        self._speaks = speaks
        self._bar: object | None = None
        self._next = 0.0

    def log(self, text: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")

    def warn(self, text: str) -> None:
        """Says what a person must know even in a quiet run."""
        if self._speaks:
            self.say(text)
        elif self._log is not None:
            self.log(text)
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        self.log(text)
        if not self._speaks:
            return
        if self._bar is not None:
            self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def start(self, total: int, done: int) -> None:
        """Shows a bar on a terminal."""
        self._total = total
        self._next = time.perf_counter() + (_PAINT_SECONDS if sys.stderr.isatty() else _LINE_SECONDS)
        if not (self._speaks and sys.stderr.isatty()):
            return
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=RichConsole(stderr=True), transient=True)
        self._progress.start()
        self._bar = self._progress.add_task("", total=total, completed=done)

    def due(self) -> bool:
        """Whether it is time to paint; cheap enough to ask at every step."""
        return self._speaks and time.perf_counter() >= self._next

    def paint(self, done: int, description: str) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, completed=done, description=description)  # type: ignore[arg-type]
            self._next = time.perf_counter() + _PAINT_SECONDS
        else:
            print(f"step {done:,} of {self._total:,}  {description}", file=sys.stderr, flush=True)
            self._next = time.perf_counter() + _LINE_SECONDS

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._bar is not None:
            self._progress.stop()
            self._bar = None
