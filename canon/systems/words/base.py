"""What all learners of word vectors share: spans of a corpus over threads, the falling rate, tallies, matrices by word.

A step reads `batch` places of the running text; place p is token p mod N of epoch p div N. The places of a step are cut
into one contiguous range per thread; the threads write to the same matrices without locks (Hogwild: Recht, Ré, Wright
and Niu 2011), which is why only one thread gives the same numbers every time. Kernels let go of Python's lock.
A system says what it learns (`make`), how a span is learned from (`learn`) and what it costs unlearned (`measure`).
Shapes: N places of the corpus, V words, D dimensions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import AdoptsVectors, Context, KeepsVectors, Learner
from canon.data.corpus.store import Corpus
from canon.data.schema import Columns, Data
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels import LINE
from canon.kernels.number import threads
from canon.systems.settings import Positive
from canon.systems.threads import InThreads

Subsample = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(gt=0)]

_MEASURED_AT_ONCE = 1 << 18  # places whose loss is one row of the outputs
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class CorpusSpan:
    """Tokens [start, stop) of one pass over the corpus; `place` is how many places of all epochs lie before it."""

    epoch: int
    start: int
    stop: int
    place: int


def spans(first: int, last: int, size: int) -> list[CorpusSpan]:
    """The places [first, last) of a running text of `size` tokens, cut where an epoch ends."""
    parts = []
    while first < last:
        epoch, start = divmod(first, size)
        stop = min(size, start + last - first)
        parts.append(CorpusSpan(epoch, start, stop, first))
        first += stop - start
    return parts


@settings
class WindowConfig:
    """What word2vec and fastText have: windows of words, and what is learned of each."""

    vocab_size: Positive = Field(default=1000, description="words of the vocabulary; the data decides")
    architecture: Literal["skip-gram", "cbow"] = Field(
        default="skip-gram", description="a word predicts each context, or their mean predicts the word"
    )
    loss: Literal["negative-sampling", "hierarchical-softmax"] = Field(
        default="negative-sampling", description="what the objective is: noise words, or a Huffman tree"
    )
    dim: Positive = Field(default=100, description="size of a vector")
    window: Positive = Field(default=5, description="words to either side, at most")
    negatives: Positive = Field(default=5, description="noise words to a word")
    subsample: Subsample = Field(
        default=1e-4, description="share of the text above which a word is left out at times; 0: none is"
    )
    lr: Rate = Field(default=0.05, description="learning rate at the start")
    min_lr: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1e-4, description="the rate falls linearly to this share of lr"
    )


class VectorLearner(InThreads, Learner, KeepsVectors, AdoptsVectors):
    """A learner whose parameters are float32 matrices with one row per word."""

    by_word: ClassVar[tuple[str, ...]] = ("input", "output")  # the arrays whose row i belongs to word i

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.words: Words | None = None  # set with the corpus, or with what was learned from it
        self._prepared_for: Words | None = None
        self.seed = context.seed
        self.arrays: dict[str, np.ndarray] = {}  # what is learned, by name: file "model" of a checkpoint
        self.sums: dict[str, np.ndarray] = {}  # what only learning needs: file "optimizer"
        self.lr_now = float(config.lr)
        self._loss, self._pairs = 0.0, 0.0  # since the last log
        self._adopted: tuple[Mapping[str, Any], Words] | None = None

    @abstractmethod
    def make(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The arrays as learning begins, and the sums beside them; `words` and `tokens_N` are known."""

    @abstractmethod
    def learn(self, span: CorpusSpan) -> tuple[float, float]:
        """Learns from one span, in a thread of its own; the sum of losses and how many pairs it is of."""

    @abstractmethod
    def measure(self, tokens_N: np.ndarray, start: int, stop: int) -> tuple[float, float]:
        """The sum of losses of tokens [start, stop) and the number of pairs, learning nothing; noise of seed 0."""

    @abstractmethod
    def vectors(self) -> np.ndarray: ...

    def vector(self, word: str) -> np.ndarray | None:
        row = self._known().index.get(word)
        return None if row is None else self.vectors()[row]

    def prepare(self) -> None:
        """Makes what follows from `words` alone (noise, trees, n-grams); called by `ready`."""

    def ready(self) -> None:
        """To be called before what `prepare` makes is used: who asks for vectors may need none of it."""
        if self._prepared_for is not self.words:
            self.prepare()
            self._prepared_for = self.words

    @property
    def num_parameters(self) -> int:
        return sum(array.size for array in self.arrays.values())

    # ---- learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        corpus: Any = data.splits["train"]["input"]
        self.tokens_N = read_only(corpus.tokens)
        self.take_words(corpus.words)
        self.ready()
        self.batch, self.places = batch, steps * batch
        self.unit = corpus.num_words / max(len(corpus), 1), "words"
        self.threads = threads()
        self.arrays, self.sums = self.make()
        if self._adopted is not None:
            self._copy_rows(*self._adopted)
            self._adopted = None
        self._loss, self._pairs = 0.0, 0.0

    def take_words(self, words: Words) -> None:
        self.words = words

    def rate(self, place: int) -> float:
        """lr · max(1 − place/places, least share): what kernels compute for every place."""
        return float(self.config.lr) * max(1 - place / self.places, self.config.min_lr)

    def step(self, number: int) -> bool:
        first, last = (number - 1) * self.batch, number * self.batch
        ranges = [spans(*part, len(self.tokens_N)) for part in self.ranges(first, last)]
        for loss, pairs in self.in_threads(lambda share: _total(self.learn(span) for span in share), ranges):
            self._loss += loss
            self._pairs += pairs
        self.lr_now = self.rate(last)
        return True

    def logs(self) -> dict[str, float]:
        """The mean loss per pair since the last call, and the rate."""
        mean = self._loss / self._pairs if self._pairs else 0.0
        self._loss, self._pairs = 0.0, 0.0
        return {"loss": mean, "lr": self.lr_now}

    # ---- keeping

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        groups = {"model": self.arrays, "optimizer": self.sums}
        return {
            group: {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            for group, arrays in groups.items()
            if arrays
        }

    def state(self) -> dict[str, Any]:
        return {"loss": self._loss, "pairs": self._pairs, "lr": self.lr_now}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        if self.words is None and self.context.schema is not None:
            self.take_words(self.context.schema.words)
        self.arrays = {name: self.hold(np.asarray(each)) for name, each in tensors["model"].items()}
        self.sums = {name: self.hold(np.asarray(each)) for name, each in tensors.get("optimizer", {}).items()}
        self._loss, self._pairs = float(state.get("loss", 0.0)), float(state.get("pairs", 0.0))
        self.lr_now = float(state.get("lr", self.lr_now))

    def hold(self, array: np.ndarray) -> np.ndarray:
        """A copy that may be learned on, laid out as the kernels want it."""
        return np.array(array)

    def adopt(self, tensors: Mapping[str, Any], words: Words) -> None:
        """Rows learned elsewhere, by word: those of `words` that are known here are taken, the rest stay.

        `tensors` is the "model" of an earlier run, or {"input": …} for vectors of other tools. Call it before or after
        `begin`."""
        for name in self.by_word:
            if name in tensors and tensors[name].ndim == 2 and tensors[name].shape[1] != self.config.dim:
                raise CanonError(
                    f"The vectors to go on from have {tensors[name].shape[1]} dimensions, but system.dim is "
                    f"{self.config.dim}: set system.dim={tensors[name].shape[1]}, or start without them."
                )
        if self.arrays:
            self._copy_rows(tensors, words)
        else:
            self._adopted = tensors, words

    def _copy_rows(self, tensors: Mapping[str, Any], words: Words) -> None:
        ours, theirs = shared_rows(self._known(), words)
        for name in self.by_word:
            if name in tensors:
                source = np.asarray(tensors[name], np.float32)
                for i in range(0, len(ours), _ROWS_AT_ONCE):  # some at a time: the copy is never whole in memory
                    part = slice(i, i + _ROWS_AT_ONCE)
                    self.arrays[name][ours[part]] = source[theirs[part]]

    # ---- using

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        """Of a corpus: sums of losses and pairs of its parts, and the vectors; of no text, the vectors alone. Of words:
        a vector each."""
        column: Any = columns.get("input")
        if column is not None and not isinstance(column, Corpus):
            return self._looked_up([str(word) for word in column])
        if self.words is None and column is not None:
            self.take_words(column.words)
        tokens_N = np.zeros(0, np.int32) if column is None else read_only(column.tokens)
        self.ready()
        starts = list(range(0, len(tokens_N), _MEASURED_AT_ONCE))

        def measure(start: int) -> tuple[float, float]:
            return self.measure(tokens_N, start, min(start + _MEASURED_AT_ONCE, len(tokens_N)))

        loss, pairs = np.array(self.in_threads(measure, starts), dtype=np.float64).reshape(-1, 2).T.copy()
        vectors = self.vectors()
        return {"loss": loss, "pairs": pairs, "vectors": vectors}

    def _looked_up(self, words: list[str]) -> dict[str, np.ndarray]:
        rows_ND, known_N = np.zeros((len(words), self.config.dim), np.float32), np.zeros(len(words), bool)
        for row, word in enumerate(words):
            vector_D = self.vector(word)
            if vector_D is not None:
                rows_ND[row], known_N[row] = vector_D, True
        return {"vectors": rows_ND, "known": known_N}

    def _known(self) -> Words:
        assert self.words is not None, "words are set by begin, by restore or by take_words"
        return self.words


def shared_rows(ours: Words, theirs: Words) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the words that both have, in ours and in theirs, by our order."""
    index = theirs.index
    pairs = [(row, index[word]) for row, word in enumerate(ours.words) if word in index]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def read_only(tokens_N: np.ndarray) -> np.ndarray:
    """A view that kernels take alike, be the tokens in memory or in a mapped file."""
    view = np.asarray(tokens_N).view()
    view.flags.writeable = False
    return view


def in_lines(rows: int, dim: int) -> np.ndarray:
    """Zeros [rows, dim] of which each row begins at a cache line; `flat` gives them with what lies between."""
    stride = -(-dim // LINE) * LINE
    room = np.zeros(rows * stride + LINE, np.float32)
    start = -(room.ctypes.data // room.itemsize) % LINE
    return room[start : start + rows * stride].reshape(rows, stride)[:, :dim]


def flat(array: np.ndarray) -> np.ndarray:
    """The floats of `in_lines`, end to end."""
    rows, stride = len(array), array.strides[0] // array.itemsize
    return np.lib.stride_tricks.as_strided(array, (rows * stride,), (array.itemsize,))


def _total(tallies: Iterable[tuple[float, float]]) -> tuple[float, float]:
    loss, pairs = 0.0, 0.0
    for more_loss, more_pairs in tallies:
        loss, pairs = loss + more_loss, pairs + more_pairs
    return loss, pairs
