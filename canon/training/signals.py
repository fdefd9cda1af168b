"""Ctrl-C and SIGTERM while a run trains: checked where all processes can stop together and save."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from canon.contracts import World


class Interrupted(Exception):
    """The user or the system asked to stop; everything is saved."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Stopped(Exception):
    """A signal came between two batches of an evaluation."""


class Signals:
    """Notes the first signal; a second one stops at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.number = 0

    def came(self) -> bool:
        """Whether a signal has come to any process; all of them must ask."""
        if self.world.size == 1:
            return bool(self.number)
        total, count = self.world.total([float(self.number), float(bool(self.number))])
        if count:
            self.number = int(total / count)
        return bool(count)

    def check(self) -> None:
        if self.came():
            raise Stopped

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number

    def __enter__(self) -> Signals:
        main = threading.current_thread() is threading.main_thread()
        handled = (signal.SIGINT, signal.SIGTERM) if main else ()
        self._before: dict[int, Any] = {number: signal.signal(number, self._ask) for number in handled}
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
