"""Word vectors in other people's files: what kind a file is, told by its first bytes, and its words and numbers.

| format | what it looks like |
| --- | --- |
| word2vec | `V D`, a line's end, then for each word: the word, a space, D float32, and a line's end or none (gensim) |
| word2vec-text, fastText's .vec | `V D`, then lines of a word and D numbers |
| glove | the same lines without `V D` |
| fasttext | fastText's own .bin or .ftz, with subwords (canon/interop/fasttext.py) |
| numpy | a matrix X.npy, and X.words.txt with one word on each line |
| safetensors | a matrix `vectors` [V, D] and `words`, the bytes of a UTF-8 text with one word on each line |

The first three are read in blocks, compressed or not (canon/interop/vectors_stream.py), and never held beside their
matrix; the last two are memory-mapped (vectors_mapped.py). vectors_write.py writes them. Nothing is unpickled.
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
from typing import IO, Any, Literal

import numpy as np

from canon.errors import CanonError, border, unknown
from canon.interop.word_list import WordList

Format = Literal["word2vec", "word2vec-text", "glove", "fasttext", "numpy", "safetensors"]
HEAD = 1 << 20  # bytes that are looked at
DTYPES = {"float32": np.float32, "float16": np.float16}
ERRORS = ("strict", "replace", "ignore", "surrogateescape")  # what to do with bytes that are not UTF-8

_COMPRESSED: dict[bytes, tuple[str, Callable[..., Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
    b"BZh": ("bz2", bz2.open),
}
_FASTTEXT = (793712314).to_bytes(4, "little")
_HEADER = re.compile(rb"[ \t]*([0-9]+)[ \t]+([0-9]+)[ \t\r]*")
_NUMBER = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WIDEST = 1 << 20  # numbers of a vector; more is no header
_LINES = 100  # of a file without a header whose fields are counted


@dataclass(frozen=True)
class Layout:
    """What a file's first bytes tell."""

    format: Format
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
class Options:
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
    path: str | Path,
    *,
    words: Iterable[str] | None = None,
    limit: int = 0,
    dtype: str = "float32",
    errors: str = "strict",
    partial: bool = False,
) -> VectorFile:
    """The vectors of a file of any format above, in the file's order; of a word that stands twice the first.

    words: read these only, where they are there. limit: read the first so many words only. dtype: float32 or float16.
    errors: what to do with words that are not UTF-8: strict, replace, ignore or surrogateescape. partial: read what is
    there of a file that is cut short; without it that is an error.
    """
    path = Path(path).expanduser()
    options = Options(None if words is None else WordList.of(words), limit, dtype, errors, partial)
    with border(path):
        with open_file(path) as (stream, position):
            layout, head = sniff(path, stream)
            if layout.format in ("word2vec", "word2vec-text", "glove"):
                from canon.interop.vectors_stream import Reader

                return _told(Reader(path, stream, position, layout, head, options).read(), options)
            if not isinstance(stream, BufferedReader):
                raise CanonError(
                    f"{path} is compressed, but a {layout.format} file is mapped into memory; unpack it first."
                )
        if layout.format == "fasttext":
            from canon.interop.fasttext import read_vectors

            return chosen(read_vectors(path), options)
        from canon.interop import vectors_mapped

        is_numpy = layout.format == "numpy"
        mapped = vectors_mapped.read_numpy if is_numpy else vectors_mapped.read_safetensors
        return chosen(mapped(path, errors), options)


def is_vectors(path: str | Path) -> bool:
    """Whether a file is one of the above; one that cannot be read is none."""
    path = Path(path).expanduser()
    try:
        with border(path), open_file(path) as (stream, _):
            layout = sniff(path, stream)[0]
        if layout.format != "safetensors":
            return True
        from canon.interop.vectors_mapped import matrix_of, safetensors_header

        return matrix_of(path, safetensors_header(path)) != ""
    except CanonError:
        return False


# Telling formats apart


@contextmanager
def open_file(path: Path) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
    """The file's bytes, decompressed if its first ones say so, and a function that tells how far into it they are."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CanonError(f"{path} is a device or a pipe, not a file.")
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
    except FileNotFoundError:
        raise CanonError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise CanonError(f"{path} is a folder that is not a run; give a run or a file of word vectors.") from None
    except OSError as mistake:
        raise CanonError(f"{path} cannot be read: {mistake.strerror or mistake}.") from None


def sniff(path: Path, stream: IO[bytes]) -> tuple[Layout, bytes]:
    """What the file is, and its first bytes, which have been taken from the stream."""
    head = _fill(stream)
    if not head.strip():
        raise CanonError(f"{path} is empty: it has no words.")
    if head.startswith(_FASTTEXT):
        return Layout("fasttext"), head
    if head.startswith(b"\x93NUMPY"):
        return Layout("numpy"), head
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        return Layout("safetensors"), head
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


def _sniff_words(path: Path, head: bytes, whole: bool) -> Layout:
    """Of word2vec's, GloVe's or fastText's text, or word2vec's binary."""
    mark = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    first, ended, rest = head[mark:].partition(b"\n")
    header = _HEADER.fullmatch(first)
    if header and (ended or whole):
        count, dim = int(header[1]), int(header[2])
        offset = mark + len(first) + 1
        if not rest.strip():
            raise CanonError(f"{path} ends behind its header: 0 of the {count:,} words it tells were read.")
        if not 0 < dim <= _WIDEST or not count:
            raise CanonError(f"{path}, line 1: the header tells {count:,} words of {dim} numbers each.")
        fields = _fields(rest.lstrip(b"\r\n").partition(b"\n")[0])
        numbers = _numbers_behind(fields)
        text = numbers >= min(dim, 2) and numbers >= len(fields) - 1
        return Layout("word2vec-text" if text or numbers >= dim else "word2vec", dim, count, offset)
    lines = [line for line in head[mark:].split(b"\n") if line.strip()]
    lines = lines[: -1 if len(lines) > 1 and not whole else None][:_LINES]
    fields_of = [_fields(line) for line in lines]
    widths = Counter(len(fields) - 1 for fields in fields_of if _numbers_behind(fields) >= max(len(fields) - 1, 1))
    if widths and 2 * widths.total() >= len(lines):
        return Layout("glove", widths.most_common(1)[0][0], None, mark)
    raise CanonError(
        f"{path} is no file of word vectors that is known: word2vec's (text or binary), GloVe's, fastText's (.vec, "
        ".bin), numpy's .npy and .safetensors are read."
    )


def _fields(line: bytes) -> list[bytes]:
    return [field for field in re.split(rb"[ \t\r]+", line.rstrip(b" \t\r")) if field] if len(line) < HEAD else []


def _numbers_behind(fields: list[bytes]) -> int:
    """How many numbers stand at the end of a line."""
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
    """Words in UTF-8, one on each line; bytes that are not are told, or treated as `errors` says."""
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


def chosen(found: VectorFile, options: Options) -> VectorFile:
    """Of a mapped file, the words and the type that were asked for; what is left as it is stays mapped."""
    words, matrix = found.words, found.matrix
    if not len(words):
        raise CanonError(f"{found.source} is empty: it has no words.")
    if 0 < options.limit < len(words):
        words = WordList(words.text_B[: words.ends_V[options.limit - 1] + 1], words.ends_V[: options.limit])
        matrix = matrix[: options.limit]
    notes, kept = found.notes, None
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
    return _told(replace(found, words=words, matrix=matrix, notes=notes), options)


def not_finite(matrix_VD: np.ndarray) -> np.ndarray:
    """The rows with NaN or infinite numbers."""
    step = max(1, HEAD // max(matrix_VD.shape[1], 1))
    found = [
        row + np.flatnonzero(~np.isfinite(matrix_VD[row : row + step]).all(axis=1))
        for row in range(0, len(matrix_VD), step)
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])


def repeated_note(words: WordList, rows: np.ndarray) -> str:
    shown = ", ".join(words[int(row)] for row in rows[:3]) + (" …" if len(rows) > 3 else "")
    many = f"{len(rows):,} words stand" if len(rows) > 1 else "One word stands"
    return f"{many} more than once, and the first vector counts: {shown}."


def _told(found: VectorFile, options: Options) -> VectorFile:
    """With notes on vectors that are near to nothing, and on words that were asked for in vain."""
    if len(odd := not_finite(found.matrix)):
        shown = ", ".join(found.words[int(row)] for row in odd[:3]) + (" …" if len(odd) > 3 else "")
        many = f"{len(odd):,} words have" if len(odd) > 1 else "One word has"
        note = f"{many} NaN or infinite numbers in the vector, which is near to no other: {shown}."
        found = replace(found, notes=(*found.notes, note))
    if options.words is None:
        return found
    missing = np.flatnonzero(found.words.rows(options.words) < 0)
    if not len(missing):
        return found
    shown = ", ".join(options.words[int(row)] for row in missing[:3]) + (" …" if len(missing) > 3 else "")
    note = f"{len(missing):,} of the {len(options.words):,} words asked for are not in {found.source}: {shown}."
    return replace(found, notes=(*found.notes, note))
