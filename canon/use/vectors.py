"""Word vectors of a run, or of another tool's file, in memory or mapped from disk: neighbours, analogies, tests.

Neighbours are the words of largest cosine; an analogy a : b = c : ? is answered by 3CosAdd (Levy and Goldberg 2014),
the word of largest cos(d, b − a + c) with all three scaled to length 1, other than a, b and c. Both go through the
matrix in blocks: beside it, memory holds one length per word and the block, never words × words.
Deviations: none. Shapes: V words, D numbers of a vector, Q questions, R rows of a block, K answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from canon.data.progress import bar
from canon.errors import CanonError, border, unknown
from canon.interop import vectors
from canon.interop.word_list import WordList

if TYPE_CHECKING:
    from canon.data.formats.word_tests import Tests

Unknown = Literal["subwords", "error"]
_BLOCK = 1 << 20  # similarities in memory at a time, and numbers of a matrix that is converted to float32
_MAPPED = 64  # times as many numbers are read at a time if they are float32 already


class Neighbor(NamedTuple):
    word: str
    similarity: float  # cosine


class Vectors:
    """Word vectors by word: `vectors["king"]`, neighbours, analogies.

    words: the words.
    matrix: [V, D] float32 or float16, row i for words[i].
    source: what errors call these vectors.
    notes: remarks about the file that was read.
    subwords: computes the vector of any word.
    unknown: what happens for a word without a row: "subwords" computes its vector if possible, else it is an error
        with the nearest spellings; "error" is always an error.
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: np.ndarray,
        *,
        source: str = "This set of vectors",
        notes: Sequence[str] = (),
        subwords: Callable[[str], np.ndarray | None] | None = None,
        unknown: Unknown = "subwords",
    ) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix):
            raise CanonError(f"{source}: {len(words):,} words do not fit a matrix of shape {list(matrix.shape)}.")
        self.words = WordList.of(words)
        self.matrix = matrix
        self.source = source
        self.notes = tuple(notes)
        self.unknown = _policy(unknown)
        self._subwords = subwords

    @classmethod
    def open(
        cls,
        source: str | Path,
        *,
        words: Iterable[str] | None = None,
        limit: int = 0,
        dtype: str = "float32",
        errors: str = "strict",
        partial: bool = False,
        unknown: Unknown = "subwords",
    ) -> Vectors:
        """The vectors of a run, or of a file whose format its first bytes show (docs/word-vectors.md).

        source: a run directory or a file.
        words: only these.
        limit: only the first so many; 0 is all.
        dtype: "float32" or "float16".
        errors: what happens to bytes that are not UTF-8, as in bytes.decode.
        partial: whether a file that ends early is read as far as it goes.
        unknown: as for the class.
        """
        _policy(unknown)
        options: dict[str, Any] = {"words": words, "limit": limit, "dtype": dtype, "errors": errors, "partial": partial}
        with border(source, "cannot be looked for"):
            of_texts = (Path(source).expanduser() / "rows.jsonl").is_file()  # canon/use/search/store.py
        if of_texts:
            raise CanonError(f"{source} has vectors of texts, not of words: canon search {source} TEXT finds them.")
        read = vectors.read(source, **options)
        named: dict[str, Any] = {"source": read.source, "notes": read.notes, "subwords": read.subwords}
        return cls(read.words, read.matrix, **named, unknown=unknown)

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.words

    def __repr__(self) -> str:
        return f"Vectors({len(self):,} words of {self.dim} numbers, {self.source})"

    def __getitem__(self, word: str) -> np.ndarray:
        return self.vector(word)

    def vector(self, word: str) -> np.ndarray:
        """Its vector [D], float32; that of an unknown word as `unknown` says.

        word: as it is spelled in the list.
        """
        row = self.words.row(word)
        if row >= 0:
            return np.array(self.matrix[row], np.float32)
        vector = self._subwords(word) if self._subwords is not None and self.unknown == "subwords" else None
        if vector is None:
            near = self.words.nearest(word)
            hint = f"the nearest spellings are {', '.join(near)}" if near else f"it has {len(self):,} others"
            raise CanonError(f'{self.source} has no word "{word}"; {hint}.')
        return np.asarray(vector, np.float32)

    def similarity(self, a: str, b: str) -> float:
        """The cosine of two words, `a` and `b`."""
        return float(_unit(self.vector(a)) @ _unit(self.vector(b)))

    def neighbors(self, word: str | np.ndarray | Sequence[float], top: int = 10) -> list[Neighbor]:
        """The words of largest cosine, each with its similarity.

        word: a word, which is left out itself, or a vector.
        top: how many.
        """
        return self.neighbors_of([word], top)[0]

    def neighbors_of(self, asked: Sequence[str | np.ndarray | Sequence[float]], top: int = 10) -> list[list[Neighbor]]:
        """`neighbors` of many, in one pass over the matrix."""
        targets = [self.vector(one) if isinstance(one, str) else self._checked(one) for one in asked]
        left_out = [[self.words.row(one)] if isinstance(one, str) else [] for one in asked]
        units_QD = np.array([_unit(target) for target in targets], np.float32).reshape(-1, self.dim)
        return self._nearest(units_QD, left_out, top)

    def analogy(self, a: str, b: str, c: str, top: int = 10) -> list[Neighbor]:
        """The answers to `a` : `b` = `c` : ?, the `top` words nearest to b − a + c, without these three."""
        a_D, b_D, c_D = (_unit(self.vector(word)) for word in (a, b, c))
        return self._nearest(_unit(b_D - a_D + c_D)[None], [[self.words.row(word) for word in (a, b, c)]], top)[0]

    def evaluate(self, tests: Tests | str | Path | Sequence[str | Path], limit: int = 300_000) -> dict[str, float]:
        """Scores by name: the share of analogies that are right, Spearman's ρ with judgements of similarity.

        tests: files, or names of the set word-vector-tests, as in data.tests.
        limit: how many words are searched; questions with others are left out.
        """
        from canon.data.formats.word_tests import Tests, read_tests
        from canon.metrics.vectors import analogy_accuracy, similarity_correlation

        if not isinstance(tests, Tests):
            tests = read_tests([str(one) for one in ([tests] if isinstance(tests, str | Path) else tests)])
        words, matrix = self.words[:limit], np.asarray(self.matrix[:limit], np.float32)
        scores = {}
        for name, pairs in tests.pairs.items():
            scores[name] = similarity_correlation(matrix, words, pairs, restrict_vocab=None).spearman
        for name, questions in tests.analogies.items():
            scores[name] = analogy_accuracy(matrix, words, questions, restrict_vocab=None).accuracy
        return scores

    # Blocks

    @cached_property
    def _lengths(self) -> np.ndarray:
        """float32 [V]; 1 for vectors of zeros, whose cosine is 0 to all."""
        lengths_V = np.empty(len(self), np.float32)
        for part in self._parts(1):
            rows_RD = np.asarray(self.matrix[part], np.float32)
            lengths_V[part] = np.sqrt(np.einsum("rd,rd->r", rows_RD, rows_RD))
        lengths_V[lengths_V == 0] = 1
        return lengths_V

    def _parts(self, questions: int) -> list[slice]:
        numbers = _BLOCK * (_MAPPED if self.matrix.dtype == np.float32 else 1)
        step = max(min(_BLOCK // questions, numbers // self.dim), 1)
        return [slice(row, min(row + step, len(self))) for row in range(0, len(self), step)]

    def _nearest(self, units_QD: np.ndarray, left_out: list[list[int]], top: int) -> list[list[Neighbor]]:
        if top < 1:
            raise CanonError(f"top must be a positive whole number, got {top}.")
        best_QK = np.full((len(units_QD), 0), -np.inf, np.float32)
        rows_QK = np.zeros((len(units_QD), 0), np.int64)
        lengths_V = self._lengths
        with bar("comparing", len(self)) as progress:
            for part in self._parts(max(len(units_QD), 1)):
                cosine_QR = units_QD @ np.asarray(self.matrix[part], np.float32).T
                cosine_QR /= lengths_V[part]
                cosine_QR[np.isnan(cosine_QR)] = -np.inf
                for question, rows in enumerate(left_out):
                    inside = [row - part.start for row in rows if part.start <= row < part.stop]
                    cosine_QR[question, inside] = -np.inf
                best_QK, rows_QK = _merged(best_QK, rows_QK, cosine_QR, part.start, top)
                progress.advance(part.stop - part.start)
        return [
            [Neighbor(self.words[row], cosine) for row, cosine in zip(rows, cosines, strict=True) if cosine > -np.inf]
            for rows, cosines in zip(rows_QK.tolist(), best_QK.tolist(), strict=True)
        ]

    def _checked(self, vector: np.ndarray | Sequence[float]) -> np.ndarray:
        array = np.asarray(vector, np.float32)
        if array.shape != (self.dim,):
            raise CanonError(f"A vector of {self.source} has {self.dim} numbers, got shape {list(array.shape)}.")
        return array


def _merged(
    best_QK: np.ndarray, rows_QK: np.ndarray, cosine_QR: np.ndarray, start: int, top: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `top` best so far joined with those of a block, best first; of equals the earlier row."""
    if cosine_QR.shape[1] > top:
        new_QK = np.sort(np.argpartition(-cosine_QR, top - 1, axis=1)[:, :top], axis=1)
    else:
        new_QK = np.broadcast_to(np.arange(cosine_QR.shape[1]), cosine_QR.shape)
    best = np.concatenate([best_QK, np.take_along_axis(cosine_QR, new_QK, axis=1)], axis=1)
    rows = np.concatenate([rows_QK, new_QK + start], axis=1)
    order = np.argsort(-best, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(best, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _unit(vector_D: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vector_D)
    return vector_D / length if length > 0 else vector_D


def _policy(name: str) -> Unknown:
    if name not in ("subwords", "error"):
        raise unknown("way with unknown words (unknown)", name, ("subwords", "error"))
    return name  # type: ignore[return-value]
