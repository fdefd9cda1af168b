"""Word vectors as a matrix that is mapped into memory: numpy's .npy with a file of words beside it, and .safetensors.

Shapes: V words, D numbers of a vector.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from canon.errors import CanonError, border
from canon.interop.vectors import VectorFile, decoded
from canon.interop.word_list import WordList

WORD_FILES = (".words.txt", ".words", ".vocab", ".txt")  # beside X.npy or X.safetensors, the first that is there
_STORED: dict[str, type] = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "U8": np.uint8}


def read(path: Path, format: str, errors: str) -> VectorFile:
    """A mapped matrix with its words, which are in the file itself or beside it."""
    words_file = next((file for ending in WORD_FILES if (file := path.with_suffix(ending)).is_file()), None)
    if format == "numpy":
        with border(path, "is not a whole .npy file of numbers"):
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)
        if matrix.ndim != 2 or matrix.dtype.kind != "f" or not matrix.size:
            raise CanonError(
                f"{path} holds {matrix.dtype} {list(matrix.shape)}, not a matrix with a vector in each row."
            )
        if words_file is None:
            raise CanonError(f"{path} has no words: put them in {path.with_suffix(WORD_FILES[0])}, one on each line.")
        text = words_file.read_bytes()
    else:
        entries, name = matrix_of(path)
        if 0 in entries[name]["shape"] or ("words" in entries and entries["words"]["dtype"] != "U8"):
            raise CanonError(f"{path}: {name} must have a vector in each row, and words the bytes of a text.")
        matrix = _mapped(path, entries[name])
        words_file = path if "words" in entries else words_file
        assert words_file is not None
        text = _mapped(path, entries["words"]).tobytes() if "words" in entries else words_file.read_bytes()
    text = text.replace(b"\r\n", b"\n")
    whole = text if text.endswith(b"\n") or not text else text + b"\n"
    words = WordList.of_text(np.frombuffer(decoded(whole, errors, words_file), np.uint8))
    if len(words) != len(matrix):
        where = "" if words_file == path else f"{words_file} has "
        raise CanonError(f"{path} has {len(matrix):,} vectors, but {where}{len(words):,} words.")
    return VectorFile(str(path), format, words, matrix)


def matrix_of(path: Path) -> tuple[dict[str, Any], str]:
    """The tensors of a .safetensors file (dtype, shape, first byte), and the name of the one matrix that has words."""
    with border(path, "is not a whole .safetensors file"):
        with safe_open(path, "np"):  # checks the table: sizes, places, nothing twice, nothing beyond the end
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            table = json.loads(file.read(length))
    entries = {name: dict(entry) for name, entry in table.items() if name != "__metadata__"}
    for entry in entries.values():
        entry["start"] = 8 + length + entry["data_offsets"][0]
    kinds = [kind for kind in _STORED if kind.startswith("F")]
    matrices = [name for name, entry in entries.items() if len(entry["shape"]) == 2 and entry["dtype"] in kinds]
    name = "vectors" if "vectors" in matrices else matrices[0] if len(matrices) == 1 else ""
    beside = any(path.with_suffix(ending).is_file() for ending in WORD_FILES)
    if not name or not ("words" in entries or beside):
        raise CanonError(
            f"{path} holds {', '.join(list(entries)[:5]) or 'nothing'}; word vectors are a matrix `vectors` and "
            f"`words`, the bytes of a text with one word on each line, there or in {path.with_suffix(WORD_FILES[0])}."
        )
    return entries, name


def _mapped(path: Path, entry: dict[str, Any]) -> np.ndarray:
    kind, shape = _STORED[entry["dtype"]], tuple(entry["shape"])
    return np.memmap(path, kind, "r", entry["start"], shape) if 0 not in shape else np.zeros(shape, kind)
