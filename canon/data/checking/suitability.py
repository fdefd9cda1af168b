"""Whether a system can read data: one of its encodings as one of its kinds, opened as `canon train` opens it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from canon import registry
from canon.data import encodings
from canon.data.encodings import Ask, Encoding
from canon.data.kinds import Kind, accepts
from canon.data.read import by_kind
from canon.data.source import Source
from canon.data.targets import Target
from canon.errors import CanonError

Targets = tuple[type[Target], ...]


def asked_of(system: registry.System, targets_of: Callable[[str], Targets]) -> Targets:
    """What a system can predict, by all its tasks."""
    return tuple(target for task in system.tasks for target in targets_of(task))


class Suitability:
    """One source tried by the encodings that systems read, as the kinds that training would take it for."""

    def __init__(self, config: Any, home: Kind, source: Source | CanonError | None = None) -> None:
        """source: the data as its own kind, `home`, where it has been opened."""
        self._config, self.home = config, home
        self._accepted: dict[Kind, bool] = {home: True}
        self._opened: dict[Kind, Source | CanonError] = {} if source is None else {home: source}
        self._tried: dict[tuple[str, Targets], Target | CanonError] = {}

    def accepts(self, kind: Kind) -> bool:
        if kind not in self._accepted:
            self._accepted[kind] = bool(accepts(kind, self._config, self.home))
        return self._accepted[kind]

    def outcome(self, system: registry.System, targets: Targets) -> tuple[Kind | None, Target | CanonError]:
        """The kind that training would take the data for, None if the system reads no such kind; and what it would
        predict, or why it cannot."""
        ask = Ask(targets)
        encoding_of = by_kind([encodings.find(name) for name in system.encodings], ask)
        kind = next((kind for kind in encoding_of if self.accepts(kind)), None)
        if kind is None:
            return None, CanonError(f"{self._config.source} is {self.home.singular}.")
        encoding = encoding_of[kind]
        if (encoding.name, targets) not in self._tried:
            self._tried[encoding.name, targets] = self._try(encoding, kind, ask)
        return kind, self._tried[encoding.name, targets]

    def notes(self, kind: Kind | None) -> Sequence[str]:
        """What was decided while the data was opened as this kind."""
        source = self._opened.get(kind) if kind is not None else None
        return source.notes if isinstance(source, Source) else ()

    def _try(self, encoding: Encoding, kind: Kind, ask: Ask) -> Target | CanonError:
        try:
            if kind not in self._opened:
                home = self._opened.get(self.home)
                self._opened[kind] = kind.examine(self._config, home if isinstance(home, Source) else None)
            if isinstance(source := self._opened[kind], CanonError):
                return source
            return encoding.try_fit(source, self._config, ask)
        except CanonError as mistake:
            self._opened.setdefault(kind, mistake)
            return mistake
