"""What a reader hands on: examples in columns, and the schema that tells what they are.

The schema is all that a network must know of the data (sizes) and all that `predict` needs to read more of it
(encoders). It is stored in every run as vocab/schema.json.

Columns that every reader uses: "input" (one row per example) and "target" (class index or number), where there is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from canon.data.formats.files import open_raw
from canon.data.text.words import Words
from canon.errors import CanonError, border
from canon.storage import read_json

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer

InputKind = Literal["features", "image", "text", "pairs", "corpus", "document", "tokens", "passages"]
# any: a class where the data has classes; next: the text itself, one token on; sequence: another text; labels: classes
# of which an example may have several; tags: a class of each word; span: a part of the text; choice: one of several
# texts; tokens: those of the text that an objective of pre-training asks for
TargetKind = Literal["class", "number", "none", "any", "next", "sequence", "labels", "tags", "span", "choice", "tokens"]


class Column(Protocol):
    """A column that is no array: rows are made when they are taken (images decoded from files), or of unequal length
    (canon.data.batching.sequences), when some rows are such a column again."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...
    def __len__(self) -> int: ...
    def take(self, indices: np.ndarray) -> Any: ...


Columns = Mapping[str, np.ndarray | Column]
LOST = "restore it from a copy, or train again with another --out"
_OPTIONAL = ("text", "reading", "counts")  # fields of a schema that are written only where they say something


@dataclass(frozen=True)
class Encoder:
    """How one column of a table becomes features: a number is standardised, a category becomes one-hot."""

    name: str
    kind: Literal["number", "category"]
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()  # an unseen category is all zeros


@dataclass(frozen=True)
class Reading:
    """How texts become sequences of tokens for a pre-trained network; what is asked of them is `Schema.target`."""

    framing: str  # canon.data.framing: where special tokens stand
    limit: int  # tokens of a sequence, special ones among them
    overlap: int = 0  # tokens that neighbouring windows of a long text share, where an answer is looked for in it
    columns: tuple[str, ...] = ()  # of a table: of the text, or of both texts
    monitor: str = ""  # the metric that the data set is judged by, where it has one of its own
    unanswerable: bool = False  # whether there are questions that the text does not answer


@dataclass(frozen=True)
class Schema:
    input: InputKind
    shape: tuple[int, ...]  # of one input: (features,) or (channels, height, width)
    target: TargetKind = "none"
    classes: tuple[str, ...] = ()
    label: str = ""  # name of the target's column
    encoders: tuple[Encoder, ...] = ()  # tables only
    # What the network sees is (input - mean) / std: per channel for images, scalars (length 1) otherwise.
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    white: int = 255  # images only: the value of a white pixel
    # A number to predict is trained on as (target - target_mean) / target_std.
    target_mean: float = 0.0
    target_std: float = 1.0
    # Sequences: the longest source and target of the training set, their mean lengths, and the tokenisers ("source" and
    # "target", which may be one and the same, or "text"). Tokenisers are files of their own beside the schema.
    longest: tuple[int, ...] = ()
    typical: tuple[int, ...] = ()
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    # Word vectors and documents: the vocabulary, a file of its own too; of documents in a table, the column of text.
    words: Words | None = None
    text: str = ""
    # Texts for a pre-trained network, whose tokeniser is "text".
    reading: Reading | None = None
    counts: tuple[int, ...] = ()  # training examples of each class, or words of each tag

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.tokenizers.get("source") is self.tokenizers.get("target")

    def sizes(self) -> dict[str, Any]:
        """The settings of a system that the data decides."""
        sizes: dict[str, Any] = {"shape": self.shape}
        if self.target in ("class", "labels", "tags"):
            sizes["num_classes"] = len(self.classes)
        if self.target == "sequence":
            sizes |= {f"{role}_vocab": self.tokenizers[role].size for role in ("source", "target")}
            sizes["shared_vocab"] = self.shared
        if self.reading is not None:
            sizes["kind"] = self.target
        if self.target in ("next", "tokens") or self.reading is not None:
            sizes["vocab_size"] = self.tokenizers["text"].size
        if self.words is not None:
            sizes["vocab_size"] = self.words.size
        return sizes

    def files(self) -> dict[str, str]:
        """Everything, as files by name: schema.json, one for each tokeniser, and words.tsv where there are words."""
        plain = asdict(replace(self, tokenizers={}, words=None))
        plain = {key: value for key, value in plain.items() if key != "words" and (key not in _OPTIONAL or value)}
        plain["tokenizers"] = {
            role: next(other for other, known in self.tokenizers.items() if known is own)
            for role, own in self.tokenizers.items()
        }
        found = {"schema.json": json.dumps(plain, ensure_ascii=False, indent=1)}
        if self.words is not None:
            found["words.tsv"] = self.words.to_text()
        return found | {f"{name}.json": self.tokenizers[name].to_json() for name in set(plain["tokenizers"].values())}

    @classmethod
    def open(cls, folder: Path) -> Schema:
        """What `files` gave, from where it was written to: vocab/ of a run, if it is as it was then."""
        check_vocabulary(folder.parent)
        with border(folder, f"is damaged, {LOST}"):
            return cls._of(folder)

    @classmethod
    def _of(cls, folder: Path) -> Schema:
        rows: dict[str, Any] = json.loads((folder / "schema.json").read_bytes())
        if names := rows.pop("tokenizers"):
            from canon.data.text.tokenizers import Tokenizer

            made = {name: Tokenizer.load(folder / f"{name}.json") for name in set(names.values())}
            rows["tokenizers"] = {role: made[name] for role, name in names.items()}
        if (folder / "words.tsv").is_file():
            rows["words"] = Words.from_text((folder / "words.tsv").read_text(encoding="utf-8"))
        if reading := rows.pop("reading", None):
            plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in reading.items()}
            rows["reading"] = Reading(**plain)
        table: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in rows.items()}
        encoders = ({**row, "categories": tuple(row["categories"])} for row in table.pop("encoders"))
        return cls(**table, encoders=tuple(Encoder(**row) for row in encoders))


def _hashes(record: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in record.get("vocab", {}).items()}


def check_vocabulary(run: Path) -> None:
    """Refuses vocab/ of a run where a file of it is not as data.json says that it was written."""
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

    def fingerprint(self) -> str:
        """One hash for the content of all files and the way they were split. How a pre-trained network reads its texts
        is its own affair, so that two of them may be compared."""
        schema = replace(self.schema, counts=())  # they follow from the rest
        if schema.reading is not None:
            schema = replace(schema, tokenizers={}, reading=None, longest=(), typical=())
        content = [sorted(record.sha256 for record in self.files), self.protocol, sorted(schema.files().items())]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def num_examples(columns: Columns) -> int:
    return len(next(iter(columns.values())))
