"""word2vec: vectors of words that predict their neighbours (skip-gram), or are predicted by their mean (CBOW).

Mikolov, Chen, Corrado and Dean 2013, Efficient estimation of word representations in vector space (arXiv:1301.3781):
the two architectures; Mikolov, Sutskever, Chen, Corrado and Dean 2013, Distributed representations of words and phrases
and their compositionality (arXiv:1310.4546): −log σ(v·u) − Σ_k log σ(−v·u_k) with noise u_k (eq. 4), or −Σ log σ(± v·u)
over the nodes on the way to a word in a Huffman tree (eq. 3), and the leaving out of frequent words (eq. 5).
What is drawn is made in sampling.py, sums and updates in cpu/word2vec.py; here are the settings and what is kept.
As in their program: a context's vector v is the input and the word in the middle the output; windows reach 1 … window
words, drawn evenly; words left out are taken away before windows are formed; lr falls linearly with the words seen;
v begins even in ±½/D, u at 0; CBOW takes the mean of the contexts, and its gradient goes to each of them undivided.
On a GPU a long text is learned by kernels/cuda/skip_gram.py, where that has the settings asked for.
Deviations: with update = "window" (the default) one set of noise words serves all contexts of a word, and all of them
learn from the vectors as they were before; update = "pair" is theirs. Sigmoids are computed, not looked up.
Shapes: V words, D dimensions, L the sum of all codes' lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.data.schema import Columns
from canon.errors import CanonError
from canon.kernels import Later, enabled
from canon.systems.words.base import CorpusSpan, Rate, Subsample, VectorLearner, WindowConfig, flat, in_lines, spans
from canon.systems.words.sampling import Tree, alias_table, huffman, keep_limits, noise_shares

if TYPE_CHECKING:
    from canon.kernels.cuda.skip_gram import OnDevice

kernels = Later("cpu.word2vec")
_ROWS_AT_ONCE = 1 << 14
_LONG = 1 << 20  # tokens from which on thousands of words at once seldom meet in the same rows


@settings
class Config(WindowConfig):
    architecture: Literal["skip-gram", "cbow"] = Field(
        default="skip-gram", description="each context predicts the word, or their mean does"
    )
    subsample: Subsample = Field(
        default=1e-3, description="share of the text above which a word is left out at times; 0: none is"
    )
    lr: Rate = Field(default=0.025, description="learning rate at the start")
    update: Literal["window", "pair"] = Field(
        default="window", description="skip-gram: one set of noise for all contexts of a word, or one for each"
    )
    start: Rate = Field(default=0.5, description="vectors begin evenly in ± start / dim; gensim's begin with 1")


class Word2Vec(VectorLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        if config.architecture == "cbow" and config.update == "pair":
            raise CanonError('system.update = "pair" is for skip-gram; with CBOW a word has one pair: leave it out.')
        self.hierarchical = config.loss == "hierarchical-softmax"
        # The nodes of a tree are not words: with other words they are new.
        self.by_word = ("input",) if self.hierarchical else ("input", "output")  # type: ignore[misc]
        self._there: OnDevice | None = None  # once steps are made on a GPU

    def prepare(self) -> None:
        counts_V = self._known().counts
        self._keep_V = keep_limits(counts_V, self.config.subsample)
        self._noise = alias_table(noise_shares(counts_V))
        self._tree = huffman(counts_V) if self.hierarchical else _NO_TREE

    def make(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        size, dim = self._known().size, self.config.dim
        input_VD, random = in_lines(size, dim), np.random.default_rng(self.seed)
        for i in range(0, size, _ROWS_AT_ONCE):
            part_ND = input_VD[i : i + _ROWS_AT_ONCE]
            part_ND[:] = random.random(part_ND.shape, dtype=np.float32) * np.float32(2) - np.float32(1)
            part_ND *= np.float32(self.config.start / dim)
        return {"input": input_VD, "output": in_lines(size - self.hierarchical, dim)}, {}

    def hold(self, array: np.ndarray) -> np.ndarray:
        held = in_lines(*array.shape)
        held[:] = array
        return held

    # ---- on a GPU

    def on_gpu(self) -> bool:
        config = self.config
        able = enabled() and config.architecture == "skip-gram" and config.update == "window" and not self.hierarchical
        if not able or self.context.world.kind != "cuda" or len(self.tokens_N) < _LONG:
            return False
        import torch

        return not torch.are_deterministic_algorithms_enabled()

    def step(self, number: int) -> bool:
        if not self.on_gpu():
            return super().step(number)
        if self._there is None:
            from canon.kernels.cuda.skip_gram import OnDevice

            arrays = self.arrays["input"], self.arrays["output"]
            self._there = OnDevice(*arrays, self._keep_V, self._noise, self.config, self.context.world.device)
        for span in spans((number - 1) * self.batch, number * self.batch, len(self.tokens_N)):
            seed = int(kernels.key_of(int(kernels.key_of(self.seed, span.epoch)) >> 33, span.start)) >> 33
            stop = span.place + span.stop - span.start
            self._there.read(self.tokens_N[span.start : span.stop], seed, self.rate(span.place), self.rate(stop))
        self.lr_now = self.rate(number * self.batch)
        return True

    def _fetch(self) -> None:
        """What the GPU has learned comes here."""
        if self._there is not None:
            self._there.copy_to(self.arrays["input"], self.arrays["output"])

    def _tally(self) -> None:
        if self._there is not None:
            loss, pairs = self._there.tallies()
            self._loss += loss
            self._pairs += pairs

    def logs(self) -> dict[str, float]:
        self._tally()
        return super().logs()

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        self._fetch()
        return super().tensors()

    def state(self) -> dict[str, Any]:
        self._tally()
        return super().state()

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self._there = None
        super().restore(tensors, state)

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        self._fetch()
        return super().outputs(columns)

    # ---- on a CPU

    def learn(self, span: CorpusSpan) -> tuple[float, float]:
        return self._read(self.tokens_N, span, self.seed, self.places, learning=True)

    def measure(self, tokens_N: np.ndarray, start: int, stop: int) -> tuple[float, float]:
        return self._read(tokens_N, CorpusSpan(0, start, stop, start), 0, 1, learning=False)

    def _read(
        self, tokens_N: np.ndarray, span: CorpusSpan, seed: int, places: int, learning: bool
    ) -> tuple[float, float]:
        self.ready()
        config = self.config
        ways = {("skip-gram", "window"): kernels.SKIP_GRAM, ("skip-gram", "pair"): kernels.PAIRWISE}
        loss, pairs = kernels.read_span(
            tokens_N, span.start, span.stop, self._keep_V, *self._noise, *self._tree,
            flat(self.arrays["input"]), flat(self.arrays["output"]), _stride(self.arrays["input"]),
            ways.get((config.architecture, config.update), kernels.CBOW), config.window,
            0 if self.hierarchical else config.negatives, learning, np.uint64(kernels.key_of(seed, span.epoch)),
            span.place, float(config.lr), float(places), float(config.min_lr),
        )  # fmt: skip
        return float(loss), float(pairs)

    def vectors(self) -> np.ndarray:
        return self.arrays["input"]


_NO_TREE = Tree(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8))


def _stride(array: np.ndarray) -> Any:
    return array.strides[0] // array.itemsize
