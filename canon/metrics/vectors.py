"""Tests of word vectors: analogies by 3CosAdd and agreement with human similarity judgements.

Papers: Mikolov et al. (2013), Efficient Estimation of Word Representations (the analogy questions); Levy and Goldberg
(2014) (the name 3CosAdd: argmax_d cos(d, b − a + c) over words other than a, b, c) in `analogy_accuracy`; Finkelstein
et al. (2002), WordSim-353 (Spearman's ρ between cosine and judgement) in `similarity_correlation`.
Vectors are scaled to length 1 before they are added, as word2vec's own program does. Similarities are computed for a
block of questions against the vocabulary, never vocabulary × vocabulary. Deviations: none.
Shapes: V words, D dimensions, Q questions in a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canon.data.formats import word_tests
from canon.data.formats.word_tests import Pair, Question
from canon.errors import CanonError
from canon.metrics._checks import choice, numbers, same_length, text, texts

CASES: dict[str, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, "keep": str}


@dataclass(frozen=True)
class AnalogySection:
    """correct of asked; unknown counts questions with a word outside the vocabulary."""

    correct: int
    asked: int
    unknown: int

    @property
    def accuracy(self) -> float:
        """correct / asked, 0 when nothing could be asked."""
        return self.correct / self.asked if self.asked else 0.0


@dataclass(frozen=True)
class AnalogyResult:
    sections: dict[str, AnalogySection]
    total: AnalogySection

    @property
    def accuracy(self) -> float:
        return self.total.accuracy


@dataclass(frozen=True)
class SimilarityResult:
    """Correlations between cosine and judgement over `pairs` pairs; `unknown` pairs had a word without a vector."""

    spearman: float
    spearman_p: float
    pearson: float
    pearson_p: float
    pairs: int
    unknown: int


def read_analogies(path: str | Path) -> dict[str, list[Question]]:
    """A questions-words file: `: section` lines, then four words a line."""
    return word_tests.read_analogies(_path(path))


def read_pairs(path: str | Path, *, delimiter: str = "\t") -> list[Pair]:
    """A similarity file: word, word, number a line; lines that start with # are comments."""
    return word_tests.read_pairs(_path(path), text("delimiter", delimiter))


def _path(path: str | Path) -> Path:
    return path if isinstance(path, Path) else Path(text("path", path))


@dataclass(frozen=True)
class _WordForms:
    """Unit vectors of the words in use, words grouped by their form under the case rule."""

    units: NDArray[np.float32]  # V × D
    form_of: NDArray[np.int64]  # V: which form each word has
    forms: dict[str, int]
    first: NDArray[np.int64]  # form → its first word, the most frequent when the list is sorted by frequency
    members: list[NDArray[np.int64]]


def _vocabulary(vectors: ArrayLike, words: Sequence[str], restrict_vocab: int | None, case: str) -> _WordForms:
    fold = CASES[choice("case", case, tuple(CASES))]
    matrix = numbers("vectors", vectors, 2, finite=True)
    words = texts("words", words)
    same_length("vectors", matrix, "words", words)
    if restrict_vocab is not None and restrict_vocab < 1:
        raise CanonError(f"restrict_vocab must be a positive whole number or None, got {restrict_vocab}.")
    kept = matrix[:restrict_vocab].astype(np.float32)
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    forms: dict[str, int] = {}
    form_of = np.array([forms.setdefault(fold(word), len(forms)) for word in words[: len(kept)]], dtype=np.int64)
    first = np.unique(form_of, return_index=True)[1]
    order = np.argsort(form_of, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(form_of))[:-1])
    units = kept / np.where(norms > 0, norms, np.float32(1))
    return _WordForms(units.astype(np.float32, copy=False), form_of, forms, first, members)


def analogy_accuracy(
    vectors: ArrayLike,
    words: Sequence[str],
    questions: Mapping[str, Iterable[Question]] | str | Path,
    *,
    restrict_vocab: int | None = 300_000,
    case: str = "upper",
    unknown: str = "skip",
    block_elements: int = 2**24,
) -> AnalogyResult:
    """Share of questions a : b = c : ? where the word nearest to b − a + c, other than a, b and c, is the given one.

    questions: section → quadruples, or a questions-words file. restrict_vocab: use only the first so many words
    (None: all). case: "upper" (default, gensim's) or "lower" compare words in that form, all case variants of the
    question words being excluded and the first variant's vector used; "keep" compares as written. unknown: "skip"
    (default) leaves out questions with a word outside the vocabulary, "wrong" counts them as failed. block_elements:
    similarities held at once (default 2²⁴ floats, 64 MiB).
    """
    choice("unknown", unknown, ("skip", "wrong"))
    fold = CASES[choice("case", case, tuple(CASES))]
    vocabulary = _vocabulary(vectors, words, restrict_vocab, case)
    if isinstance(questions, str | Path):
        questions = read_analogies(questions)
    names = list(questions)
    asked: list[tuple[int, int, int, int]] = []
    section_of: list[int] = []
    missing = np.zeros(len(names), dtype=np.int64)
    for section, name in enumerate(names):
        for question in questions[name]:
            forms = tuple(vocabulary.forms.get(fold(word), -1) for word in question)
            if len(forms) != 4:
                raise CanonError(f'section "{name}" has a question of {len(forms)} words instead of 4.')
            if -1 in forms:
                missing[section] += 1
            else:
                asked.append(forms)
                section_of.append(section)
    correct = np.zeros(len(names), dtype=np.int64)
    total = np.bincount(np.array(section_of, dtype=np.int64), minlength=len(names))
    if not asked and not missing.any():
        raise CanonError("questions is empty; at least one analogy is needed.")
    units = vocabulary.units
    step = max(1, block_elements // len(units))
    for begin in range(0, len(asked), step):
        form_Q4 = np.array(asked[begin : begin + step])
        a, b, c = (units[vocabulary.first[form_Q4[:, i]]] for i in range(3))
        # 3CosAdd: cos(d, b − a + c); the target's own length does not change which d wins.
        similarity = (b - a + c) @ units.T  # Q × V
        for row, question in enumerate(form_Q4):
            for form in question[:3]:
                similarity[row, vocabulary.members[form]] = -np.inf
        right = vocabulary.form_of[similarity.argmax(axis=1)] == form_Q4[:, 3]
        correct += np.bincount(np.array(section_of[begin : begin + step])[right], minlength=len(names))
    if unknown == "wrong":
        total = total + missing
    sections = {name: AnalogySection(int(correct[i]), int(total[i]), int(missing[i])) for i, name in enumerate(names)}
    return AnalogyResult(sections, AnalogySection(int(correct.sum()), int(total.sum()), int(missing.sum())))


def similarity_correlation(
    vectors: ArrayLike,
    words: Sequence[str],
    pairs: Iterable[Pair] | str | Path,
    *,
    restrict_vocab: int | None = 300_000,
    case: str = "upper",
    unknown: str = "skip",
) -> SimilarityResult:
    """Spearman's ρ (and Pearson's r) between cosine similarity and human judgement.

    pairs: (word, word, judgement) triples or a tab-separated file of them. restrict_vocab, case: as in
    `analogy_accuracy`. unknown: "skip" (default) leaves out pairs with a word outside the vocabulary, "zero" gives
    them similarity 0.
    """
    choice("unknown", unknown, ("skip", "zero"))
    fold = CASES[choice("case", case, tuple(CASES))]
    vocabulary = _vocabulary(vectors, words, restrict_vocab, case)
    triples = read_pairs(pairs) if isinstance(pairs, str | Path) else list(pairs)
    index = np.array(
        [[vocabulary.forms.get(fold(word), -1) for word in pair[:2]] for pair in triples], dtype=np.int64
    ).reshape(-1, 2)
    judgement = np.array([float(pair[2]) for pair in triples])
    known = (index >= 0).all(axis=1)
    cosine = np.zeros(len(triples))
    left, right = (vocabulary.units[vocabulary.first[index[known, i]]].astype(np.float64) for i in range(2))
    cosine[known] = np.einsum("nd,nd->n", left, right)
    if unknown == "skip":
        cosine, judgement = cosine[known], judgement[known]
    if len(cosine) < 2:
        raise CanonError(f"pairs has {len(cosine)} pair(s) of known words; at least 2 are needed for a correlation.")
    from scipy.stats import pearsonr, spearmanr

    rho, r = spearmanr(judgement, cosine), pearsonr(judgement, cosine)
    return SimilarityResult(
        spearman=float(rho.statistic),
        spearman_p=float(rho.pvalue),
        pearson=float(r.statistic),
        pearson_p=float(r.pvalue),
        pairs=len(cosine),
        unknown=int(np.count_nonzero(~known)),
    )
