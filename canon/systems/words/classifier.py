"""The fastText classifier: labels from the mean of a document's features, which are words and hashed n-grams.

Joulin, Grave, Bojanowski and Mikolov 2017, Bag of tricks for efficient text classification (arXiv:1607.01759).
Features of a document are its words, its word n-grams up to `word_ngrams` and, where `maxn` is given, letter n-grams of
its words; n-grams share `buckets` rows by hashing (subwords.py). The equations are in kernels/cpu/classifier.py. A
document is one step of gradient descent; the rate falls linearly with documents seen; threads learn side by side. With
`paces` = "idf" features learn as if weighted by tf-idf, and the result is still fastText's function.
Of the matrix [V + B, D] only rows that training touches are kept (classifier_features.py): with a tensor "buckets" [P]
go rows V … V + P − 1 of "input"; without it, all are there.
Deviations: documents come in another order in every epoch, where fastText reads its file in order; the rate falls by
documents, not by words; pre-trained vectors are taken for words of the training data only; exact sigmoids.
Shapes: n documents, V words, B buckets, L labels, D dimensions, K labels predicted of each document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import AdoptsVectors, Context, Learner, Suggests
from canon.data.batching.documents import Distinct, Documents, LabelLists
from canon.data.batching.epochs import generator
from canon.data.schema import Columns, Data
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels import LINE
from canon.kernels.cpu import classifier as kernels
from canon.kernels.number import threads
from canon.systems.settings import Classes, Natural, Positive
from canon.systems.threads import InThreads
from canon.systems.words.base import CorpusSpan, shared_rows, spans
from canon.systems.words.classifier_features import DocumentFeatures, label_tree

_MOST_LABELS = 1000  # labels predicted of a document: all of them, or the most likely ones
_AT_ONCE = 1 << 22  # probabilities that are held at a time
_TINY = 1e-45
_VISITS, _FEWEST = 150_000, 50_000  # of documents, in all epochs; see `suggest`


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="words of the vocabulary; the data decides")
    num_classes: Classes = Field(default=2, description="labels; the data decides")
    dim: Positive = Field(default=100, description="dimensions of a feature")
    lr: Annotated[float, Field(gt=0)] = Field(default=0.1, description="learning rate; falls linearly to 0")
    loss: Literal["softmax", "hierarchical-softmax", "one-vs-all", "negative-sampling"] = Field(
        default="softmax", description="what the objective is; one-vs-all for examples with several labels"
    )
    word_ngrams: Positive = Field(default=1, description="most words of a word n-gram; 1: words alone")
    minn: Natural = Field(default=0, description="least letters of a letter n-gram")
    maxn: Natural = Field(default=0, description="most letters of a letter n-gram; 0: none are used")
    buckets: Positive = Field(default=2_000_000, description="rows that all n-grams share")
    paces: Literal["equal", "idf"] = Field(
        default="equal",
        description="how fast features learn: all alike, or rare ones faster, as if weighted by inverse frequency",
    )
    negatives: Positive = Field(default=5, description="labels drawn as noise (negative-sampling)")
    label_prefix: str = Field(default="__label__", description="before each label in fastText's files")


class Classifier(InThreads, Learner, AdoptsVectors, Suggests):
    config: Config

    @classmethod
    def suggest(cls, recipe: Any, schema: Any, size: int) -> dict[str, Any]:
        """Words, pairs of words and letter n-grams, weighted by rarity; the fewer the documents, the more epochs.

        Chinese words are short and their characters mean something: n-grams of them have 1 to 3 letters.
        """
        minn, maxn = (1, 3) if schema.chinese else (3, 5)
        most = min(max(round(_FEWEST / size), 50), 200)
        return {
            "system.dim": 50,
            "system.lr": 0.5,
            "system.word_ngrams": 2,
            "system.minn": minn,
            "system.maxn": maxn,
            "system.paces": "idf",
            "train.epochs": float(min(max(round(_VISITS / size), 5), most)),
            "train.batch": min(max(size // 10, 100), 10_000),
        }

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        sizes = config.vocab_size, config.buckets, config.word_ngrams, config.minn, config.maxn
        self.features = DocumentFeatures(*sizes)
        self.kind = kernels.LOSSES.index(config.loss)
        if config.maxn and config.minn > config.maxn:
            raise CanonError(f"system.minn is {config.minn}, more than system.maxn, {config.maxn}.")
        self.stride = -(-config.dim // LINE) * LINE
        self.inputs_RS = np.zeros((0, self.stride), np.float32)  # whole cache lines; beyond D all zeros
        self.outputs_LS = np.zeros((0, self.stride), np.float32)
        self.label_counts = np.ones(config.num_classes, np.int64)
        self.seed = -1  # of the first weights; −1: what is not stored does not count
        self.lr_now = config.lr
        self._loss, self._learned = 0.0, 0  # since the last log
        self._adopted: tuple[Mapping[str, Any], Words] | None = None
        self._epoch, self._order_n = -1, np.empty(0, np.int64)
        self._pool: ThreadPoolExecutor | None = None
        self._lock = np.zeros(1, np.int32)  # of what threads exchange
        self._hot = 0

    @property
    def num_parameters(self) -> int:
        return (len(self.inputs_RS) + len(self.outputs_LS)) * self.config.dim

    # Learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        columns = data.splits["train"]
        documents, labels = columns["input"], LabelLists.of(columns["target"])
        assert isinstance(documents, Documents)
        self.seed, self.batch, self.total = self.context.seed, batch, steps * batch
        self.unit = documents.num_words / max(len(documents), 1), "words"
        self.threads = threads()
        self.label_counts = np.bincount(labels.flat, minlength=self.config.num_classes)
        self.features.keep(self.features.used(documents))
        self._texts, self._sizes_n = self.features.of(documents)
        self._answers = kernels.GivenLabels(labels.flat.astype(np.int64), labels.offsets)
        self._make()
        self._paces_R = self._paces(len(documents))
        if self._adopted is not None:
            self._copy_rows(*self._adopted, documents.distinct)
        self._distinct = documents.distinct
        self._loss, self._learned, self._epoch = 0.0, 0, -1

    def _make(self) -> None:
        """Outputs at zero, inputs uniform in ± 1/D, as fastText begins."""
        vocab_size, kept_P = self.config.vocab_size, self.features.kept
        rows_P = np.empty(0, np.int64) if kept_P is None else vocab_size + kept_P
        whole_R = np.concatenate([np.arange(vocab_size), rows_P])
        self._hold(len(whole_R))
        inputs_RS = self.inputs_RS
        self.in_threads(
            lambda part: kernels.fill_first(self.seed, whole_R, inputs_RS, self.config.dim, *part),
            self.ranges(0, len(whole_R)),
        )
        rows = self.config.num_classes - (self.config.loss == "hierarchical-softmax")
        self.outputs_LS = np.zeros((rows, self.stride), np.float32)
        self._prepare()

    def _hold(self, rows: int) -> None:
        """Room for the input matrix, and after it for the threads' copies of its first rows."""
        self._hot = min(kernels.HOT, self.config.vocab_size) if self.threads > 1 else 0
        self._room_RS = np.zeros((rows + self.threads * self._hot, self.stride), np.float32)
        self.inputs_RS = self._room_RS[:rows]

    def _paces(self, size: int) -> np.ndarray:
        """Of each row's rate, the threads' copies among them; empty where all are 1.

        Features weighted by w, h = (1/F) Σ w_f U_f, have the rows A_f = w_f U_f, which move by w_f² times the step that
        they have without weights. w_f = 1 + log((1 + n)/(1 + count_f)); the mean of w² over all features is 1.
        """
        if self.config.paces == "equal":
            return np.empty(0, np.float32)
        counts_R = self.features.counts(self._texts, len(self.inputs_RS))
        paces_R = (1 + np.log((1 + size) / (1 + np.minimum(counts_R, size)))) ** 2
        paces_R *= counts_R.sum() / (paces_R * counts_R).sum()
        return np.concatenate([paces_R, np.tile(paces_R[: self._hot], self.threads)]).astype(np.float32)

    def _prepare(self) -> None:
        """What follows from the labels' counts: the tree, the noise."""
        tree = self.config.loss == "hierarchical-softmax"
        self._ways = label_tree(self.label_counts) if tree else label_tree(np.ones(2, np.int64))
        shares = np.sqrt(np.maximum(self.label_counts, 0).astype(np.float64))  # as fastText draws labels
        cumulative = np.cumsum(shares) / max(shares.sum(), 1.0)
        cumulative[-1] = 1.0
        self._noise = kernels.Noise(cumulative, self.config.negatives)

    def step(self, number: int) -> bool:
        for span in spans((number - 1) * self.batch, number * self.batch, len(self._sizes_n)):
            if span.epoch != self._epoch:
                self._epoch = span.epoch
                self._order_n = generator(self.seed, span.epoch).permutation(len(self._sizes_n))
            parts = [(span, thread, *part) for thread, part in enumerate(self._parts(span))]
            for loss, learned in self.in_threads(lambda part: self._learn(*part), parts):
                self._loss += loss
                self._learned += learned
        self.lr_now = self.config.lr * max(1 - number * self.batch / self.total, kernels.LEAST_RATE)
        return True

    def _parts(self, span: CorpusSpan) -> list[tuple[int, int]]:
        """The span cut for the threads, where their features are as many."""
        done = np.cumsum(self._sizes_n[self._order_n[span.start : span.stop]])
        cuts = span.start + np.searchsorted(done, done[-1] * np.arange(1, self.threads) / self.threads)
        return [part for part in pairwise([span.start, *cuts.tolist(), span.stop]) if part[0] < part[1]]

    def _learn(self, span: CorpusSpan, thread: int, first: int, last: int) -> tuple[float, int]:
        return kernels.learn(
            self.kind,
            self._texts,
            self._answers,
            self._ways,
            self._noise,
            self._order_n,
            first,
            last,
            span.place + first - span.start,
            self.total,
            self.config.lr,
            self.seed,
            span.epoch,
            int(self._sizes_n.max(initial=1)),
            self.stride,
            self._hot,
            len(self.inputs_RS) + thread * self._hot,
            kernels.EXCHANGE,
            self._lock,
            self._paces_R,
            self._room_RS.reshape(-1),
            self.outputs_LS.reshape(-1),
        )

    def in_threads(self, work: Callable[..., Any], items: list[Any]) -> list[Any]:
        """As of `InThreads`, but the threads stay from step to step."""
        number = threads()
        if number == 1 or len(items) == 1:
            return [work(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(number)
        others = [self._pool.submit(work, item) for item in items[1:]]
        first = work(items[0])  # in this thread: one less to wake
        return [first, *(other.result() for other in others)]

    def logs(self) -> dict[str, float]:
        """The mean loss per example since the last call, and the rate."""
        if not np.isfinite(self.outputs_LS).all():
            raise CanonError(f"The weights are no longer finite: system.lr = {self.config.lr:g} is too large.")
        mean = self._loss / self._learned if self._learned else 0.0
        self._loss, self._learned = 0.0, 0
        return {"loss": mean, "lr": self.lr_now}

    # Keeping

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        dim = self.config.dim
        model: dict[str, np.ndarray] = {
            "input": np.ascontiguousarray(self.inputs_RS[:, :dim]),
            "output": np.ascontiguousarray(self.outputs_LS[:, :dim]),
            "label_counts": self.label_counts,
        }
        if self.features.kept is not None:
            model |= {"buckets": self.features.kept, "seed": np.array([self.seed], np.int64)}
        return {"model": model}

    def state(self) -> dict[str, Any]:
        return {"loss": self._loss, "learned": self._learned, "lr": self.lr_now}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = {name: np.asarray(each) for name, each in tensors["model"].items()}
        self._hold(len(model["input"]))
        self.inputs_RS[:, : self.config.dim] = model["input"]
        self.outputs_LS = np.zeros((len(model["output"]), self.stride), np.float32)
        self.outputs_LS[:, : self.config.dim] = model["output"]
        self.label_counts = model["label_counts"].copy()
        self.features.keep(model["buckets"].copy() if "buckets" in model else None)
        if "seed" in model:
            self.seed = int(model["seed"][0])
        self._prepare()
        self._loss, self._learned = float(state.get("loss", 0.0)), int(state.get("learned", 0))
        self.lr_now = float(state.get("lr", self.lr_now))

    def whole_input(self) -> np.ndarray:
        """The input matrix with all its rows [V + B, D], as fastText's files have it."""
        vocab_size, dim, kept_P = self.config.vocab_size, self.config.dim, self.features.kept
        if kept_P is None:
            return np.ascontiguousarray(self.inputs_RS[:, :dim])
        whole_RD = np.zeros((vocab_size + self.features.buckets, dim), np.float32)
        if self.seed >= 0:
            kernels.fill_first(self.seed, np.arange(len(whole_RD)), whole_RD, dim, vocab_size, len(whole_RD))
        whole_RD[:vocab_size] = self.inputs_RS[:vocab_size, :dim]
        whole_RD[vocab_size + kept_P] = self.inputs_RS[vocab_size:, :dim]
        return whole_RD

    def adopt(self, tensors: Mapping[str, Any], words: Words) -> None:
        """Pre-trained vectors: the rows of "input" of words that are known here; all else has its first weights."""
        width = tensors["input"].shape[1]
        if width != self.config.dim:
            raise CanonError(
                f"The vectors to begin with have {width} dimensions, but system.dim is {self.config.dim}: set "
                f"system.dim={width}."
            )
        self._adopted = tensors, words
        if len(self.inputs_RS):
            self._copy_rows(tensors, words, self._distinct)

    def _copy_rows(self, tensors: Mapping[str, Any], words: Words, distinct: Distinct) -> None:
        word_of = {
            row: word.decode() for row, word in zip(distinct.ids.tolist(), distinct.words, strict=True) if row >= 0
        }
        ours = Words([word_of[row] for row in range(self.config.vocab_size)], np.zeros(len(word_of), np.int64), 0)
        here, there = shared_rows(ours, words)
        self.inputs_RS[here, : self.config.dim] = np.asarray(tensors["input"], np.float32)[there]

    # Answering

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        """Labels [n, K] by falling probability, those probabilities and, where labels are given, losses [n]."""
        documents = columns["input"]
        assert isinstance(documents, Documents)
        texts, sizes_n = self.features.of(documents)
        size, count = self.config.num_classes, len(documents)
        most = min(size, _MOST_LABELS)
        labels_nK, shares_nK = np.empty((count, most), np.int64), np.empty((count, most), np.float32)
        given = LabelLists.of(columns["target"]) if "target" in columns else None
        losses_n = np.zeros(count)
        longest = int(sizes_n.max(initial=1))

        def work(first: int) -> None:
            last = min(first + at_once, count)
            shares_BL = np.empty((last - first, size))
            sizes = longest, self.config.dim, self.stride
            matrices = self.inputs_RS.reshape(-1), self.outputs_LS.reshape(-1)
            kernels.answer(self.kind, texts, self._ways, first, last, self.seed, *sizes, *matrices, shares_BL)
            order_BK = _most_likely(shares_BL, most)
            labels_nK[first:last] = order_BK
            shares_nK[first:last] = np.take_along_axis(shares_BL, order_BK, axis=1)
            if given is not None:
                losses_n[first:last] = self._losses(shares_BL, given.take(np.arange(first, last)))

        at_once = max(min(_AT_ONCE // size, -(-count // threads())), 1)
        self.in_threads(work, list(range(0, count, at_once)))
        outputs: dict[str, np.ndarray] = {"labels": labels_nK, "probabilities": shares_nK}
        return outputs | ({"loss": losses_n} if given is not None else {})

    def _losses(self, shares_BL: np.ndarray, labels: LabelLists) -> np.ndarray:
        """What learning minimises, its chances replaced by their means: of the label drawn, and of the noise."""
        rows = np.repeat(np.arange(len(labels)), labels.lengths)
        own_N = -np.log(np.maximum(shares_BL[rows, labels.flat], _TINY))
        if self.config.loss == "one-vs-all":
            against_BL = -np.log(np.maximum(1 - shares_BL, _TINY))
            own_N -= against_BL[rows, labels.flat]
            return against_BL.sum(axis=1) + np.bincount(rows, own_N, len(labels))
        if self.config.loss == "negative-sampling":
            noise_L = np.diff(self._noise.cumulative, prepend=0.0)
            weighted_BL = -np.log(np.maximum(1 - shares_BL, _TINY)) * noise_L
            others_N = weighted_BL.sum(axis=1)[rows] - weighted_BL[rows, labels.flat]
            own_N += self.config.negatives * others_N / (1 - noise_L[labels.flat])
        return np.bincount(rows, own_N, len(labels)) / np.maximum(labels.lengths, 1)


def _most_likely(shares_BL: np.ndarray, count: int) -> np.ndarray:
    """The `count` labels of greatest probability, falling; of equals the lower number first."""
    if count == shares_BL.shape[1]:
        return np.argsort(-shares_BL, axis=1, kind="stable")
    some_BK = np.sort(np.argpartition(-shares_BL, count - 1, axis=1)[:, :count], axis=1)
    order_BK = np.argsort(-np.take_along_axis(shares_BL, some_BK, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some_BK, order_BK, axis=1)
