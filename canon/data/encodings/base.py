"""What an encoding is able to do: fit on the training part, and turn any rows into columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from canon.data import kinds
from canon.data.kinds import Kind
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.targets import Target
from canon.errors import CanonError


@dataclass(frozen=True)
class Ask:
    """What a system asks of its data."""

    targets: tuple[type[Target], ...] = ()  # what its task can predict; the first that the data has is taken
    system: str = "This system"
    tokenizer: str = ""  # the kind of tokeniser, where neither the user nor a named set says
    sentinels: int = 0  # of a vocabulary for networks that fill spans (T5)
    start: Any = None  # what weights that it starts from have decided already, as the encoding knows it


class Encoding(ABC):
    """One object for each encoding stands in canon/data/encodings/__init__.py. `config` is a DataConfig."""

    name: ClassVar[str]
    reads: ClassVar[tuple[Kind, ...]]  # the kinds of data that it can be given, the most particular first
    settings: ClassVar[type[Common]]
    schema: ClassVar[type[Schema]]
    takes_text: ClassVar[bool] = False  # whether a text may be given to `predict` in place of a file

    def kinds(self, ask: Ask) -> Sequence[Kind]:
        """Those of `reads` that have what is asked for."""
        return self.reads

    @abstractmethod
    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Train, valid and test columns of a source, and the schema."""

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        """ "" if `fit` would go through, else the sentence that says why not; without the work of `fit` where that is
        much."""
        try:
            self.fit(source, replace(config, limit=0), ask)
        except CanonError as mistake:
            return str(mistake)
        return ""

    def layout(self, schema: Any, config: Any) -> Any:
        """The settings by which other data of a run, now `config.source`, is opened: those of the run, less what
        described its files."""
        return replace(config, valid=0.0, test=0.0, format="auto")

    def labelled(self, schema: Any, source: str, config: Any) -> Columns:
        """Inputs and targets of other labelled data (its test part, where it has one), to evaluate a run on."""
        opened = kinds.open_for(self.reads, self.layout(schema, replace(config, source=source)), "The run")
        return self.columns(schema, opened, config)

    @abstractmethod
    def columns(self, schema: Any, source: Source, config: Any) -> Columns:
        """The part of another source that a run is scored on, with its targets."""

    @abstractmethod
    def inputs(self, schema: Any, sources: Sequence[str], config: Any, text: bool) -> tuple[Columns, list[str]]:
        """What is in files, or the texts that are given, to predict; and a name for each example.

        text: the sources are texts in any case; else canon/data/paths.py tells them from files.
        """


def finish(
    source: Source, schema: Schema, splits: dict[str, Columns], rule: dict[str, str], config: Any, notes: Sequence[str]
) -> Data:
    """Data with its protocol, and a note on the size of every split."""
    sizes = {name: len(next(iter(columns.values()))) for name, columns in splits.items()}
    protocol: dict[str, Any] = {
        "source": source.name,
        **source.origin,
        "split": rule,
        "seed": config.seed,
        "sizes": sizes,
    }
    how = "; ".join(f"{name}: {text}" for name, text in rule.items())
    counted = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    said = (*source.notes, *filter(None, notes), f"Examples: {counted}{f' ({how})' if how else ''}.")
    return Data(source.name, schema, splits, source.files, said, protocol)


def with_statistics(target: Any, values: np.ndarray) -> Any:
    """A number to predict, with the mean and standard deviation of the training examples."""
    wide = values.astype(np.float64)
    return replace(target, mean=float(wide.mean()), std=float(wide.std()) or 1.0)
