"""What an encoding is able to do: fit on the training part, and turn any rows into columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from canon.data import kinds
from canon.data.kinds import Kind
from canon.data.paths import file_of
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, Schema, num_examples
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.targets import Number, Target
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer

Inputs = tuple[Columns, list[str]]  # what to predict, and a name for each example


@dataclass(frozen=True)
class Ask:
    """What a system asks of its data."""

    targets: tuple[type[Target], ...] = ()  # what its task can predict; the first that the data has is taken
    system: str = "This system"
    tokenizer: str = ""  # the kind of tokeniser, unless the user or a named set chooses one
    sentinels: int = 0  # of a vocabulary for networks that fill spans (T5)
    start: Any = None  # what the weights that training starts from have decided already, in the encoding's own form


class Encoding(ABC):
    """canon/data/encodings/__init__.py lists one object for each encoding. `config` is a DataConfig."""

    reads: ClassVar[tuple[Kind, ...]]  # the kinds of data that it accepts, the most specific first
    settings: ClassVar[type[Common]]
    schema: ClassVar[type[Schema]]
    causes: ClassVar[tuple[str, str, str]]  # why a run on such data learns nothing, the likeliest first
    takes_text: ClassVar[bool] = False  # whether `predict` accepts a text in place of a file
    example_file: ClassVar[str] = "FILE.csv"  # a name for a file to predict from
    takes_rows: ClassVar[bool] = True  # whether it accepts dicts and data frames

    @property
    def name(self) -> str:
        return self.schema.encoding

    def kinds(self, ask: Ask) -> Sequence[Kind]:
        """Those of `reads` that have one of the targets of `ask`."""
        return self.reads

    @abstractmethod
    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Train, valid and test columns of a source, and the schema."""

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        """The target that `fit` would find, or the error that it would raise; an encoding whose `fit` is slow checks
        without fitting."""
        return self.fit(source, replace(config, limit=0), ask).schema.target

    def layout(self, schema: Any, config: Any) -> Any:
        """The settings that open `config.source` as more data of a run: the run's, without those that describe the
        layout of its training files."""
        return replace(config, valid=0.0, test=0.0, format="auto")

    def labelled(self, schema: Any, source: str, config: Any) -> Columns:
        """Inputs and targets of other labelled data (its test part, where it has one), to evaluate a run on."""
        opened = kinds.open_for(self.reads, self.layout(schema, replace(config, source=source)), "The run")
        return self.columns(schema, opened, config)

    @abstractmethod
    def columns(self, schema: Any, source: Source, config: Any) -> Columns:
        """The part of another source that a run is scored on, with its targets."""

    @abstractmethod
    def inputs(self, schema: Any, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """The inputs to predict from files, from texts or from rows, and a name for each example.

        text: every source is a text; else canon/data/paths.py decides whether a source is a file or a text.
        """

    def array(self, schema: Any, array: np.ndarray, config: Any) -> Inputs | None:
        """The inputs in an array, or in one example alone; None where the shape is not the run's."""
        if array.shape == schema.shape:
            array = array[None]
        if not schema.shape or array.shape[1:] != schema.shape:
            return None
        return {"input": array}, [str(row) for row in range(len(array))]

    def example(self, schema: Any, texts: tuple[str, ...]) -> Given | None:
        """The texts of one example, where a run reads several; None where each is an example itself."""
        return None

    def array_shape(self, schema: Any) -> tuple[int, ...]:
        """Of one example in an array that `predict` accepts; (): none is accepted."""
        return schema.shape

    def piped_ending(self, head: bytes) -> str:
        """The ending of a file that would hold what comes by standard input, by its first bytes."""
        return ".txt"

    def kinds_of(self, schema: Any) -> Sequence[Kind]:
        """The kinds of data that a run of this schema reads."""
        return self.reads

    def accepted(self, schema: Any, run: str) -> str:
        """The beginning of a sentence: what `predict` takes."""
        forms = ["a text"] * self.takes_text + ["a file"] + ["a dict", "a data frame"] * self.takes_rows
        shape = self.array_shape(schema)
        array = f", or an array [{', '.join(map(str, ('N', *shape)))}]" if shape else ""
        wanted = " or ".join(kind.plural for kind in self.kinds_of(schema))
        return f"{run} was trained on {wanted} and predicts from {', '.join(forms)}, a list of these{array}"


def finish(
    source: Source,
    schema: Schema,
    splits: dict[str, Columns],
    rule: dict[str, str],
    config: Any,
    notes: Sequence[str],
    *,
    protocol: dict[str, Any] | None = None,
    examples: str = "Examples",
    remark: str = "",
    decided: dict[str, Any] | None = None,
) -> Data:
    """Data with its protocol, and a note on the size of every split.

    protocol: what decides the examples beside the source and the rule, in place of the seed. decided: see Data.
    """
    sizes = {name: num_examples(columns) for name, columns in splits.items()}
    seeded = {"seed": config.seed} if protocol is None else protocol
    how = "; ".join(f"{name}: {text}" for name, text in rule.items())
    counted = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    last = f"{examples}: {counted}{f' ({how})' if how else ''}{remark}."
    return Data(
        source.name,
        schema,
        splits,
        source.files,
        (*source.notes, *filter(None, notes), last),
        {"source": source.name, **source.origin, "split": rule, **seeded, "sizes": sizes},
        decided or {},
    )


def texts_of(
    sources: Sequence[Given],
    text: bool,
    read: Callable[[Path], tuple[Iterable[str], str]],
    rows: Callable[[Records], Iterable[str]] = lambda rows: rows.texts(("text",)),
) -> tuple[list[str], list[str]]:
    """The texts in files, in rows, or those given as arguments, and a name for each.

    read: the texts of a file, and what one of them is called ("line"). rows: the texts of rows.
    """
    texts: list[str] = []
    names: list[str] = []
    for source in sources:
        if isinstance(source, Records):
            texts += rows(source)
            names += source.labels()
        elif (path := file_of(source, text)) is None:
            texts.append(source)
            names.append(source[:60])
        else:
            more, what = read(path)
            start = len(texts)
            texts += more
            names += [f"{source}, {what} {index + 1}" for index in range(len(texts) - start)]
    if not texts:
        shown = ", ".join(source for source in sources if isinstance(source, str)) or "The input"
        raise CanonError(f"{shown}: there is no text to predict from.")
    return texts, names


def tokenizer_for(
    kind: str, texts: Sequence[str], config: Any, whose: str = "", native: bool = False
) -> tuple[Tokenizer, str]:
    """A tokeniser trained on texts ("bpe" by default) or read from a file, with its own ids if `native`; and a note."""
    from canon.data.text.tokenizers import Tokenizer

    kind = kind or "bpe"
    if kind.endswith(".json"):
        tokenizer = Tokenizer.load(Path(kind).expanduser(), native=native)
    else:
        tokenizer = Tokenizer.train(texts, kind, config.vocab_size, bool(config.lowercase), config.min_count or 1)
    return tokenizer, f"The {whose}vocabulary ({kind}) has {tokenizer.size:,} tokens."


def counted(target: Target, values: np.ndarray) -> Target:
    """A target with what the training examples decide: the examples of each class, or a number's scale."""
    if isinstance(target, Number):
        wide = values.astype(np.float64)
        return replace(target, mean=float(wide.mean()), std=float(wide.std()) or 1.0)
    if target.classes:
        return replace(target, counts=tuple(np.bincount(values, minlength=len(target.classes)).tolist()))
    return target
