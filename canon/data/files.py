"""Opening files: compression by ending, text by encoding, and one sentence for each way a file can be bad.

Only the standard library. `lines` is the one reader of plain text: it holds one chunk, however large the file is.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from canon.errors import CanonError

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
CHUNK = 1 << 20
LONGEST_LINE = 1 << 20  # a longer line is handed out in pieces, cut at spaces: a corpus on one line fits in memory


def ending(path: Path) -> str:
    """The ending that tells the format: ".csv" for both a.csv and a.csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed; whatever goes wrong while they are read is a CanonError."""
    opener = COMPRESSIONS.get(path.suffix.lower())
    try:
        with path.open("rb") if opener is None else opener(path, "rb") as stream:
            yield stream
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as mistake:
        raise CanonError(f"{path} is not a whole {path.suffix[1:]} file ({_plain(mistake)}); fetch it again.") from None
    except FileNotFoundError:
        raise CanonError(f"There is no file {path}.") from None
    except OSError as mistake:
        if mistake.errno is None:  # bz2 says "Invalid data stream" by a bare OSError
            raise CanonError(f"{path} is not a whole {path.suffix[1:]} file ({mistake}); fetch it again.") from None
        raise CanonError(f"{path} cannot be read: {mistake.strerror}.") from None


def _plain(mistake: BaseException) -> str:
    return str(mistake).rstrip(".") or "it is cut short"


def read_bytes(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read()


def decoder(encoding: str) -> codecs.CodecInfo:
    """The codec of `data.encoding`; UTF-8 with or without a byte order mark."""
    try:
        found = codecs.lookup(encoding)
    except LookupError:
        raise CanonError(f'data.encoding: there is no encoding "{encoding}"; try utf-8, latin-1 or gb18030.') from None
    return codecs.lookup("utf-8-sig") if found.name == "utf-8" else found


def bad_bytes(path: Path, encoding: str, offset: int, line: int, value: int) -> CanonError:
    return CanonError(
        f"{path}, line {line}: byte {offset} (0x{value:02X}) is not {encoding}; "
        "say how the file is encoded with data.encoding, as in latin-1."
    )


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The whole file as text, its line ends made \\n."""
    raw = read_bytes(path)
    try:
        text = decoder(encoding).decode(raw)[0]
    except UnicodeDecodeError as mistake:
        line = raw.count(b"\n", 0, mistake.start) + 1
        raise bad_bytes(path, encoding, mistake.start, line, raw[mistake.start]) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Lines without their ends, one chunk of the file in memory at a time."""
    decode = decoder(encoding).incrementaldecoder()
    consumed, newlines, carry = 0, 0, ""
    with open_bytes(path) as stream:
        while True:
            chunk = stream.read(CHUNK)
            pending = decode.getstate()[0]
            try:
                text = decode.decode(chunk, final=not chunk)
            except UnicodeDecodeError as mistake:
                raw = pending + chunk
                line = newlines + raw.count(b"\n", 0, mistake.start) + 1
                offset = consumed - len(pending) + mistake.start
                raise bad_bytes(path, encoding, offset, line, raw[mistake.start]) from None
            consumed += len(chunk)
            newlines += text.count("\n")
            *whole, carry = (carry + text).split("\n")
            for line_text in whole:
                yield line_text.rstrip("\r")
            while len(carry) > LONGEST_LINE:
                cut = carry.rfind(" ", 0, LONGEST_LINE) + 1 or LONGEST_LINE
                yield carry[:cut].rstrip(" ")
                carry = carry[cut:]
            if not chunk:
                break
    if carry:
        yield carry.rstrip("\r")
