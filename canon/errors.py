"""The one shape of error that users see.

A `CanonError` is a mistake reported in one sentence: what is wrong, where (recipe key, or file and line), what is
accepted, what to do. The command line prints it and exits with code 2. Foreign input is read inside `border`, which
makes such a sentence of whatever reading it throws, for Python callers too.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class CanonError(ValueError):
    """A user's mistake, or something that the machine refused, in one sentence."""


class NonFinite(CanonError):
    """A loss or gradient that is not a number; the weights are still those before the step."""


class TooLarge(CanonError):
    """A step that does not fit into memory; `setting` is one with which it does, "" if none was found."""

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class Unforeseen(Exception):
    """A bug of ours: `log` names the file that has its traceback; the error itself is the cause."""

    def __init__(self, log: str | Path) -> None:
        super().__init__(str(log))
        self.log = str(log)


@contextmanager
def border(where: str | Path, cannot: str = "cannot be read") -> Iterator[None]:
    """For code that reads foreign input: any error inside becomes a CanonError that names the input."""
    try:
        yield
    except CanonError:
        raise
    except (Exception, SystemExit) as error:
        raise CanonError(f"{where} {cannot}: {reason(error)}.") from error


def reason(error: BaseException) -> str:
    """Why something failed, as the end of a sentence."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "").rstrip(".")
    if is_out_of_memory(error):
        return "it needs more memory than there is"
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding.upper()} text (byte {error.start})"
    if isinstance(error, UnicodeEncodeError):
        return f"it holds {error.object[error.start]!r}, which is half a character"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full"
    if isinstance(error, OSError):
        return (error.strerror or text).lower()
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}" if error.args else "something is missing in it"
    if isinstance(error, ValueError) and "integer string conversion" in text:
        return "it holds a number of over 4,300 digits"
    return text or type(error).__name__


# How torch and numpy report that a size is beyond the machine: there is no type for these errors.
_TOO_LARGE = re.compile(
    r"can't allocate memory|not enough memory|out of memory|Unable to allocate|[Ss]torage size calculation overflowed"
    r"|array is too big|Maximum allowed (size|dimension) exceeded|bad allocation|std::bad_alloc|numel: integer"
    r" multiplication overflow|unsupported tensor size|cannot fit 'int'|too large to convert|Overflow when unpacking"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine has less memory than was asked for."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    kinds = RuntimeError | ValueError | OverflowError | TypeError
    return isinstance(error, kinds) and bool(_TOO_LARGE.search(str(error)))


def sentence(error: BaseException) -> str:
    """The sentence for an error that the machine or the input caused; "" for one that only a bug explains."""
    if isinstance(error, CanonError):
        return str(error)
    if is_out_of_memory(error):
        return "This needs more memory than there is: choose smaller sizes (train.micro_batch, train.batch, system.…)."
    if isinstance(error, OSError):
        why = reason(error)
        return f"{error.filename}: {why}." if error.filename is not None else f"{why[:1].upper()}{why[1:]}."
    if isinstance(error, RecursionError):
        return "Some input is nested too deeply to be read."
    if isinstance(error, UnicodeError) or (isinstance(error, ValueError) and "integer string conversion" in str(error)):
        return f"Some text cannot be read or written: {reason(error)}."
    return ""


def unknown(what: str, name: str, known: Iterable[str]) -> CanonError:
    """The error for a name that is not in a list: it suggests the nearest name, or lists all if there are few."""
    names = sorted(known)
    near = _nearest(name, names)
    if near:
        hint = f"did you mean {near}?"
    elif names and len(names) <= 12:
        hint = f"there are: {', '.join(names)}."
    else:
        hint = f"there are {len(names)} of them."
    return CanonError(f'No {what} "{name}"; {hint}')


def _nearest(name: str, names: list[str]) -> str:
    """The known name with the nearest number where only a number differs, else the one most alike; "" for none."""
    numbers = {}
    words = re.split(r"([0-9]+)", name)  # resnet:35 is "resnet:", "35", "": every second one is a number
    for other in names:
        parts = re.split(r"([0-9]+)", other)
        pairs = list(zip(words[1::2], parts[1::2], strict=False))
        differing = [(ours, theirs) for ours, theirs in pairs if ours != theirs]
        if words[::2] == parts[::2] and len(differing) == 1:
            ours, theirs = differing[0]
            numbers[other] = abs(int(ours) - int(theirs))
    if numbers:
        return min(numbers, key=numbers.__getitem__)
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), "")
