"""GloVe: vectors whose dot products, with a bias for each word, are the logarithms of how often words meet.

Pennington, Socher and Manning 2014, GloVe: global vectors for word representation. Counting X (section 4.2) is in
canon/data/corpus/cooccurrence.py. The objective, their eq. 8 and 9, and its gradient are in kernels/cpu/glove.py:
  J = Σ_ij f(X_ij) (w_i·w̃_j + b_i + b̃_j − log X_ij)²       f(x) = min((x/x_max)^α, 1)
over all entries of X that are not zero. The loss that is logged is J divided by their number. (Stanford's program
prints half of that, and so steps by half the gradient of J, as this does.) The vectors to use are w + w̃ (`vectors`).
AdaGrad as Stanford's program has it: θ ← θ − η g/√s, s ← s + (η g)² with s = 1 at first; biases step with η = 1.
Deviations: entries come in the order of cooccurrence.py, (i, j) always with (j, i), the parts of it in another order
every epoch, where that program shuffles all entries once; gradients are not clipped at ±100, which none comes near;
float32 in place of float64; words left out for their rarity have no vector <unk>.
A step is `train.batch` places of the text, as for all word vectors: the same share of the entries as of the text.
Shapes: N places of the text, V words, D dimensions, W the width of a row (kernels/cpu/glove.py), E pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.corpus import cooccurrence
from canon.data.corpus.cooccurrence import Cooccurrence
from canon.data.corpus.store import Corpus
from canon.data.schema import Columns, Data
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels import Later
from canon.systems.settings import Positive
from canon.systems.words.base import CorpusSpan, VectorLearner, flat, in_lines, read_only, spans

kernels = Later("cpu.glove")
_AT_ONCE = 1 << 18  # pairs that are measured together


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="words of the vocabulary; the data decides")
    dim: Positive = Field(default=100, description="dimensions of a vector")
    window: Positive = Field(default=15, description="words to either side that are counted, by 1/distance")
    x_max: Annotated[float, Field(gt=0)] = Field(default=100.0, description="count from which on pairs weigh the same")
    alpha: Annotated[float, Field(gt=0)] = Field(default=0.75, description="exponent of the weight of rarer pairs")
    lr: Annotated[float, Field(gt=0)] = Field(default=0.05, description="AdaGrad's rate η")
    memory: Annotated[Positive, Field(ge=16)] = Field(default=1024, description="MB that counting takes, about")


class GloVe(VectorLearner):
    by_word: ClassVar[tuple[str, ...]] = ("word", "context", "word_bias", "context_bias")

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.size = 0  # places of the text that was learned from
        self.pairs: Cooccurrence | None = None
        self.table: np.ndarray | None = None  # rows as the kernels want them; a model that is only asked has none
        self._measured: dict[tuple[int, int], tuple[np.ndarray, Cooccurrence]] = {}

    # ---- learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        super().begin(data, batch, steps)
        self.size = len(self.tokens_N)
        self.pairs = cooccurrence.kept(
            self.tokens_N, self._known().size, self.config.window, self.config.memory, self.threads
        )
        if not len(self.pairs):
            raise CanonError(
                f"No line of the text has two words within system.window = {self.config.window} of each other, which "
                "is what GloVe learns from; a line must have more words, or data.min_count be smaller."
            )

    def make(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Vectors and biases even in ±½/D, sums at 1, as in Stanford's program."""
        size, dim = self._known().size, self.config.dim
        random = np.random.default_rng(self.seed)
        shapes = {"word": (size, dim), "context": (size, dim), "word_bias": (size,), "context_bias": (size,)}
        self._lay_out({name: (random.random(shape, np.float32) - 0.5) / dim for name, shape in shapes.items()}, {})
        return self.arrays, self.sums

    def step(self, number: int) -> bool:
        first, last = (count * self.batch * len(self._learned()) // self.size for count in (number - 1, number))
        ranges = [spans(*part, len(self._learned())) for part in self.ranges(first, last)]
        for tallies in self.in_threads(lambda share: [self.learn(span) for span in share], ranges):
            self._loss += sum(loss for loss, _ in tallies)
            self._pairs += sum(count for _, count in tallies)
        if not math.isfinite(self._loss):
            raise CanonError(f"The loss is no longer a finite number at step {number:,}: lower system.lr.")
        return True

    def learn(self, span: CorpusSpan) -> tuple[float, float]:
        """Learns from pairs [start, stop) of the epoch: the parts in an order of its own, each as it is."""
        config, pairs = self.config, self._learned()
        learn, entries_E = kernels.learner(self.width), read_only(pairs.entries)
        total, count, before = 0.0, 0, 0
        for part in np.random.default_rng([self.seed, span.epoch]).permutation(pairs.num_parts).tolist():
            begin, end = pairs.bounds[part : part + 2].tolist()
            first, last = max(span.start, before), min(span.stop, before + end - begin)
            if first < last:
                given = (begin + first - before, begin + last - before, self.table, self.biases_V4)
                loss, entries = learn(entries_E, *given, config.lr, config.x_max, config.alpha)
                total, count = total + loss, count + entries
            before += end - begin
        return total, count

    def _learned(self) -> Cooccurrence:
        assert self.pairs is not None, "begin counts them"
        return self.pairs

    # ---- keeping

    def _lay_out(self, arrays: dict[str, np.ndarray], sums: dict[str, np.ndarray]) -> None:
        """Copies everything into the rows that kernels work on, where it then is; sums that are not given are 1."""
        size, dim = arrays["word"].shape
        self.width = kernels.width_of(dim)
        rows_V4W = in_lines(size, 4 * self.width)
        self.table, rows_V4W = flat(rows_V4W), rows_V4W.reshape(size, 4, self.width)
        rows_V4W[:, 2:] = 1.0
        self.biases_V4 = np.ones((size, 4), np.float32)
        self.arrays, self.sums = {}, {}
        for place, (group, given) in enumerate(((self.arrays, arrays), (self.sums, sums))):
            for side, name in enumerate(("word", "context")):
                group[name] = rows_V4W[:, 2 * place + side, :dim]
                group[f"{name}_bias"] = self.biases_V4[:, 2 * place + side]
            for name, array in given.items():
                group[name][...] = array

    def state(self) -> dict[str, Any]:
        return {**super().state(), "size": self.size}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        super().restore({"model": {}}, state)
        self.size = int(state.get("size", self.size))
        self.arrays, sums = (
            {name: np.asarray(each) for name, each in tensors.get(group, {}).items()}
            for group in ("model", "optimizer")
        )
        self.table = None
        if sums:
            self._lay_out(self.arrays, sums)

    def adopt(self, tensors: Mapping[str, Any], words: Words) -> None:
        """Rows of an earlier run by word; vectors of other tools are halved, since the sum of two is used."""
        if "input" in tensors:
            half = np.asarray(tensors["input"], np.float32) / 2
            tensors = {"word": half, "context": half}
        super().adopt(tensors, words)

    # ---- using

    def vectors(self) -> np.ndarray:
        return self.arrays["word"] + self.arrays["context"]

    def vector(self, word: str) -> np.ndarray | None:
        row = self._known().index.get(word)
        return None if row is None else self.arrays["word"][row] + self.arrays["context"][row]

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        column: Any = columns.get("input")
        if not isinstance(column, Corpus):
            return super().outputs(columns)
        self.take_words(self.words or column.words)
        loss, count = self.measure(read_only(column.tokens), 0, len(column))
        return {"loss": np.array([loss], np.float64), "pairs": np.array([count], np.float64), "vectors": self.vectors()}

    def measure(self, tokens_N: np.ndarray, start: int, stop: int) -> tuple[float, float]:
        """f(x) difference² of the entries that were learned from, or of those of another text, and how many there are.

        Counts grow with the text, and w·w̃ with them: those of another text are scaled up to the size of the first.
        """
        text_N = tokens_N[start:stop]
        if self.pairs is not None and len(text_N) == self.size and np.shares_memory(text_N, self.tokens_N):
            pairs, scale = self.pairs, 1.0
        else:
            pairs, scale = self._count(text_N), (self.size or len(text_N)) / max(len(text_N), 1)
        if self.table is None:
            self._lay_out(self.arrays, {})
        measure, entries_E = kernels.measurer(self.width), read_only(pairs.entries)
        weights = scale, self.config.x_max, self.config.alpha

        def total(first: int) -> Any:
            last = min(first + _AT_ONCE, len(entries_E))
            return measure(entries_E, first, last, self.table, self.biases_V4, *weights)

        tallies = self.in_threads(total, list(range(0, len(entries_E), _AT_ONCE)))
        return sum(loss for loss, _ in tallies), sum(count for _, count in tallies)

    def _count(self, text_N: np.ndarray) -> Cooccurrence:
        """The co-occurrences of a text that is not learned from; those of a few are remembered."""
        key = text_N.ctypes.data, len(text_N)
        if key not in self._measured:
            if len(self._measured) > 2:
                self._measured.clear()
            config, size = self.config, self._known().size
            pairs = cooccurrence.count(text_N, size, config.window, config.memory, self.threads)
            self._measured[key] = text_N, pairs  # the text too: its address is not given to another meanwhile
        return self._measured[key][1]
