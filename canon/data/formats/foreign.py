"""Common files that no kind of data reads, and what to do with them; and whether a file of another ending is text."""

from __future__ import annotations

from pathlib import Path

from canon.data.formats.files import CHUNK, decoded, ending, open_bytes
from canon.errors import CanonError

_CONVERT = {
    "is a spreadsheet: save it as CSV": (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"),
    "is an archive: unpack it and give the folder or file in it": (".zip", ".7z", ".rar"),
    "is a document: save its text as .txt": (".pdf", ".doc", ".docx", ".odt", ".rtf", ".html", ".htm", ".epub"),
    "holds arrays or tables of another program: write them as CSV or Parquet": (
        *(
            ".npy",
            ".npz",
            ".mat",
            ".h5",
            ".hdf5",
            ".pkl",
            ".pickle",
            ".rds",
            ".rdata",
            ".feather",
            ".arff",
            ".sav",
            ".dta",
        ),
        *(".db", ".sqlite"),
    ),
}
_PRINTED = 0.95  # of a text's characters, at least


def instead_of(path: Path) -> str:
    """What a file of another program is and what to do with it; "" for others."""
    return next((what for what, endings in _CONVERT.items() if ending(path) in endings), "")


def is_readable(path: Path) -> bool:
    """Whether the beginning of a file is text, whatever its ending."""
    if instead_of(path) or not path.is_file():
        return False
    try:
        with open_bytes(path) as stream:
            if b"\0" in stream.read(CHUNK):
                return False
        head = next(decoded(path, ""))[:CHUNK]
    except CanonError:
        return False
    printed = sum(letter.isprintable() or letter.isspace() for letter in head[:10_000])
    return printed > _PRINTED * min(len(head), 10_000) > 0
