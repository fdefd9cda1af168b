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


def read_numpy(path: Path, errors: str) -> VectorFile:
    with border(path, "is not a whole .npy file of numbers"):
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or not matrix.size:
        raise CanonError(f"{path} holds {matrix.dtype} {list(matrix.shape)}, not a matrix with a vector in each row.")
    words_file = _words_file(path)
    if words_file is None:
        raise CanonError(f"{path} has no words: put them in {path.with_suffix(WORD_FILES[0])}, one on each line.")
    words = _listed(words_file.read_bytes(), errors, words_file)
    if len(words) != len(matrix):
        raise CanonError(f"{path} has {len(matrix):,} vectors, but {words_file} has {len(words):,} words.")
    return VectorFile(str(path), "numpy", words, matrix)


def _words_file(path: Path) -> Path | None:
    beside = [path.with_suffix(ending) for ending in WORD_FILES]
    return next((file for file in beside if file.is_file()), None)


def _listed(text: bytes, errors: str, path: Path) -> WordList:
    """The words of a text with one on each line, the last of which may lack its end."""
    if b"\r\n" in text:
        text = text.replace(b"\r\n", b"\n")
    whole = text if text.endswith(b"\n") or not text else text + b"\n"
    return WordList.of_text(np.frombuffer(decoded(whole, errors, path), np.uint8))


def safetensors_header(path: Path) -> dict[str, Any]:
    """The file's tensors by name: dtype, shape, and the first byte of each."""
    with border(path, "is not a whole .safetensors file"):
        with safe_open(path, "np"):  # checks the table: sizes, places, nothing twice, nothing beyond the end
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            table = json.loads(file.read(length))
    entries = {name: dict(entry) for name, entry in table.items() if name != "__metadata__"}
    for entry in entries.values():
        entry["start"] = 8 + length + entry["data_offsets"][0]
    return entries


def matrix_of(path: Path, entries: dict[str, Any]) -> str:
    """The name of the one matrix that has words, in the file or beside it; "" for none."""
    kinds = [kind for kind in _STORED if kind.startswith("F")]
    matrices = [name for name, entry in entries.items() if len(entry["shape"]) == 2 and entry["dtype"] in kinds]
    name = "vectors" if "vectors" in matrices else matrices[0] if len(matrices) == 1 else ""
    return name if "words" in entries or _words_file(path) is not None else ""


def read_safetensors(path: Path, errors: str) -> VectorFile:
    entries = safetensors_header(path)
    name = matrix_of(path, entries)
    if not name:
        raise CanonError(
            f"{path} holds {', '.join(list(entries)[:5]) or 'nothing'}; word vectors are a matrix `vectors` and "
            f"`words`, the bytes of a text with one word on each line, there or in {path.with_suffix(WORD_FILES[0])}."
        )
    if 0 in entries[name]["shape"] or ("words" in entries and entries["words"]["dtype"] != "U8"):
        raise CanonError(f"{path}: {name} must have a vector in each row, and words the bytes of a text.")
    matrix = _mapped(path, entries[name])
    words_file = path if "words" in entries else _words_file(path)
    assert words_file is not None
    text = _mapped(path, entries["words"]).tobytes() if "words" in entries else words_file.read_bytes()
    found = _listed(text, errors, words_file)
    if len(found) != len(matrix):
        raise CanonError(f"{path} has {len(matrix):,} vectors but {len(found):,} words.")
    return VectorFile(str(path), "safetensors", found, matrix)


def _mapped(path: Path, entry: dict[str, Any]) -> np.ndarray:
    kind, shape = _STORED[entry["dtype"]], tuple(entry["shape"])
    return np.memmap(path, kind, "r", entry["start"], shape) if 0 not in shape else np.zeros(shape, kind)
