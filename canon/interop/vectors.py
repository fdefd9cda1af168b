"""Word vectors in other people's files: which format a file has, seen from its first bytes, and its words and numbers.

| format | what it looks like |
| --- | --- |
| word2vec | `V D`, a line's end, then for each word: the word, a space, D float32, and a line's end or none (gensim) |
| word2vec-text, fastText's .vec | `V D`, then lines of a word and D numbers |
| glove | the same lines without `V D` |
| numpy | a matrix X.npy, and X.words.txt with one word on each line |
| safetensors | a matrix `vectors` [V, D] and `words`, the bytes of a UTF-8 text with one word on each line |

The first three are read in blocks, compressed or not (canon/interop/vectors_stream.py), and never held beside their
matrix; the last two are memory-mapped (vectors_mapped.py). vectors_write.py writes them. fastText's .bin has a module
of its own (fasttext.py). Nothing is unpickled.
Shapes: V words, D numbers of a vector.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from canon.config import Table
from canon.errors import CanonError, border, unknown
from canon.interop import formats
from canon.interop.formats import Candidate, FileChoices, Format, GivesVectors, Written
from canon.interop.word_list import WordList

if TYPE_CHECKING:
    from canon.interop.network import Network

HEAD = 1 << 20  # bytes that are looked at
DTYPES = {"float32": np.float32, "float16": np.float16}
ERRORS = ("strict", "replace", "ignore", "surrogateescape")  # what to do with bytes that are not UTF-8

_COMPRESSED: dict[bytes, tuple[str, Callable[..., Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"BZh": ("bz2", bz2.open),
}
_MAPPED = ("numpy", "safetensors")
_FASTTEXT = (793712314).to_bytes(4, "little")
_HEADER = re.compile(rb"[ \t]*([0-9]+)[ \t]+([0-9]+)[ \t\r]*")
_NUMBER = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WIDEST = 1 << 20  # numbers of a vector; more is not a header
_LINES = 100  # of a file without a header whose fields are counted


@dataclass(frozen=True)
class VectorLayout:
    """What a file's first bytes say."""

    format: str
    dim: int = 0
    count: int | None = None  # of words, where a header says so
    offset: int = 0  # where the first word begins


@dataclass(frozen=True)
class VectorFile:
    """What was read: row i of the matrix is the vector of word i."""

    source: str
    format: str
    words: WordList
    matrix: np.ndarray  # [V, D]
    notes: tuple[str, ...] = ()
    subwords: Callable[[str], np.ndarray | None] | None = None  # the vector of any word, where the file has n-grams

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]


@dataclass(frozen=True)
class VectorOptions:
    words: WordList | None = None  # these only
    limit: int = 0  # the first so many words of the file; 0: all
    dtype: str = "float32"
    errors: str = "strict"
    partial: bool = False  # take what there is of a file that is cut short

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise unknown("type of vectors (dtype)", self.dtype, DTYPES)
        if self.errors not in ERRORS:
            raise unknown("way with bad bytes (errors)", self.errors, ERRORS)
        if self.limit < 0:
            raise CanonError(f"limit must be a whole number of words, 0 for all, got {self.limit}.")


def read(
    source: str | Path,
    *,
    words: Iterable[str] | None = None,
    limit: int = 0,
    dtype: str = "float32",
    errors: str = "strict",
    partial: bool = False,
) -> VectorFile:
    """The vectors of a run, or of a file of any format that holds some, in the file's order.

    Of a word that occurs twice the first counts. words: read these only, where they are there. limit: read the first
    so many words only. dtype: float32 or float16. errors: what to do with words that are not UTF-8: strict, replace,
    ignore or surrogateescape. partial: read what is there of a file that is cut short; without it that is an error.
    """
    options = VectorOptions(None if words is None else WordList.of(words), limit, dtype, errors, partial)
    origin: Any = formats.open(source, "vectors")
    return origin.vectors(options)


class VectorTable(GivesVectors):
    """A file of one of the formats above."""

    def __init__(self, path: Path, layout: VectorLayout) -> None:
        super().__init__(path, layout.format)
        self.layout = layout

    @property
    def sizes(self) -> Table:
        sizes = {"words": self.layout.count, "dim": self.layout.dim}
        return {name: size for name, size in sizes.items() if size}

    def vectors(self, options: VectorOptions) -> VectorFile:
        with border(self.path):
            if self.layout.format in _MAPPED:
                from canon.interop import vectors_mapped

                return chosen(vectors_mapped.read(self.path, self.layout.format, options.errors), options)
            from canon.interop.vectors_stream import BlockReader

            with open_file(self.path) as (stream, position):
                _, head = sniff(self.path, stream)
                return _noted(BlockReader(self.path, stream, position, self.layout, head, options).read(), options)

    def network(self, choices: FileChoices) -> Network:
        from canon.interop.word_weights import network_of

        return network_of(self.vectors(choices.vectors or VectorOptions()))


def recognise(candidate: Candidate) -> VectorTable | None:
    with open_file(candidate.path) as (stream, _):
        layout, _ = sniff(candidate.path, stream)
    if layout is not None and layout.format == "safetensors":
        from canon.interop.vectors_mapped import matrix_of

        matrix_of(candidate.path)
    return None if layout is None else VectorTable(candidate.path, layout)


def write_as(format: Format, origin: GivesVectors, target: Path, options: VectorOptions) -> Written:
    """Writes the vectors that `origin` holds in one of the formats above."""
    from canon.interop import vectors_write

    file = origin.vectors(options)
    notes = vectors_write.write(target, format.name, file.words, file.matrix)
    return Written(kind=file.format, words=len(file.words), dim=file.dim, notes=(*file.notes, *notes))


# Telling formats apart


@contextmanager
def open_file(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The file's bytes, decompressed if its first ones say so, and a function that says how far into it they are."""
    try:
        with path.open("rb") as raw:
            start = raw.read(8)
            raw.seek(0)
            name, opener = next((how for magic, how in _COMPRESSED.items() if start.startswith(magic)), ("", None))
            if opener is None:
                yield raw, raw.tell
                return
            try:
                with opener(raw, "rb") as stream:
                    yield stream, raw.tell
            except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as mistake:
                raise CanonError(
                    f"{path} is not a whole {name} file ({mistake or 'cut short'}); fetch it again."
                ) from None
    except OSError as mistake:
        raise CanonError(f"{path} cannot be read: {mistake.strerror or mistake}.") from None


def sniff(path: Path, stream: IO[bytes]) -> tuple[VectorLayout | None, bytes]:
    """What the file is, None for nothing that is known, and its first bytes, which have been taken from the stream."""
    head = _fill(stream)
    if not head.strip():
        raise CanonError(f"{path} is empty: it has no words.")
    magic = {_FASTTEXT: "fasttext-bin", b"\x93NUMPY": "numpy"}
    mapped = next((name for first, name in magic.items() if head.startswith(first)), "")
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        mapped = "safetensors"
    if mapped and not isinstance(stream, BufferedReader):
        raise CanonError(f"{path} is compressed, but a {mapped} file is mapped into memory; unpack it first.")
    if mapped:
        return VectorLayout(mapped) if mapped in _MAPPED else None, head
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        by = "gensim" if b"gensim" in head else "another tool"
        raise CanonError(
            f"{path} is a pickle of {by}, which may run code when it is read; save its vectors there in word2vec's "
            'format, in gensim with model.wv.save_word2vec_format("vectors.bin", binary=True).'
        )
    if head.startswith(b"PK\x03\x04"):
        raise CanonError(f"{path} is a zip file of {_members(path)}; unpack it and give one of them.")
    return _sniff_words(path, head, whole=len(head) < HEAD), head


def _fill(stream: IO[bytes]) -> bytes:
    parts, size = [], 0
    while size < HEAD and (part := stream.read(HEAD - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _sniff_words(path: Path, head: bytes, whole: bool) -> VectorLayout | None:
    """Word2vec's, GloVe's or fastText's text, or word2vec's binary."""
    mark = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    first, ended, rest = head[mark:].partition(b"\n")
    header = _HEADER.fullmatch(first)
    if header and (ended or whole):
        count, dim = int(header[1]), int(header[2])
        offset = mark + len(first) + 1
        if not rest.strip():
            raise CanonError(f"{path} ends after its header: 0 of its {count:,} words were read.")
        if not 0 < dim <= _WIDEST or not count:
            raise CanonError(f"{path}, line 1: the header says {count:,} words of {dim} numbers each.")
        fields = _fields(rest.lstrip(b"\r\n").partition(b"\n")[0])
        numbers = _numbers_at_end(fields)
        text = numbers >= min(dim, 2) and numbers >= len(fields) - 1
        return VectorLayout("word2vec-text" if text or numbers >= dim else "word2vec", dim, count, offset)
    lines = [line for line in head[mark:].split(b"\n") if line.strip()]
    lines = lines[: -1 if len(lines) > 1 and not whole else None][:_LINES]
    fields_of = [_fields(line) for line in lines]
    widths = Counter(len(fields) - 1 for fields in fields_of if _numbers_at_end(fields) >= max(len(fields) - 1, 1))
    if widths and 2 * widths.total() >= len(lines):
        return VectorLayout("glove", widths.most_common(1)[0][0], None, mark)
    return None


def _fields(line: bytes) -> list[bytes]:
    return [field for field in re.split(rb"[ \t\r]+", line.rstrip(b" \t\r")) if field] if len(line) < HEAD else []


def _numbers_at_end(fields: list[bytes]) -> int:
    """How many numbers are at the end of a line."""
    count = 0
    for field in reversed(fields):
        if not _NUMBER.fullmatch(field):
            break
        count += 1
    return count


def _members(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return ", ".join(archive.namelist()[:5]) or "nothing"
    except zipfile.BadZipFile:
        return "which the end is missing"


# What was asked for


def decoded(text: bytes, errors: str, path: Path) -> bytes:
    """Words in UTF-8, one on each line; bytes that are not UTF-8 are treated as `errors` says."""
    try:
        text.decode("utf-8")
        return text
    except UnicodeDecodeError as mistake:
        if errors == "strict":
            start = text.rfind(b"\n", 0, mistake.start) + 1
            word = text[start:].split(b"\n", 1)[0].decode("utf-8", "replace")
            raise CanonError(
                f'{path}: the word "{word}" is not UTF-8 (byte 0x{text[mistake.start]:02X}); give errors as replace, '
                "ignore or surrogateescape to read on."
            ) from None
    return text.decode("utf-8", errors).encode("utf-8", "surrogateescape")


def chosen(file: VectorFile, options: VectorOptions) -> VectorFile:
    """Of a mapped file, the words and the type that were asked for; what is left as it is stays mapped."""
    words, matrix = file.words, file.matrix
    if not len(words):
        raise CanonError(f"{file.source} is empty: it has no words.")
    if 0 < options.limit < len(words):
        words = WordList(words.text_B[: words.ends_V[options.limit - 1] + 1], words.ends_V[: options.limit])
        matrix = matrix[: options.limit]
    notes, kept = file.notes, None
    if len(again := words.repeated):
        notes += (repeated_note(words, again),)
        kept = np.delete(np.arange(len(words)), again)
    if options.words is not None:
        rows = words.rows(options.words)
        kept = np.unique(rows[rows >= 0])
    if kept is not None:
        words, matrix = words.take(kept), matrix[kept]
    dtype = DTYPES[options.dtype]
    wider = matrix.dtype.itemsize > 4 or options.dtype == "float16"
    if matrix.dtype != dtype and wider:
        matrix = matrix.astype(dtype)
    return _noted(replace(file, words=words, matrix=matrix, notes=notes), options)


def not_finite(matrix_VD: np.ndarray) -> np.ndarray:
    """The rows with NaN or infinite numbers."""
    step = max(1, HEAD // max(matrix_VD.shape[1], 1))
    rows = [
        row + np.flatnonzero(~np.isfinite(matrix_VD[row : row + step]).all(axis=1))
        for row in range(0, len(matrix_VD), step)
    ]
    return np.concatenate([np.zeros(0, np.int64), *rows])


def some(
    words: WordList, rows: np.ndarray, one: str = "has", several: str = "have", show: Callable[[str], str] = str
) -> tuple[str, str]:
    """ "2 words have", and the first three words, of some rows."""
    shown = ", ".join(show(words[int(row)]) for row in rows[:3]) + (" …" if len(rows) > 3 else "")
    return f"{len(rows):,} words {several}" if len(rows) > 1 else f"One word {one}", shown


def repeated_note(words: WordList, rows: np.ndarray) -> str:
    many, shown = some(words, rows, "stands", "stand")
    return f"{many} more than once, and the first vector counts: {shown}."


def _noted(file: VectorFile, options: VectorOptions) -> VectorFile:
    """With notes on vectors that have no neighbours, and on words that were asked for but are not there."""
    notes = file.notes
    if len(odd := not_finite(file.matrix)):
        many, shown = some(file.words, odd)
        notes += (f"{many} NaN or infinite numbers in the vector, which is near to no other: {shown}.",)
    if options.words is not None and len(missing := np.flatnonzero(file.words.rows(options.words) < 0)):
        shown = some(options.words, missing)[1]
        count = f"{len(missing):,} of the {len(options.words):,} words asked for"
        notes += (f"{count} are not in {file.source}: {shown}.",)
    return replace(file, notes=notes)
