"""The n-gram language model, which an NNLM is measured against: frequencies of n words mixed with those of fewer.

Jelinek and Mercer 1980 ("interpolated"), as in Bengio et al. 2003, section 4.1; Chen and Goodman 1998, modified
Kneser–Ney ("kneser-ney"). With h the last n − 1 words, h' those without the oldest, c counts, p_0 = 1/V:
  p_n(w | h) = v(hw) + g(h) p_{n−1}(w | h')                                             `NGram.probabilities`
  interpolated: v = λ c(hw)/c(h), g = 1 − λ, λ one number per n and l(c(h)),
    l(x) = ⌈−log((1 + x)/T)⌉, T words of text; λ by expectation-maximisation            `_interpolated`, `_maximise`
  kneser-ney: v = (c(hw) − D)/c(h), D = D₁, D₂ or D₃₊ by c(hw), g what was taken; for fewer than n words c is the
    number of different words that came before                                          `_discounted`
Counting and all sums run over arrays, never over words in Python: the k-grams are one sorted array of parent·V + word,
parent the place of their first k − 1 words in the array before. A step counts `train.batch` more windows of the text
(0: all at once), then makes one iteration of EM, until that gains less than 1e-6 per word.
Deviations: λ is estimated on the training text with each word left out of the counts in turn, not on the validation
part; each n has its own λ by its own context's count, where Bengio et al. mix all by the count of the longest.
Shapes: N words of a text, M k-grams, K contexts of k − 1 words, V words of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context, Learner
from canon.data.batching.sequences import Windows
from canon.data.schema import Columns, Data
from canon.systems.settings import Positive

_BUCKETS = 64  # of context counts; ⌈log T⌉ + 1 are in use
_FALLBACK = (0.5, 1.0, 1.5)  # discounts where a text is too small to estimate them
_ENOUGH = 1e-6  # gain of an iteration, per word, below which nothing is left to learn


@settings
class Config:
    vocab_size: Positive = Field(default=1000, description="words; the data decides")
    order: Annotated[Positive, Field(le=100)] = Field(
        default=3, description="n: a word is predicted from the n − 1 before it"
    )
    smoothing: Literal["interpolated", "kneser-ney"] = Field(
        default="interpolated", description="Jelinek–Mercer by EM, or modified Kneser–Ney"
    )


class NgramTable(NamedTuple):
    """What p_k needs beside p_{k−1}."""

    value: np.ndarray  # [M] v of each k-gram
    back: np.ndarray  # [K] g of each context
    best: np.ndarray  # [K] the likeliest word after each context


class NGram(Learner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.vocab_size, self.order, self.smoothing = config.vocab_size, config.order, config.smoothing
        self.keys = [np.zeros(0, np.int64) for _ in range(self.order)]  # of k = 1 … n, sorted: parent·V + word
        self.counts = [np.zeros(0, np.int64) for _ in range(self.order)]
        self.weights = np.full((self.order, _BUCKETS), 0.5)  # λ
        self.num_counted = 0  # words of the training text
        self._loss = math.inf
        self._left_out: tuple[np.ndarray, np.ndarray] | None = None
        self._tables: list[NgramTable] | None = None

    @property
    def num_parameters(self) -> int:
        return sum(map(len, self.counts))

    # Learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        self._text, self._batch = _windows(data.splits["train"]), batch
        self.unit = (len(self._text.tokens) - 1) / max(len(self._text), 1), "tokens"

    def step(self, number: int) -> bool:
        num_windows = min(number * self._batch, len(self._text))
        tokens_N = self._text.tokens[: num_windows * self._text.window + 1]
        if len(tokens_N) != self.num_counted:
            self.count(tokens_N)
        more = num_windows < len(self._text)
        if self.smoothing == "kneser-ney":
            return more
        before, self._loss = self._loss, self._maximise(tokens_N)
        self._tables = None
        return more or before - self._loss > _ENOUGH

    def count(self, tokens_N: np.ndarray) -> None:
        """Every k-gram of the text, k = 1 … n."""
        parent_N, word_N = np.zeros(len(tokens_N), np.int64), tokens_N.astype(np.int64)
        for k in range(self.order):
            keys_N = parent_N * self.vocab_size + word_N
            self.keys[k], place_N, self.counts[k] = np.unique(keys_N, return_inverse=True, return_counts=True)
            parent_N, word_N = place_N[:-1], word_N[1:]
        self.num_counted, self._loss = len(tokens_N), math.inf
        self._left_out = self._tables = None

    def _maximise(self, tokens_N: np.ndarray) -> float:
        """One iteration of EM for λ; returns the mean −log p that the λ before it gave, each word left out in turn.

        A word is drawn by k words with probability λ_k Π_{j>k} (1 − λ_j), then by their relative frequency. The new λ
        of a bucket: of the draws that came as far down as k, the share that stopped there.
        """
        if self._left_out is None:
            self._left_out = self._leave_one_out(tokens_N)
        share_kN, bucket_kN = self._left_out
        weight_kN = np.where(bucket_kN < 0, 0.0, np.take_along_axis(self.weights, bucket_kN, axis=1))
        p_N = np.full(len(tokens_N), 1 / self.vocab_size)
        p_kN = [p_N := weight * share + (1 - weight) * p_N for weight, share in zip(weight_kN, share_kN, strict=True)]
        loss = -float(np.log(p_N).mean())
        reach_N, most = 1 / p_N, len(tokens_N) / (len(tokens_N) + 1)
        for k in reversed(range(self.order)):
            seen_N = bucket_kN[k] >= 0
            bucket_N, weight_N = bucket_kN[k][seen_N], weight_kN[k]
            stop = np.bincount(bucket_N, (reach_N * weight_N * share_kN[k])[seen_N], _BUCKETS)
            came = np.bincount(bucket_N, (reach_N * p_kN[k])[seen_N], _BUCKETS)
            shares = np.divide(stop, came, out=self.weights[k], where=came > 0)
            self.weights[k] = np.minimum(shares, most)  # words that never came keep some probability
            reach_N = reach_N * (1 - weight_N)
        return loss

    def _leave_one_out(self, tokens_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(c(hw) − 1)/(c(h) − 1) of each word for each k, and the bucket of c(h) − 1; −1 where nothing is left."""
        share_kN = np.zeros((self.order, len(tokens_N)))
        bucket_kN = np.full((self.order, len(tokens_N)), -1)
        for k, (context_N, place_N) in enumerate(self._places(tokens_N)):
            rest_N = np.zeros(len(tokens_N), np.int64)
            rest_N[context_N >= 0] = self._totals(k, self.counts[k])[context_N[context_N >= 0]] - 1
            seen_N = rest_N > 0
            share_kN[k][seen_N] = (self.counts[k][place_N[seen_N]] - 1) / rest_N[seen_N]
            bucket_kN[k][seen_N] = bucket(rest_N[seen_N], self.num_counted)
        return share_kN, bucket_kN

    # Tables of p, derived from counts and λ or D

    @property
    def tables(self) -> list[NgramTable]:
        """Of k = 1 … n; made when they are asked for, since learning λ needs none of them."""
        if self._tables is None:
            self._tables = self._derive()
        return self._tables

    def _derive(self) -> list[NgramTable]:
        suffixes = self._suffixes()
        entry_M = highest_K = np.full(1, 1 / self.vocab_size)  # p of each k-gram's last word; of the likeliest word
        best_K = shorter_K = np.zeros(1, np.int64)  # of a context: its likeliest word; its place without the oldest
        tables = []
        for k, keys_M in enumerate(self.keys):
            parent_M, word_M = np.divmod(keys_M, self.vocab_size)
            if self.smoothing == "interpolated":
                value_M, back_K = self._interpolated(k, parent_M)
            else:
                # Of the longest k-grams how often they came, of shorter ones how many different words came before.
                last = k == self.order - 1
                count_M = self.counts[k] if last else np.bincount(suffixes[k + 1], minlength=len(keys_M))
                value_M, back_K = self._discounted(k, parent_M, count_M)
            entry_M = value_M + back_K[parent_M] * entry_M[suffixes[k]]
            # A word that never followed the context is at best as likely as g times the shorter one's likeliest.
            highest_K, best_K = back_K * highest_K[shorter_K], best_K[shorter_K]
            first_M = np.lexsort((-entry_M, parent_M))
            first_M = first_M[np.flatnonzero(np.diff(parent_M[first_M], prepend=-1))]  # each context's likeliest
            first_M = first_M[entry_M[first_M] >= highest_K[parent_M[first_M]]]
            best_K[parent_M[first_M]], highest_K[parent_M[first_M]] = word_M[first_M], entry_M[first_M]
            tables.append(NgramTable(value_M, back_K, best_K))
            shorter_K = suffixes[k]
        return tables

    def _suffixes(self) -> list[np.ndarray]:
        """Of each k-gram the place of its last k − 1 words."""
        rows = [np.zeros(len(self.keys[0]), np.int64)]
        for k in range(1, self.order):
            parent_M, word_M = np.divmod(self.keys[k], self.vocab_size)
            rows.append(self._find(k - 1, rows[-1][parent_M], word_M))
        return rows

    def _interpolated(self, k: int, parent_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v = λ c(hw)/c(h) and g = 1 − λ; λ = 0 for the text's last words, which nothing follows."""
        total_K = self._totals(k, self.counts[k])
        weight_K = np.where(total_K > 0, self.weights[k][bucket(total_K, max(self.num_counted, 1))], 0.0)
        return weight_K[parent_M] * self.counts[k] / total_K[parent_M], 1 - weight_K

    def _discounted(self, k: int, parent_M: np.ndarray, count_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v = (c(hw) − D)/c(h) and g = Σ_w D/c(h); g = 1 where c(h) = 0."""
        total_K = self._totals(k, count_M)
        taken_M = np.array([0.0, *discounts(count_M)])[np.minimum(count_M, 3)]
        taken_K = np.bincount(parent_M, taken_M, len(total_K))
        value_M = (count_M - taken_M) / np.maximum(total_K, 1)[parent_M]
        return value_M, np.where(total_K > 0, taken_K / np.maximum(total_K, 1), 1.0)

    def _totals(self, k: int, count_M: np.ndarray) -> np.ndarray:
        """c(h) of each context: the sum over the words that followed it."""
        num_contexts = len(self.keys[k - 1]) if k else 1
        return np.bincount(self.keys[k] // self.vocab_size, count_M, num_contexts).astype(np.int64)

    def _find(self, k: int, parent_N: np.ndarray, word_N: np.ndarray) -> np.ndarray:
        """The places of k-grams, −1 for what was not counted."""
        if not len(self.keys[k]):
            return np.full(len(word_N), -1)
        key_N = parent_N * self.vocab_size + word_N
        place_N = np.minimum(np.searchsorted(self.keys[k], key_N), len(self.keys[k]) - 1)
        return np.where((parent_N >= 0) & (self.keys[k][place_N] == key_N), place_N, -1)

    def _places(self, tokens_N: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each k, of each word of a text: the places of the k − 1 words before it and of these with it."""
        context_N, places = np.zeros(len(tokens_N), np.int64), []
        for k in range(self.order):
            place_N = self._find(k, context_N, tokens_N.astype(np.int64))
            places.append((context_N, place_N))
            context_N = np.concatenate([[-1], place_N[:-1]])  # where a text begins, contexts are shorter
        return places

    # Use

    def probabilities(self, tokens_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p of each word of a text given those before it, and the likeliest word there."""
        p_N = np.full(len(tokens_N), 1 / self.vocab_size)
        best_N = np.zeros(len(tokens_N), np.int64)
        for k, (context_N, place_N) in enumerate(self._places(tokens_N)):
            known_N, seen_N = context_N >= 0, place_N >= 0
            p_N[known_N] *= self.tables[k].back[context_N[known_N]]
            p_N[seen_N] += self.tables[k].value[place_N[seen_N]]
            best_N[known_N] = self.tables[k].best[context_N[known_N]]
        return p_N, best_N

    def distribution(self, context: np.ndarray) -> np.ndarray:
        """[V] p of every word after these words."""
        p_V = np.full(self.vocab_size, 1 / self.vocab_size)
        for k in range(min(self.order, len(context) + 1)):
            place = np.zeros(1, np.int64)
            for j, word in enumerate(context[len(context) - k :]):
                place = self._find(j, place, np.array([word], np.int64))
            if place[0] < 0:
                break
            low, high = np.searchsorted(self.keys[k], [place[0] * self.vocab_size, (place[0] + 1) * self.vocab_size])
            p_V *= self.tables[k].back[place[0]]
            p_V[self.keys[k][low:high] % self.vocab_size] += self.tables[k].value[low:high]
        return p_V

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        text = _windows(columns)
        p_N, best_N = self.probabilities(text.tokens)
        window_N = np.arange(len(text.tokens) - 1) // text.window  # the first word is given
        sums = {"loss": -np.log(p_N[1:]), "right": (best_N[1:] == text.tokens[1:]).astype(float), "count": None}
        return {name: np.bincount(window_N, x_N, len(text)) * 1.0 for name, x_N in sums.items()}

    # What a checkpoint holds

    def logs(self) -> dict[str, float]:
        if self.smoothing == "interpolated":
            return {"loss": self._loss}
        return dict(zip(("discount_1", "discount_2", "discount_3"), discounts(self.counts[-1]), strict=True))

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        tables = {f"keys_{k + 1}": keys for k, keys in enumerate(self.keys)}
        tables |= {f"counts_{k + 1}": counts for k, counts in enumerate(self.counts)}
        return {"model": {name: x.copy() for name, x in {**tables, "weights": self.weights}.items()}}

    def state(self) -> dict[str, Any]:
        return {"num_counted": self.num_counted, "loss": self._loss if math.isfinite(self._loss) else None}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = {name: np.array(each) for name, each in tensors["model"].items()}
        self.keys = [model[f"keys_{k + 1}"] for k in range(self.order)]
        self.counts = [model[f"counts_{k + 1}"] for k in range(self.order)]
        self.weights, self.num_counted = model["weights"], state["num_counted"]
        self._loss = math.inf if state["loss"] is None else state["loss"]
        self._left_out = self._tables = None


def bucket(count: np.ndarray, total: int) -> np.ndarray:
    """l(x) = ⌈−log((1 + x)/T)⌉: 0 for contexts as frequent as can be, larger for rarer ones."""
    return np.maximum(np.ceil(-np.log((1 + count) / total)), 0).astype(np.int64)


def discounts(count_M: np.ndarray) -> tuple[float, float, float]:
    """D₁, D₂, D₃₊ from n_i, the number of k-grams that were counted i times: Y = n₁/(n₁ + 2 n₂), D_i = i − (i + 1) Y
    n_{i+1}/n_i (Chen and Goodman 1998, equation 26)."""
    n = np.bincount(np.minimum(count_M, 5), minlength=6)[1:5].astype(float)
    if not n.all():
        return _FALLBACK
    y = n[0] / (n[0] + 2 * n[1])
    discounts = [min(max(i - (i + 1) * y * n[i] / n[i - 1], 0.0), float(i)) for i in (1, 2, 3)]
    return discounts[0], discounts[1], discounts[2]


def _windows(columns: Columns) -> Windows:
    column = columns["input"]
    assert isinstance(column, Windows), "a language model reads windows of a text"
    return column
