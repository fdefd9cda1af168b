"""What a run knows of its data: examples in columns, and the schema that says what they are.

The schema is all that a network must know of the data (sizes) and all that `predict` needs to read more of it. It is a
small core (the target, the shape of an input, vocabularies) and what its encoding adds; every run stores it as
vocab/schema.json, with vocabularies as files of their own beside it.

Columns that every encoding uses: "input" (one row per example) and, except for unlabelled data, "target".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from canon.data import targets
from canon.data.formats.files import open_raw
from canon.data.targets import Nothing, Target
from canon.data.text.words import Words
from canon.errors import CanonError, border
from canon.storage import read_json

if TYPE_CHECKING:
    import torch

    from canon.data.batching.loader import Order
    from canon.data.text.tokenizers import Tokenizer


class Column(Protocol):
    """A column that is not an array. Rows are made when they are taken (images decoded from files), or have unequal
    lengths (canon.data.batching.sequences); some rows of the latter are again such a column."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    def __len__(self) -> int: ...
    def take(self, indices: np.ndarray) -> Any: ...


@runtime_checkable
class Batched(Column, Protocol):
    """A column whose rows become several arrays of a batch: tokens, their lengths and the like."""

    def batch(self, name: str, indices: np.ndarray) -> dict[str, np.ndarray]: ...


@runtime_checkable
class Running(Column, Protocol):
    """A column whose rows hang together, as pieces of one text do: some of them are the first ones."""

    running: bool


Columns = Mapping[str, np.ndarray | Column]
LOST = "restore it from a copy, or train again with another --out"


@dataclass(frozen=True)
class Schema:
    encoding: ClassVar[str]
    one_shape: ClassVar[bool] = False  # whether all inputs have the same shape
    in_streams: ClassVar[bool] = False  # whether the rows are pieces of one text, read side by side in its order
    target: Target = field(default_factory=Nothing)
    shape: tuple[int, ...] = ()  # of one input, where all have the same: (features,) or (channels, height, width)
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)  # by role: text, or source and target
    words: Words | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        return self.target.classes

    @property
    def scaling(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation: what the network reads is (input − mean) / std, by channel or by one number."""
        return (0.0,), (1.0,)

    def sizes(self) -> dict[str, Any]:
        """The settings of a system that the data decides."""
        vocabulary = self.tokenizers.get("text") if self.words is None else self.words
        size = {} if vocabulary is None else {"vocab_size": vocabulary.size}
        return {"shape": self.shape, **self.target.sizes(), **size}

    def order(self, columns: Columns, batch: int, tokens: int, seed: int, device: torch.device | None = None) -> Order:
        """Which rows make each batch: `batch` examples, or about so many tokens where those are given."""
        from canon.data.batching.loader import ByLength, Shuffled

        if tokens:
            return ByLength(*self.lengths(columns), tokens, seed)
        return Shuffled(num_examples(columns), batch, seed, device)

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """Of each example: a number by which examples of similar length are sorted together, and its tokens."""
        raise CanonError("train.tokens is for systems that read text as tokens; give train.batch instead.")

    def unit(self, columns: Columns) -> tuple[float, str]:
        """What is counted per second, and how many of them an example has on average."""
        return 1.0, "examples"

    def shown(self, inputs: Any, row: int) -> str:
        """One of the inputs for a person to read; "" where there is no text for it."""
        return ""

    def column_kinds(self) -> dict[str, int]:
        """How many columns of each kind a table has; of what is not a table, none."""
        return {}

    def comparable(self) -> Schema:
        """Without what each network decides for itself, so that two of them may be compared on the same data."""
        return self

    # Files

    def files(self) -> dict[str, str]:
        """Everything, as files by name: schema.json, one for each tokeniser, and words.tsv where there are words."""
        plain = {
            "encoding": self.encoding,
            "target": targets.to_record(self.target),
            "shape": self.shape,
            "tokenizers": {
                role: next(other for other, known in self.tokenizers.items() if known is tokenizer)
                for role, tokenizer in self.tokenizers.items()
            },
            **self._added(),
        }
        content = {"schema.json": json.dumps(plain, ensure_ascii=False, indent=1)}
        if self.words is not None:
            content["words.tsv"] = self.words.to_text()
        return content | {f"{name}.json": self.tokenizers[name].to_json() for name in set(plain["tokenizers"].values())}

    def _added(self) -> dict[str, Any]:
        """What the encoding adds, as JSON."""
        values = asdict(replace(self, tokenizers={}, words=None))
        return {key: value for key, value in values.items() if key not in _CORE}

    @classmethod
    def _of(cls, added: dict[str, Any], **core: Any) -> Self:
        """From what `_added` gave, read back."""
        values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in added.items()}
        return cls(**core, **values)

    @classmethod
    def open(cls, folder: Path) -> Schema:
        """Reads what `files` gave from the folder that it was written to: vocab/ of a run, which must be unchanged."""
        from canon.data import encodings

        check_vocabulary(folder.parent)
        with border(folder, f"is damaged, {LOST}"):
            added: dict[str, Any] = json.loads((folder / "schema.json").read_bytes())
            if "encoding" not in added:
                earlier = "was made by an earlier version of canon: use that version, or train again"
                raise CanonError(f"{folder.parent} {earlier}.")
            schema = encodings.find(added.pop("encoding")).schema
            core: dict[str, Any] = {"target": targets.from_record(added.pop("target"))}
            core["shape"] = tuple(added.pop("shape"))
            if names := added.pop("tokenizers"):
                from canon.data.text.tokenizers import Tokenizer

                tokenizers = {name: Tokenizer.load(folder / f"{name}.json") for name in set(names.values())}
                core["tokenizers"] = {role: tokenizers[name] for role, name in names.items()}
            if (folder / "words.tsv").is_file():
                core["words"] = Words.from_text((folder / "words.tsv").read_text(encoding="utf-8"))
            return schema._of(added, **core)


_CORE = tuple(each.name for each in fields(Schema))


@dataclass(frozen=True)
class TokenSchema(Schema):
    """Of sequences of tokens: how long they are in the training set, of source and target where there are two."""

    longest: tuple[int, ...] = ()
    typical: tuple[int, ...] = ()  # the mean

    def measured(self, *lengths: np.ndarray) -> Self:
        """With the lengths of the training sequences, of each side."""
        longest = tuple(int(side.max()) for side in lengths)
        return replace(self, longest=longest, typical=tuple(round(float(side.mean())) for side in lengths))


def _hashes(record: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in record.get("vocab", {}).items()}


def check_vocabulary(run: Path) -> None:
    """Refuses vocab/ of a run if one of its files does not have the hash that data.json recorded."""
    hashes = read_json(run / "data.json", _hashes) if (run / "data.json").is_file() else {}
    for name, wanted in hashes.items():
        path = run / "vocab" / name
        with border(path, f"is missing or damaged, {LOST}"):
            if hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                raise CanonError(f"{path} is not as it was written (its sha256 differs); {LOST}.")


@dataclass(frozen=True)
class FileRecord:
    name: str  # as the user would write it
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        with open_raw(path) as file:
            return cls(str(path), path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


@dataclass(frozen=True)
class Data:
    """Everything read from one source: train, valid and test columns, and what they are."""

    name: str
    schema: Schema
    splits: dict[str, Columns]
    files: tuple[FileRecord, ...] = ()
    notes: tuple[str, ...] = ()  # what was decided for the user: label column, split, sizes
    protocol: dict[str, Any] = field(default_factory=dict)  # how the splits were made; compare refuses unlike ones
    decided: dict[str, Any] = field(default_factory=dict)  # settings of [data] that nobody gave, as they were chosen
    more: dict[str, Columns] = field(default_factory=dict)  # what is neither learned from by its labels nor scored

    def fingerprint(self) -> str:
        """One hash for the content of all files and the way they were split."""
        schema = sorted(self.schema.comparable().files().items())
        content = [sorted(record.sha256 for record in self.files), self.protocol, schema]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def num_examples(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def take(columns: Columns, rows: np.ndarray) -> Columns:
    """Some rows of every column."""
    return {name: c[rows] if isinstance(c, np.ndarray) else c.take(rows) for name, c in columns.items()}


def some(columns: Columns, limit: int) -> Columns:
    """At most so many rows from all over a split, whose order may mean something; of a running text its beginning."""
    if num_examples(columns) <= limit:
        return columns
    running = isinstance(columns["input"], Running)
    return take(columns, np.arange(limit) if running else np.linspace(0, num_examples(columns) - 1, limit).astype(int))
