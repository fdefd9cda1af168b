"""Opening files: compression by ending, text by encoding, and one sentence for each way a file can be bad.

Every file of a user's is opened by `open_raw`, which refuses whatever is not a regular file: a device may never end,
and a pipe that nobody writes to never begins. Only the standard library. `decoded` is the one reader of text: it holds
one chunk, however large the file is.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from canon.data.formats.old_encodings import guess_encoding
from canon.errors import CanonError, border

COMPRESSIONS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
CHUNK = 1 << 20
LONGEST_LINE = 1 << 20  # a longer line is handed out in pieces, cut at spaces: a corpus on one line fits in memory
BOM = b"\xef\xbb\xbf"
_NOT_TEXT = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")  # codecs, but not of files


def ending(path: Path) -> str:
    """The ending that names the format: ".csv" for both a.csv and a.csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def require_readable(path: Path) -> None:
    """A path must be a file or a folder whose name is text; what is not there is for others to report."""
    with border(ascii(str(path))):
        if not path.exists():
            return
        mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise CanonError(f"{path} is {what}; give a file or a folder.")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise CanonError(f"The name {str(path)!a} is not UTF-8 text; rename the file.") from None


@contextmanager
def open_raw(path: Path) -> Iterator[io.BufferedReader]:
    """The file's bytes as they lie; whatever goes wrong while they are read is a CanonError."""
    require_readable(path)
    with border(path):
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            raise CanonError(f"There is no file {path}.") from None
        with stream:
            yield stream


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed; whatever goes wrong while they are read is a CanonError."""
    opener = COMPRESSIONS.get(path.suffix.lower())
    with open_raw(path) as raw:
        if opener is None:
            yield raw
            return
        try:
            with opener(raw, "rb") as stream:
                yield stream
        except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, OSError) as mistake:
            if isinstance(mistake, OSError) and mistake.errno is not None:
                raise
            # bz2 says "Invalid data stream" by a bare OSError
            reason = str(mistake).rstrip(".") or "it is cut short"
            raise CanonError(f"{path} is not a whole {path.suffix[1:]} file ({reason}); fetch it again.") from None


def read_raw(path: Path) -> bytes:
    with open_raw(path) as stream:
        return stream.read()


def read_bytes(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read()


def decoder(encoding: str) -> codecs.CodecInfo:
    """The codec of `data.encoding`, UTF-8 where it says none; UTF-8 with or without a byte order mark."""
    try:
        codec = codecs.lookup(encoding or "utf-8")
    except (LookupError, ValueError):
        codec = None
    # As Python's open does: rot13, base64 and the like are codecs, too.
    if codec is None or not codec._is_text_encoding or codec.name in _NOT_TEXT:
        shown = ascii(encoding)[1:-1]
        raise CanonError(f'data.encoding: there is no text encoding "{shown}"; try utf-8, latin-1 or gb18030.')
    return codecs.lookup("utf-8-sig") if codec.name == "utf-8" else codec


def decoded(path: Path, encoding: str = "utf-8", translate: bool = False, zeros: bool = True) -> Iterator[str]:
    """The file as text, a chunk at a time. translate: \\r\\n and \\r become \\n; zeros: whether it may have U+0000."""
    encoding = encoding or encoding_of(path)
    codec = decoder(encoding)
    decode: Any = codec.incrementaldecoder()
    if translate:
        decode = io.IncrementalNewlineDecoder(decode, translate=True)
    bytewise = "\0".encode(codec.name.removesuffix("-sig")) == b"\0"  # a byte 0 is a character
    consumed, newlines = 0, 0
    with open_bytes(path) as stream:
        while True:
            chunk = stream.read(CHUNK)
            raw = decode.getstate()[0] + chunk
            start = consumed + len(chunk) - len(raw)
            try:
                text, bad = decode.decode(chunk, final=not chunk), -1
            except UnicodeDecodeError as mistake:
                text, bad = "", mistake.start
            zero = raw.find(b"\0", 0, bad if bad >= 0 else None) if bytewise else text.find("\0")
            if zero >= 0 and not zeros:
                line = newlines + (raw.count(b"\n", 0, zero) if bytewise else text.count("\n", 0, zero)) + 1
                where = f"byte {start + zero} is 0x00" if bytewise else "a character is U+0000"
                raise CanonError(f"{path}, line {line}: {where}, so this is not a text file; give another.")
            if bad >= 0:
                line = newlines + raw.count(b"\n", 0, bad) + 1
                raise CanonError(
                    f"{path}, line {line}: byte {start + bad} (0x{raw[bad]:02X}) is not {encoding}; "
                    'set data.encoding to the encoding of the file, as in "latin-1".'
                )
            consumed += len(chunk)
            newlines += text.count("\n")
            yield text
            if not chunk:
                return


def encoding_of(path: Path) -> str:
    """The encoding of a text file by its first bytes: UTF-8, UTF-16 with its mark, or an older one that fits."""
    if not path.is_file():  # opening it says so
        return "utf-8"
    facts = path.stat()
    return _encoding_of(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=256)
def _encoding_of(path: Path, *stamp: int) -> str:
    with open_bytes(path) as stream:
        head = stream.read(CHUNK)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and len(head) > 3:
        return "utf-16"
    if b"\0" in head:
        return "utf-8"
    return guess_encoding(head, whole=len(head) < CHUNK)


def undecoded(path: Path, encoding: str = "utf-8") -> CanonError | None:
    """Why the beginning of a file is not text in an encoding; None where it is, or is not text in any."""
    with open_bytes(path) as stream:
        if b"\0" in stream.read(CHUNK):
            return None
    try:
        next(decoded(path, encoding))
    except CanonError as mistake:
        return mistake
    return None


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The whole file as text, its line ends made \\n."""
    return "".join(decoded(path, encoding, translate=True))


def whole_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Lines with their ends, which are \\n, however long they are; one chunk of the file in memory at a time."""
    held: list[str] = []  # the beginning of a line
    for text in decoded(path, encoding, translate=True):
        *whole, last = text.split("\n")
        for line in whole:
            yield "".join((*held, line, "\n"))
            held.clear()
        held.append(last)
    if any(held):
        yield "".join(held)


def lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """Lines without their ends, one chunk of the file in memory at a time; one over LONGEST_LINE comes in pieces."""
    carry = ""
    for text in decoded(path, encoding):
        *whole, carry = (carry + text).split("\n")
        for line in whole:
            yield line.rstrip("\r")
        while len(carry) > LONGEST_LINE:
            cut = carry.rfind(" ", 0, LONGEST_LINE) + 1 or LONGEST_LINE
            yield carry[:cut].rstrip(" ")
            carry = carry[cut:]
    if carry:
        yield carry.rstrip("\r")


def utf8(path: Path, encoding: str = "utf-8") -> Iterator[bytes]:
    """The file as UTF-8, a chunk at a time; bytes of a file that is UTF-8 are not checked."""
    if decoder(encoding := encoding or encoding_of(path)).name != "utf-8-sig":
        yield from (text.encode("utf-8", "replace") for text in decoded(path, encoding))
        return
    with open_bytes(path) as stream:
        first = stream.read(len(BOM))
        yield b"" if first == BOM else first
        while chunk := stream.read(CHUNK):
            yield chunk
