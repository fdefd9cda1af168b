"""Word2vec's, GloVe's and fastText's text, and word2vec's binary, read in blocks: one block and the matrix in memory.

A block is cut into records by a compiled loop, the words that are wanted are chosen, and their numbers go to the matrix
by another. The matrix grows in place as rows come, so a header that lies about their number costs nothing.
Shapes: B bytes of a block, R records in it, V words, D numbers of a vector.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import IO

import numpy as np

from canon.data.progress import bar
from canon.errors import CanonError
from canon.interop.vectors import DTYPES, VectorFile, VectorLayout, VectorOptions, decoded, repeated_note
from canon.interop.word_list import WordList
from canon.kernels.cpu import vectors as kernels
from canon.kernels.cpu.words import gather, keep_rows

BLOCK = 1 << 20
_RECORDS = 1 << 14  # most that a block is cut into at a time
_LARGEST_BLOCK = 1 << 30  # a longer line is not a vector
_HARD = 256  # numbers of a block left to Python, before more room is made for them


class _GrowingMatrix:
    """A matrix to which rows are added. It is a mapping without a file, which the system makes longer without copying
    (numpy's resize copies), and whose pages take memory only when they are written to."""

    def __init__(self, dim: int, dtype: str, expected: int) -> None:
        self.count = 0
        self._dim, self._dtype = dim, np.dtype(DTYPES[dtype])
        self._width = dim * self._dtype.itemsize
        try:
            self._room = _mapping((expected + expected // 64) * self._width)
        except (OSError, ValueError, OverflowError):  # a header that says more than there can be
            self._room = _mapping(self._width)

    def add(self, rows_RD: np.ndarray) -> None:
        size = self.count + len(rows_RD)
        if size * self._width > len(self._room):
            self._resize((size + size // 8) * self._width)
        with np.errstate(over="ignore"):  # what is beyond float16 is infinite there
            self._matrix(size)[self.count :] = rows_RD
        self.count = size

    def keep(self, again_V: np.ndarray) -> None:
        """Takes out the rows that are marked."""
        keep_rows(self._matrix(self.count).view(np.uint8), again_V)
        self.count -= int(again_V.sum())

    def done(self) -> np.ndarray:
        self._resize(self.count * self._width)
        return self._matrix(self.count)

    def _matrix(self, rows: int) -> np.ndarray:
        return np.frombuffer(self._room, self._dtype, rows * self._dim).reshape(rows, self._dim)

    def _resize(self, size: int) -> None:
        try:
            self._room.resize(max(size, 1))
        except SystemError:  # a system that cannot: then it is copied, or left longer than it need be
            if size > len(self._room):
                longer = _mapping(size)
                longer[: len(self._room)] = self._room[:]
                self._room = longer


def _mapping(size: int) -> mmap.mmap:
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return mmap.mmap(-1, max(size, 1), **flags)


class BlockReader:
    """`read` gives what canon.interop.vectors.read does; `head` are the bytes that were looked at already."""

    def __init__(
        self,
        path: Path,
        stream: IO[bytes],
        position: Callable[[], int],
        layout: VectorLayout,
        head: bytes,
        options: VectorOptions,
    ) -> None:
        self.path, self.layout, self.options = path, layout, options
        self._stream, self._position, self._head = stream, position, memoryview(head)[layout.offset :]
        self._binary = layout.format == "word2vec"
        # After the words of its header a binary file may hold anything; lines of a text can be counted.
        ends = [options.limit or None, layout.count if self._binary else None]
        self._most = min((end for end in ends if end is not None), default=None)
        self._rows = _GrowingMatrix(layout.dim, options.dtype, self._expected())
        self._seen = 0  # words of the file so far
        self._lines = 1 if layout.count is not None else 0
        self._texts: list[np.ndarray] = []
        self._cut = ""  # where the file ends though it should not
        self._notes: list[str] = []

    def _expected(self) -> int:
        """Rows to make room for, which take no memory before they are filled."""
        if self.options.words is not None:
            return len(self.options.words)
        records = len(self._head) // (4 * self.layout.dim) if self._binary else bytes(self._head).count(b"\n")
        guess = self.layout.count or records
        if isinstance(self._stream, BufferedReader):  # not compressed, so that the size is known
            fitting = max(records, 1) * self.path.stat().st_size // max(len(self._head), 1) + 1
            guess = min(self.layout.count or fitting, fitting)
        return min(guess, self._most or guess)

    def read(self) -> VectorFile:
        block_B = np.empty(BLOCK + 1, np.uint8)  # one more for a line's end that the file lacks
        filled, ended, done = 0, False, 0
        with bar(f"reading {self.path.name}", self.path.stat().st_size, unit="bytes") as progress:
            while not self._has_enough():
                while not ended and filled < len(block_B) - 1:
                    got = self._read_into(block_B[filled:-1].data)
                    filled, ended = filled + got, not got
                used = self._consume(block_B, filled, ended)
                block_B[: filled - used] = block_B[used:filled].copy()
                filled -= used
                if not used and ended:
                    break
                if not used and len(block_B) > _LARGEST_BLOCK:
                    raise CanonError(f"{self.path} is damaged: a line is longer than {_LARGEST_BLOCK >> 30} GB.")
                if not used:
                    block_B = np.concatenate([block_B[:-1], np.empty(len(block_B), np.uint8)])
                progress.advance(self._position() - done)
                done = self._position()
        more = bool(block_B[:filled].tobytes().strip(b"\n"))
        if not more and self._has_enough() and not self.options.limit:
            more = bool(self._stream.read(1))
        return self._result(more)

    def _has_enough(self) -> bool:
        return self._most is not None and self._seen >= self._most

    def _read_into(self, room: memoryview) -> int:
        if len(self._head):
            size = min(len(self._head), len(room))
            room[:size] = self._head[:size]
            self._head = self._head[size:]
            return size
        try:
            return self._stream.readinto1(room)  # type: ignore[attr-defined]  # what comes before an error is not lost
        except EOFError:
            self._cut = "in the middle of its compressed data"
            return 0

    # Records

    def _consume(self, block_B: np.ndarray, filled: int, ended: bool) -> int:
        """Takes the whole records of block[:filled]; gives the bytes that they are."""
        dim = self.layout.dim
        most = min(_RECORDS, BLOCK // (2 * dim + 1) + 1)
        if self._most is not None:
            most = min(most, self._most - self._seen)
        starts_R, ends_R, data_R = np.empty((3, most), np.int64)
        lines = 0
        if self._binary:
            count, used, wrong = kernels.split_binary(block_B, filled, dim, most, starts_R, ends_R, data_R)
        else:
            if unfinished := ended and filled > 0 and block_B[filled - 1] != kernels.NEWLINE:
                block_B[filled] = kernels.NEWLINE
            count, used, lines, wrong = kernels.split_text(
                block_B, filled + unfinished, dim, most, starts_R, ends_R, data_R
            )
        if wrong and not count:
            self._refuse(wrong, block_B[used:filled], ended)
        self._take(block_B, starts_R[:count], ends_R[:count], data_R[:count])
        self._seen += count
        self._lines += lines
        return min(used, filled)

    def _refuse(self, wrong: int, rest_B: np.ndarray, ended: bool) -> None:
        """The sentence for a record that is none, unless it is the last line of a file that is cut short."""
        if wrong == kernels.LONG:
            raise self._damaged()
        line, newline, _ = rest_B.tobytes().partition(b"\n")
        if wrong == kernels.FEW and ended and not newline:
            return
        says = "the header says" if self.layout.count is not None else "the others have"
        raise CanonError(
            f"{self.path}, line {self._lines + 1:,}: {len(line.split()) - 1} numbers where {says} {self.layout.dim}."
        )

    def _damaged(self) -> CanonError:
        return CanonError(
            f"{self.path}: word {self._seen + 1:,} or one soon after it is not a text: the file is damaged, or its "
            f"vectors do not have the {self.layout.dim} numbers that its header says."
        )

    def _take(self, block_B: np.ndarray, starts_R: np.ndarray, ends_R: np.ndarray, data_R: np.ndarray) -> None:
        """The words and numbers of the records that are wanted."""
        if self.options.words is not None:
            wanted = self.options.words.rows_in(block_B, starts_R, ends_R) >= 0
            starts_R, ends_R, data_R = starts_R[wanted], ends_R[wanted], data_R[wanted]
        if not len(starts_R):
            return
        text_B = np.empty(int((ends_R - starts_R).sum()) + len(starts_R), np.uint8)
        gather(block_B, starts_R, ends_R, text_B)
        if self._binary and np.count_nonzero((text_B == kernels.NEWLINE) | (text_B == 0)) != len(starts_R):
            raise self._damaged()
        self._texts.append(np.frombuffer(decoded(text_B.tobytes(), self.options.errors, self.path), np.uint8))
        rows_RD = np.empty((len(data_R), self.layout.dim), np.float32)
        if self._binary:
            kernels.copy_numbers(block_B, data_R, rows_RD.view(np.uint8))
        else:
            self._parse(block_B, data_R, rows_RD)
        self._rows.add(rows_RD)

    def _parse(self, block_B: np.ndarray, data_R: np.ndarray, rows_RD: np.ndarray) -> None:
        hard = np.empty((_HARD, 4), np.int64)
        left = kernels.parse_numbers(block_B, data_R, rows_RD, hard)
        if left > _HARD:
            hard = np.empty((left, 4), np.int64)
            kernels.parse_numbers(block_B, data_R, rows_RD, hard)
        for row, number, start, stop in hard[:left].tolist():
            text = block_B[start:stop].tobytes()
            try:
                with np.errstate(over="ignore"):
                    rows_RD[row, number] = float(text.replace(b"_", b"?"))  # Python reads 1_000 as a number
            except ValueError:
                shown = text.decode("utf-8", "replace")
                line = self._lines + 1 + np.count_nonzero(block_B[:start] == kernels.NEWLINE)
                raise CanonError(f'{self.path}, line {line:,}: "{shown}" is not a number.') from None

    # The end

    def _result(self, more: bool) -> VectorFile:
        self._check_end(more)
        text_B = np.concatenate(self._texts) if self._texts else np.zeros(0, np.uint8)
        words = WordList.of_text(text_B)
        if not len(words) and self.options.words is None:
            raise CanonError(f"{self.path} is empty: it has no words.")
        if len(again := words.repeated):
            again_V = np.zeros(len(words), np.bool_)
            again_V[again] = True
            self._rows.keep(again_V)
            self._notes.append(repeated_note(words, again))
            words = words.take(np.flatnonzero(~again_V))
        return VectorFile(str(self.path), self.layout.format, words, self._rows.done(), tuple(self._notes))

    def _check_end(self, more: bool) -> None:
        """A file that is cut short, or whose header says another number of words; `more`: bytes are left."""
        path, seen, count = self.path, self._seen, self.layout.count
        if self.options.limit and seen >= self.options.limit:
            return
        of = f"{seen:,} of the {count:,} words that its header says" if count is not None else f"{seen:,} words"
        if more and not self._has_enough():
            self._cut = self._cut or f"in the middle of a {'vector' if self._binary else 'line'}"
        problem = rest = ""
        if self._cut or (count is not None and seen < count):
            problem, rest = f"{path} ends {f'{self._cut}, ' if self._cut else ''}after {of}", "these"
        elif more or (count is not None and seen > count):
            problem, rest = f"{path} has more than the {count:,} words that its header says", f"{seen:,}"
        if problem and not self.options.partial:
            raise CanonError(f"{problem}; fetch it again, or read what is there with partial=True (--partial).")
        if problem:
            self._notes.append(f"{problem}; {rest} were read.")
