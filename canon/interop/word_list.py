"""Many words in little memory: a read-only sequence of texts that lie end to end in UTF-8, found by a hash table.

A list of str and a dict take 150 bytes a word, which is a third of a vector of a hundred numbers; this takes 30. Bytes
that are not UTF-8 come as lone surrogates, as Python's file names do, and go back as they were.
Shapes: B bytes, V words, S slots of the hash table, Q words asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

_AT_ONCE = 1 << 14  # words that are decoded together
_FEW = 1 << 16
_SPELLINGS = 3  # that are suggested for a word that is not there


class WordList(Sequence[str]):
    """`text` holds each word and a line's end after it; `ends` says where the words end."""

    def __init__(self, text_B: np.ndarray, ends_V: np.ndarray) -> None:
        self.text_B = text_B
        self.ends_V = ends_V

    @classmethod
    def of(cls, words: Iterable[str]) -> WordList:
        if isinstance(words, WordList):
            return words
        content = [word.encode("utf-8", "surrogateescape") for word in words]
        ends_V = np.cumsum([len(word) + 1 for word in content], dtype=np.int64) - 1
        return cls(np.frombuffer(b"".join(word + b"\n" for word in content), np.uint8), ends_V)

    @classmethod
    def of_text(cls, text_B: np.ndarray) -> WordList:
        """Of words with a line's end after each, in UTF-8; what comes after the last line's end is not read."""
        return cls(text_B, np.flatnonzero(np.asarray(text_B) == 10))

    def __len__(self) -> int:
        return len(self.ends_V)

    def starts(self) -> np.ndarray:
        """Where each word begins: int64 [V]."""
        return np.concatenate([np.zeros(min(len(self), 1), np.int64), self.ends_V[:-1] + 1])

    def encoded(self, row: int) -> bytes:
        start = int(self.ends_V[row - 1]) + 1 if row else 0
        return self.text_B[start : int(self.ends_V[row])].tobytes()

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[one] for one in range(len(self))[row]]
        return self.encoded(range(len(self))[row]).decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _AT_ONCE):
            last = min(first + _AT_ONCE, len(self))
            start = int(self.ends_V[first - 1]) + 1 if first else 0
            text = self.text_B[start : int(self.ends_V[last - 1])].tobytes().decode("utf-8", "surrogateescape")
            words = text.split("\n")
            # A word with a line's end in it is cut in two by that; then they are taken one by one.
            yield from words if len(words) == last - first else (self[row] for row in range(first, last))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.row(word) >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"WordList({len(self):,} words)"

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows by slot, and which rows repeat a word that stood before."""
        kernels = _kernels()
        rows_S = np.full(1 << max(2 * len(self) - 1, 1).bit_length(), kernels.EMPTY, np.int32)
        again_V = np.zeros(len(self), np.bool_)
        kernels.index_words(_plain(self.text_B), self.ends_V, rows_S, again_V)
        return rows_S, np.flatnonzero(again_V)

    @cached_property
    def _index(self) -> tuple[dict[bytes, int], np.ndarray]:
        """`_table` of a few words, without kernels: a dict is made sooner than numba is imported."""
        text, start = self.text_B.tobytes(), 0
        rows: dict[bytes, int] = {}
        again = []
        for row, end in enumerate(self.ends_V.tolist()):
            if rows.setdefault(text[start:end], row) != row:
                again.append(row)
            start = end + 1
        return rows, np.array(again, np.int64)

    @property
    def repeated(self) -> np.ndarray:
        """The rows whose word stood before."""
        return (self._index if len(self) <= _FEW else self._table)[1]

    def row(self, word: str) -> int:
        """The first row of `word`, or -1."""
        return int(self.rows([word])[0])

    def rows(self, words: Iterable[str]) -> np.ndarray:
        """The first row of each word, or -1: int64 [Q]."""
        if len(self) <= _FEW and not isinstance(words, WordList):
            rows = self._index[0]
            return np.array([rows.get(word.encode("utf-8", "surrogateescape"), -1) for word in words], np.int64)
        asked = WordList.of(words)
        return self.rows_in(asked.text_B, asked.starts(), asked.ends_V)

    def rows_in(self, asked_B: np.ndarray, starts_Q: np.ndarray, stops_Q: np.ndarray) -> np.ndarray:
        out_Q = np.empty(len(starts_Q), np.int64)
        text_B, asked_B = _plain(self.text_B), _plain(asked_B)
        _kernels().find_words(text_B, self.ends_V, self._table[0], asked_B, starts_Q, stops_Q, out_Q)
        return out_Q

    def take(self, rows: np.ndarray) -> WordList:
        starts_R, ends_R = self.starts()[rows], self.ends_V[rows]
        ends = np.cumsum(ends_R - starts_R + 1) - 1
        text_B = np.empty(int(ends[-1]) + 1 if len(rows) else 0, np.uint8)
        _kernels().gather(_plain(self.text_B), starts_R, ends_R, text_B)
        return WordList(text_B, ends)

    def nearest(self, word: str, count: int = _SPELLINGS) -> list[str]:
        """The words spelled most like `word`, by letters that differ and then by their order; none where all do."""
        asked = word.encode("utf-8", "surrogateescape")
        limit = min(3 if len(asked) > len(word) else 2, len(asked) // 2)  # bytes: a letter of Chinese has three
        distance_V = np.empty(len(self), np.uint8)
        asked_B = np.frombuffer(asked, np.uint8)
        _kernels().edit_distances(_plain(self.text_B), self.ends_V, asked_B, limit, distance_V)
        near = np.flatnonzero(distance_V <= limit)
        order = near[np.argsort(distance_V[near], kind="stable")[:count]]
        cased = [variant for variant in (word.lower(), word.upper(), word.title()) if variant in self]
        return list(dict.fromkeys([*cased, *(self[int(row)] for row in order)]))[:count]


def _kernels() -> Any:
    """Imported when they are needed: telling what a file is needs no numba."""
    from canon.kernels.cpu import words as kernels_words

    return kernels_words


def _plain(array: np.ndarray) -> Any:
    """A read-only view without numpy's memmap class: one compiled form for all."""
    view = np.asarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view
