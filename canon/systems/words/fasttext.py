"""fastText's word vectors: skip-gram and CBOW whose inputs are made of letter n-grams, so that any word has a vector.

Bojanowski, Grave, Joulin and Mikolov 2017, Enriching word vectors with subword information (arXiv:1607.04606). The
input vector of a word is made of the z_g of its n-grams g, itself among them (section 3.2; subwords.py); the outputs
v_c and the losses are those of word2vec: logistic with negative samples (section 3.1), or down a tree. The kernels that
read, draw and learn are in kernels/cpu/fasttext.py; `FastText` keeps the matrices and what follows from the words.
Deviations, as fastText's program has them: the mean of the z_g in place of their sum, while every z_g moves by the
whole gradient of that mean; noise ∝ √count. Ours: a line is a sentence, where fastText cuts it after 1024 words; noise
that hits the word itself is left out, where fastText draws again; CBOW's rows are written late (cpu/fasttext.py).
Shapes: N places, V words, B buckets of n-grams, S rows of all words together, D dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels import LINE, Later
from canon.systems.settings import Natural, Positive
from canon.systems.words.base import CorpusSpan, VectorLearner, WindowConfig, flat, in_lines
from canon.systems.words.sampling import Tree, alias_table, keep_limits, noise_shares
from canon.systems.words.subwords import output_tree, subword_ids, subword_table

kernels, subwords = Later("cpu.fasttext"), Later("cpu.subwords")
_ROWS_AT_ONCE = 1 << 14
NOISE_POWER = 0.5


@settings
class Config(WindowConfig):
    minn: Natural = Field(default=3, description="least letters of an n-gram")
    maxn: Natural = Field(default=6, description="most letters of an n-gram; 0: words alone")
    buckets: Positive = Field(default=2_000_000, description="rows that all n-grams share by hashing")


class FastText(VectorLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        if config.maxn and config.minn > config.maxn:
            raise CanonError(f"system.minn is {config.minn}, more than system.maxn, {config.maxn}.")
        self.buckets = config.buckets if config.maxn else 0
        self.hierarchical = config.loss == "hierarchical-softmax"
        # The nodes of a tree are not words: with other words they are new.
        self.by_word = ("input",) if self.hierarchical else ("input", "output")  # type: ignore[misc]

    def prepare(self) -> None:
        words, config = self._known(), self.config
        # A word's share is of all words of the text, rare ones among them.
        share = config.subsample * words.total / max(1, int(words.counts.sum()))
        self._keep_V = keep_limits(words.counts, share)
        self._noise = alias_table(noise_shares(words.counts, NOISE_POWER))
        self._tree = _NO_TREE
        if self.hierarchical:  # fastText's likely turn is 1, the kernels' 0
            tree = output_tree(words.counts)
            self._tree = tree._replace(turns_L=1 - tree.turns_L)
        self._starts_V, self._rows_S = subword_table(words.words, config.minn, config.maxn, self.buckets)
        self._growth_V = kernels.growth(self._starts_V, self._rows_S)

    # ---- learning

    def make(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Inputs even in ± 1/D, outputs at 0."""
        size, dim = self._known().size, self.config.dim
        input_RD = _close_together(size + self.buckets, dim)
        key = np.uint64(kernels.key_of(self.seed, 0))
        parts = self.ranges(0, input_RD.size)
        self.in_threads(lambda part: kernels.fill_uniform(flat(input_RD), *part, key, 1 / dim), parts)
        return {"input": input_RD, "output": in_lines(size - self.hierarchical, dim)}, {}

    def learn(self, span: CorpusSpan) -> tuple[float, float]:
        return self._read(self.tokens_N, span, self.seed, self.places, learning=True)

    def measure(self, tokens_N: np.ndarray, start: int, stop: int) -> tuple[float, float]:
        return self._read(tokens_N, CorpusSpan(0, start, stop, start), 0, 1, learning=False)

    def _read(
        self, tokens_N: np.ndarray, span: CorpusSpan, seed: int, places: int, learning: bool
    ) -> tuple[float, float]:
        self.ready()
        config, output = self.config, self.arrays["output"]
        loss, pairs = kernels.read_span(
            tokens_N, span.start, span.stop, self._keep_V, *self._noise, *self._tree, self._starts_V, self._rows_S,
            self._growth_V, flat(self.arrays["input"]), flat(output), config.dim, output.strides[0] // output.itemsize,
            config.architecture == "cbow", config.window, 0 if self.hierarchical else config.negatives, learning,
            np.uint64(kernels.key_of(seed, span.epoch)), span.place, float(config.lr), float(places),
            float(config.min_lr),
        )  # fmt: skip
        return float(loss), float(pairs)

    # ---- keeping

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        super().restore({"model": {}}, state)
        for name, allocate in (("input", _close_together), ("output", in_lines)):
            source = np.asarray(tensors["model"][name])
            self.arrays[name] = allocate(*source.shape)
            self.arrays[name][:] = source

    def _copy_rows(self, tensors: Mapping[str, Any], words: Words) -> None:
        """Rows by word, and those of all n-grams where there are as many."""
        super()._copy_rows(tensors, words)
        source, size = tensors["input"], self._known().size
        buckets = len(source) - words.size
        if buckets and buckets != self.buckets:
            raise CanonError(
                f"The vectors to go on from have {buckets:,} rows for n-grams, but system.buckets is {self.buckets:,}: "
                f"set system.buckets={buckets}, or start without them."
            )
        for row in range(0, buckets, _ROWS_AT_ONCE):
            part = np.asarray(source[words.size + row : words.size + row + _ROWS_AT_ONCE], np.float32)
            self.arrays["input"][size + row : size + row + len(part)] = part

    # ---- using

    def vectors(self) -> np.ndarray:
        self.ready()
        size, dim = self._known().size, self.config.dim
        means_VD = np.empty((size, dim), np.float32)
        inputs, starts_V, rows_S = self.arrays["input"], self._starts_V, self._rows_S
        self.in_threads(
            lambda part: subwords.mean_rows(inputs, starts_V, rows_S, *part, means_VD), self.ranges(0, size)
        )
        return means_VD

    def vector(self, word: str) -> np.ndarray | None:
        """The mean of a word's rows; of a word that is not known, that of its n-grams, where it has any."""
        row = self._known().index.get(word)
        if row is not None:
            self.ready()
            rows = self._rows_S[self._starts_V[row] : self._starts_V[row + 1]]
        else:
            rows = subword_ids(word, self.config.minn, self.config.maxn, self.buckets, self._known().size)
        return self.arrays["input"][rows].mean(axis=0) if len(rows) else None


def _close_together(rows: int, dim: int) -> np.ndarray:
    """Zeros [rows, dim] without gaps, and room after them: the kernels read whole cache lines."""
    return np.zeros(rows * dim + LINE, np.float32)[: rows * dim].reshape(rows, dim)


_NO_TREE = Tree(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))
