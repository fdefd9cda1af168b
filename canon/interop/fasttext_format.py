"""fastText's own files, both ways: .bin of word vectors and of classifiers, and quantised .ftz, which are only read.

A file is a magic number and a version, the settings, the dictionary (words, then labels, with their counts; and where
n-grams were pruned, which are left), the input matrix (a row per word and n-gram) and the output matrix (one per word,
or per label). Everything is little-endian. Matrices are mapped, not loaded: a row is read when it is asked for.
A quantised matrix keeps one byte for some neighbouring numbers of a row, an index into 256 centroids (Jégou, Douze and
Schmid 2011, Product quantization for nearest neighbor search), and perhaps one for the row's length; it is unpacked.
What a file answers, and how it becomes a run, is in canon.interop.fasttext.
Shapes: V words, B buckets of n-grams, K labels, D dimensions.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from canon.data.text.words import Words
from canon.errors import CanonError, border
from canon.storage import writing

MAGIC = 793712314
VERSION = 12
LABEL = "__label__"  # what a label begins with, in the file too; another prefix is not in the file

_MODELS: dict[int, Literal["cbow", "skip-gram", "classifier"]] = {1: "cbow", 2: "skip-gram", 3: "classifier"}
_LOSSES = {1: "hierarchical-softmax", 2: "negative-sampling", 3: "softmax", 4: "one-vs-all"}
_SETTINGS = struct.Struct("<12id")
_SIZES = struct.Struct("<3i2q")
_CENTROIDS = 256
_LONGEST = 1000  # n-grams
_BLOCK = 1 << 24  # bytes copied at once


@dataclass(frozen=True)
class FastTextSettings:
    """fastText's arguments, as far as they are in a file, in its order; `model` and `loss` by name."""

    dim: int = 100
    window: int = 5
    epochs: int = 5
    min_count: int = 5
    negatives: int = 5
    word_ngrams: int = 1
    loss: str = "negative-sampling"
    model: str = "skip-gram"
    buckets: int = 2_000_000
    minn: int = 3
    maxn: int = 6
    lr_update_rate: int = 100
    subsample: float = 1e-4


@dataclass(frozen=True, eq=False)
class FastTextModel:
    """What is in a file."""

    settings: FastTextSettings
    words: Words
    input: np.ndarray  # [V + B, D], or as many rows as are left of the n-grams
    output: np.ndarray  # [V, D] of vectors, [K, D] of a classifier; the last row of a hierarchical softmax is unused
    labels: tuple[str, ...] = ()
    label_counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    pruned: np.ndarray | None = None  # [P, 2] int32: bucket, and its row after the words'; None where all are there
    quantised: bool = False

    @cached_property
    def pruned_rows(self) -> dict[int, int] | None:
        return None if self.pruned is None else dict(self.pruned.tolist())

    @cached_property
    def is_finite(self) -> bool:
        """Whether no number of the output is NaN or infinite; the input's are looked at where they are used."""
        return bool(np.isfinite(self.output).all())

    @property
    def is_classifier(self) -> bool:
        return self.settings.model == "classifier"


def read(path: Path) -> FastTextModel:
    """The content of a .bin or .ftz; dense matrices are mapped."""
    with border(path):
        if not path.stat().st_size:  # nothing to map
            raise CanonError(f"{path} is empty.")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _ModelReader(path, content).model()


class _ModelReader:
    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self.path, self.content, self.at = path, content, 0

    def model(self) -> FastTextModel:
        magic, version = self.unpack("<2i", "the header")
        if magic != MAGIC:
            raise CanonError(f"{self.path} is not a fastText model: it does not begin with {MAGIC}, but with {magic}.")
        if version not in (11, 12):
            raise CanonError(f"{self.path} is of version {version} of fastText's format; 11 and 12 can be read.")
        settings = self.settings(version)
        words, labels, label_counts, pruned = self.dictionary()
        (quantised,) = self.unpack("<?", "the input matrix")
        left = settings.buckets if pruned is None else len(pruned)
        columns = settings.dim
        input_matrix = self.matrix("input", quantised, words.size + left, columns)
        if pruned is not None and not quantised:
            raise CanonError(
                f"{self.path} has pruned n-grams, but its matrix is not quantised: fastText never wrote it."
            )
        (quantised_output,) = self.unpack("<?", "the output matrix")
        rows = len(labels) if settings.model == "classifier" else words.size
        output = self.matrix("output", quantised and quantised_output, rows, columns)
        return FastTextModel(settings, words, input_matrix, output, labels, label_counts, pruned, quantised)

    def unpack(self, form: str, what: str) -> tuple[Any, ...]:
        size = struct.calcsize(form)
        values = struct.unpack_from(form, self.content, self.need(size, what))
        self.at += size
        return values

    def need(self, size: int, what: str, progress: str = "") -> int:
        """Where the next `size` bytes begin; they must all be there."""
        if self.at + size > len(self.content):
            read = progress or f"{len(self.content) - self.at:,} of {size:,} bytes of it were read"
            raise CanonError(f"{self.path} is cut short: it ends within {what}; {read}.")
        return self.at

    def settings(self, version: int) -> FastTextSettings:
        numbers = list(self.unpack(_SETTINGS.format, "the settings"))
        for place, names in ((6, _LOSSES), (7, _MODELS)):
            if numbers[place] not in names:
                raise CanonError(
                    f"{self.path} does not have fastText's settings: its {'loss' if place == 6 else 'model'} is "
                    f"{numbers[place]}, not 1 to {len(names)}."
                )
            numbers[place] = names[numbers[place]]
        settings = FastTextSettings(*numbers)
        if settings.dim < 1 or settings.buckets < 0:
            raise CanonError(
                f"{self.path} does not have fastText's settings: {settings.dim} dimensions, {settings.buckets} buckets."
            )
        longest = max(settings.minn, settings.maxn, settings.word_ngrams)
        if min(settings.minn, settings.maxn, settings.word_ngrams) < 0 or longest > _LONGEST:
            raise CanonError(f"{self.path} does not have fastText's settings: n-grams of up to {longest:,}.")
        if version == 11 and settings.model == "classifier":  # these had no letter n-grams, whatever the settings say
            return FastTextSettings(**{**vars(settings), "maxn": 0})
        return settings

    def dictionary(self) -> tuple[Words, tuple[str, ...], np.ndarray, np.ndarray | None]:
        size, num_words, num_labels, total, num_pruned = self.unpack(_SIZES.format, "the dictionary")
        if min(size, num_words, num_labels) < 0 or num_words + num_labels != size:
            raise CanonError(
                f"{self.path} has a wrong dictionary: {num_words:,} words and {num_labels:,} labels, but "
                f"{size:,} entries."
            )
        names: list[str] = []
        counts = np.empty(min(size, len(self.content)), np.int64)
        for entry in range(size):
            progress = f"{entry:,} of {size:,} entries were read"
            end = self.content.find(b"\0", self.at)
            name = self.content[self.at : end] if end >= 0 else b""
            self.at = end + 1 if end >= 0 else len(self.content)
            counts[entry], kind = struct.unpack_from("<qb", self.content, self.need(9, "the dictionary", progress))
            self.at += 9
            if kind != (entry >= num_words):
                raise CanonError(
                    f"{self.path} has a wrong dictionary: entry {entry + 1:,} of {size:,} should be a "
                    f"{'label' if entry >= num_words else 'word'}."
                )
            names.append(name.decode("utf-8", "surrogateescape"))
        pruned = None
        if num_pruned >= 0:
            start = self.need(8 * num_pruned, "the list of pruned n-grams")
            pruned = np.frombuffer(self.content[start : start + 8 * num_pruned], "<i4").reshape(-1, 2)
            self.at += 8 * num_pruned
            if num_pruned and not 0 <= pruned[:, 1].min() <= pruned[:, 1].max() < num_pruned:
                raise CanonError(f"{self.path} has pruned n-grams in rows that it does not have.")
        words = Words(names[:num_words], counts[:num_words], total)
        return words, tuple(names[num_words:]), counts[num_words:], pruned

    def matrix(self, name: str, quantised: bool, least: int, columns: int) -> np.ndarray:
        """The next matrix; one with fewer rows than `least` or another width is not this dictionary's."""
        qnorm = self.unpack("<?", f"the {name} matrix")[0] if quantised else False
        rows, width = self.unpack("<2q", f"the {name} matrix")
        if width != columns or rows < least:
            raise CanonError(
                f"{self.path} has {name} vectors of {rows:,} rows and {width:,} columns, where its "
                f"dictionary and settings ask for {least:,} and {columns:,}."
            )
        if quantised:
            return self.unpacked(name, rows, width, qnorm)
        here = (len(self.content) - self.at) // (4 * width)
        start = self.need(4 * rows * width, f"the {name} matrix", f"{here:,} of {rows:,} rows were read")
        self.at += 4 * rows * width
        if not rows:
            return np.zeros((0, width), np.float32)
        return np.memmap(self.path, "<f4", "r", start, (rows, width))

    def unpacked(self, name: str, rows: int, width: int, qnorm: bool) -> np.ndarray:
        what = f"the {name} matrix"
        (size,) = self.unpack("<i", what)
        codes = np.frombuffer(self.bytes(size, what), np.uint8)
        parts = self.centroids(width, what)
        if size != rows * len(parts):
            raise CanonError(
                f"{self.path} has {size:,} codes in its {name} matrix, which says {rows:,} rows of {len(parts)}."
            )
        codes = codes.reshape(rows, len(parts))
        dense = np.concatenate([part[codes[:, place]] for place, part in enumerate(parts)], axis=1)
        if qnorm:
            norms = np.frombuffer(self.bytes(rows, what), np.uint8)
            dense *= self.centroids(1, what)[0][norms]
        return dense

    def bytes(self, size: int, what: str) -> bytes:
        start = self.need(size, what)
        self.at += size
        return self.content[start : self.at]

    def centroids(self, width: int, what: str) -> list[np.ndarray]:
        """Of every part of a row, 256 centroids: [256, numbers of that part]."""
        dim, parts, part, last = self.unpack("<4i", what)
        if dim != width or min(parts, part, last) < 1 or (parts - 1) * part + last != dim:
            raise CanonError(
                f"{self.path} has a wrong quantiser in {what}: {parts} parts of {part} for {width} numbers."
            )
        numbers = np.frombuffer(self.bytes(4 * dim * _CENTROIDS, what), "<f4")
        cut = [_CENTROIDS * part * place for place in range(1, parts)]
        return [block.reshape(_CENTROIDS, -1) for block in np.split(numbers, cut)]


def in_memory(matrix: np.ndarray) -> np.ndarray:
    """A mapped matrix as an array of its own, read past the map, so that it is in memory once."""
    if not isinstance(matrix, np.memmap) or matrix.filename is None:
        return np.array(matrix, np.float32)
    copy = np.empty(matrix.shape, np.float32)
    with Path(matrix.filename).open("rb", buffering=0) as file:
        file.seek(matrix.offset)
        left = copy.reshape(-1).view(np.uint8).data
        while left:
            got = file.readinto(left[:_BLOCK])
            if not got:
                raise CanonError(f"{matrix.filename} became shorter while it was read.")
            left = left[got:]
    return copy


def write(path: Path, model: FastTextModel) -> None:
    """A .bin that fasttext loads."""
    settings, words = model.settings, model.words
    if model.pruned is not None:
        raise CanonError(f"{path} cannot be written: its n-grams are pruned, which only a quantised .ftz can say.")
    codes = {name: code for names in (_LOSSES, _MODELS) for code, name in names.items()}
    rows = len(model.labels) if model.is_classifier else words.size
    for name, matrix, wanted in (("input", model.input, words.size + settings.buckets), ("output", model.output, rows)):
        if matrix.shape != (wanted, settings.dim):
            raise CanonError(
                f"{path} cannot be written: {name} vectors of shape {tuple(matrix.shape)}, where "
                f"({wanted}, {settings.dim}) is asked for."
            )
    with writing(path) as part, part.open("wb") as file:
        file.write(struct.pack("<2i", MAGIC, VERSION))
        numbers = [codes[value] if isinstance(value, str) else value for value in vars(settings).values()]
        file.write(_SETTINGS.pack(*numbers))
        size = words.size + len(model.labels)
        file.write(_SIZES.pack(size, words.size, len(model.labels), words.total, -1))
        for kind, names, counts in ((0, words.words, words.counts), (1, model.labels, model.label_counts)):
            for name, count in zip(names, counts.tolist(), strict=True):
                file.write(name.encode("utf-8", "surrogateescape") + struct.pack("<xqb", count, kind))
        for matrix in (model.input, model.output):
            file.write(struct.pack("<?2q", False, *matrix.shape))
            _write_rows(file, matrix)


def _write_rows(file: BinaryIO, matrix: np.ndarray) -> None:
    step = max(1, _BLOCK // (4 * max(1, matrix.shape[1])))
    for row in range(0, len(matrix), step):
        file.write(np.ascontiguousarray(matrix[row : row + step], "<f4").data)
