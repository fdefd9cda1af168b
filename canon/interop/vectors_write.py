"""Word vectors written as other tools read them: streamed in blocks beside the target, then put in its place.

word2vec's binary is written as gensim writes it, without a line's end after a vector. Numbers in a text are the
shortest that read back as the same float32. An ending .gz, .xz or .bz2 compresses.
Words with spaces or line ends are written with _ in their place where the format cannot hold them, and a note says so.
Shapes: V words, D numbers of a vector, R rows of a block, B bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from canon.data.formats.files import COMPRESSIONS
from canon.data.progress import bar
from canon.errors import CanonError, unknown
from canon.interop.vectors import some
from canon.interop.vectors_mapped import WORD_FILES
from canon.interop.word_list import WordList
from canon.kernels.cpu import vectors as kernels
from canon.storage import writing

FORMATS = ("word2vec", "word2vec-text", "glove", "fasttext-vec", "safetensors", "numpy")
_BLOCK = 1 << 20  # bytes of the matrix that are written at a time
_WIDEST = 16  # bytes of a number in a text, with the space before it
_BLANKS = b" \t\r\n\v\f"


def write(path: str | Path, to: str, words: Sequence[str], matrix_VD: np.ndarray) -> tuple[str, ...]:
    """Writes the file as a whole or not at all; gives notes on what could not be written as it was."""
    path = Path(path)
    if to not in FORMATS:
        raise unknown("format of word vectors", to, FORMATS)
    if len(words) != len(matrix_VD):
        raise CanonError(f"{len(words):,} words and {len(matrix_VD):,} vectors cannot be written to {path}.")
    mapped = to in ("safetensors", "numpy")
    if mapped and path.suffix in COMPRESSIONS:
        raise CanonError(f"{path}: {to} is mapped into memory, so it is not compressed; leave out {path.suffix}.")
    spelled, notes = _spellable(WordList.of(words), b"\n" if mapped else _BLANKS)
    beside = [path.with_suffix(WORD_FILES[0])] if to == "numpy" and path.name else []
    with ExitStack() as stack:
        part = stack.enter_context(writing(path, *beside))
        if beside:
            part, words_part = part
            words_part.write_bytes(spelled.text_B.tobytes())
        file = stack.enter_context(COMPRESSIONS.get(path.suffix.lower(), open)(part, "wb"))
        progress = stack.enter_context(bar(f"writing {path.name}", len(words)))
        if to == "safetensors":
            file.write(_safetensors_head(spelled, matrix_VD))
        elif to == "numpy":
            head = {"descr": f"<f{matrix_VD.itemsize}", "fortran_order": False, "shape": matrix_VD.shape}
            np.lib.format.write_array_header_1_0(file, head)
        elif to != "glove":
            file.write(b"%d %d\n" % matrix_VD.shape)
        starts_V, ends_V = spelled.starts(), spelled.ends_V
        step = max(1, _BLOCK // (4 * max(matrix_VD.shape[1], 1)))
        for row in range(0, len(words), step):
            part = slice(row, row + step)
            rows_RD = np.ascontiguousarray(matrix_VD[part])
            if mapped:
                file.write(rows_RD.data)
            else:
                rows_RD = rows_RD.astype("<f4", copy=False)
                _write_records(file, to == "word2vec", spelled, starts_V[part], ends_V[part], rows_RD)
            progress.advance(len(rows_RD))
        if to == "safetensors":
            file.write(spelled.text_B.tobytes())
    return notes


def _spellable(words: WordList, blanks: bytes) -> tuple[WordList, tuple[str, ...]]:
    """The words with _ for every byte of `blanks`, and a note if there was one."""
    bad_B = np.isin(words.text_B, np.frombuffer(blanks, np.uint8))
    bad_B[words.ends_V] = False
    if not bad_B.any():
        return words, ()
    text_B = np.where(bad_B, np.uint8(ord("_")), words.text_B)
    many, shown = some(words, np.unique(np.searchsorted(words.ends_V, np.flatnonzero(bad_B))), show=repr)
    return WordList(text_B, words.ends_V), (f"{many} spaces, which are written as _: {shown}.",)


def _write_records(
    file: IO[bytes], binary: bool, words: WordList, starts_R: np.ndarray, ends_R: np.ndarray, rows_RD: np.ndarray
) -> None:
    text_B = np.asarray(words.text_B).view(np.ndarray)
    size = int((ends_R - starts_R).sum()) + len(rows_RD) * (rows_RD.shape[1] * _WIDEST + 1)
    out_B = np.empty(size, np.uint8)
    if binary:
        file.write(out_B[: kernels.write_binary(text_B, starts_R, ends_R, rows_RD.view(np.uint8), out_B)].data)
        return
    while len(rows_RD):
        written, done = kernels.write_text(text_B, starts_R, ends_R, rows_RD, out_B)
        file.write(out_B[:written].data)
        if done < len(rows_RD):
            word = text_B[starts_R[done] : ends_R[done]].tobytes()
            file.write(b" ".join([word, *(str(number).encode() for number in rows_RD[done])]) + b"\n")
            done += 1
        starts_R, ends_R, rows_RD = starts_R[done:], ends_R[done:], rows_RD[done:]


def _safetensors_head(words: WordList, matrix_VD: np.ndarray) -> bytes:
    """The table of the two tensors, the matrix first, filled up with spaces to a multiple of eight bytes."""
    ends = matrix_VD.nbytes, matrix_VD.nbytes + len(words.text_B)
    name = {4: "F32", 2: "F16"}[matrix_VD.itemsize]
    table = {
        "vectors": {"dtype": name, "shape": list(matrix_VD.shape), "data_offsets": [0, ends[0]]},
        "words": {"dtype": "U8", "shape": [len(words.text_B)], "data_offsets": list(ends)},
    }
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
