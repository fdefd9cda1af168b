"""The fastText classifier's inner loops: features to their mean, a loss over labels, and both matrices a step down.

Joulin, Grave, Bojanowski and Mikolov 2017, Bag of tricks for efficient text classification (arXiv:1607.01759):
  h = (1/F) Σ_f A_f                  in `_mean`       (f: the document's features, A: the input matrix)
  L = −log softmax(B h)_y            in `_softmax`    (B: the output matrix, one row per label)
  L = −Σ_nodes log σ(±B_node h)      in `_tree`       (section 2.1, hierarchical softmax)
  L = −Σ_l log σ(±B_l h)             in `_one_vs_all`
  L = −log σ(B_y h) − Σ_k log σ(−B_k h), K labels k drawn as noise, in `_noise`
Every document is one step of stochastic gradient descent: B_l ← B_l − η ∂L/∂B_l, and each A_f ← A_f − (η/F) ∂L/∂h.
Random numbers are splitmix64 (Steele, Lea and Flood 2014) of what they belong to: (seed, row) for first weights,
(seed, epoch, document) for draws. Threads run `learn` side by side on the same matrices (Hogwild: Recht, Ré, Wright and
Niu 2011), except for what all of them write to with every document, the output matrix and the rows of the HOT most
frequent words: of these each thread has a copy, and every EXCHANGE documents adds what it has learned to the common
ones and takes over what the others have. One thread alone has no copies.
Plain version: the same code uncompiled with NumPy for lanes, equal but for rounding in tests/kernels/test_learners.py;
fastText itself in tests/systems/test_classifier.py.
Deviations: sigmoids and logarithms are exact, where fastText looks them up in tables.
Shapes: n documents, N words, F features of one, R rows of the input matrix, D dimensions, S the same in whole cache
lines (stride), L labels, U different words, B documents answered at once; `inputs` and `outputs` are flat.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit
from canon.kernels.cpu.lanes import LANES, LINE, fetch, fused, lanes, put, same, total
from canon.kernels.cpu.lock import give_back, take
from canon.kernels.cpu.subwords import put_subwords, put_word_ngrams

LOSSES = ("softmax", "hierarchical-softmax", "one-vs-all", "negative-sampling")
_SOFTMAX, _TREE, _ONE_VS_ALL, _NOISE = range(4)
LEAST_RATE = 1e-4  # share of the first rate that is left at the end
HOT = 128  # words whose rows several threads have copies of, after the rows of the input matrix
EXCHANGE = 128  # documents that a thread learns from between two exchanges
MOST_COPIED = 64  # labels; of more, documents seldom meet in the same row of a tree, and copies cost too much

# Everything but nnan and ninf: −log p of a label that is ruled out may be infinite.
_FLAGS = {"reassoc", "contract", "nsz", "arcp", "afn"}
_compiled = njit(nogil=True, cache=True, fastmath=_FLAGS, boundscheck=False)
_part = njit(nogil=True, fastmath=_FLAGS, boundscheck=False)


class DocumentRows(NamedTuple):
    """Documents as rows of the input matrix: those of their words (by word), then those of their word n-grams."""

    codes: np.ndarray  # int32 [N]: which of the different words
    starts: np.ndarray  # int64 [n + 1]
    row_starts: np.ndarray  # int64 [U + 1]: the rows of a word, its letter n-grams' among them
    rows: np.ndarray  # int32; below 0: −1 − r, where row r is not stored
    gram_starts: np.ndarray  # int64 [n + 1]
    grams: np.ndarray  # int32, as rows


class GivenLabels(NamedTuple):
    """The labels of documents, end to end."""

    labels: np.ndarray  # int64
    starts: np.ndarray  # int64 [n + 1]


class Ways(NamedTuple):
    """A binary tree over the labels: the way of each to the root, and the two nodes below each inner one."""

    starts: np.ndarray  # int64 [L + 1]
    nodes: np.ndarray  # int32: inner nodes are rows of the output matrix, the root the last
    turns: np.ndarray  # int8: 1 where the way comes from the right
    below: np.ndarray  # int32 [L − 1, 2]: left and right; labels are 0 … L − 1, inner node i is L + i


class Noise(NamedTuple):
    """What negative samples are drawn from."""

    cumulative: np.ndarray  # float64 [L]: shares of labels summed up
    draws: int  # for each document


# Random numbers


@_part
def _mixed(number):
    """splitmix64's output for the state `number`."""
    return mixed(np.uint64(number) + GOLDEN)


@_part
def _keyed(seed: int, first: int, second: int) -> Any:
    return _mixed(_mixed(_mixed(np.uint64(seed)) ^ np.uint64(first)) ^ np.uint64(second))


@_part
def _share(bits):
    """Uniform in [0, 1)."""
    return (bits >> np.uint64(11)) * (1.0 / (1 << 53))


@_compiled
def _add_first(seed: int, row: int, out_D: np.ndarray) -> None:
    """Adds the first weights of a row, uniform in ± 1/D."""
    size = len(out_D)
    key = _keyed(seed, 0, row)
    for d in range(size):
        out_D[d] += np.float32((2 * _share(_mixed(key + np.uint64(d))) - 1) / size)


@_compiled
def fill_first(seed: int, whole_R: np.ndarray, inputs_RS: np.ndarray, size: int, first: int, last: int) -> None:
    """First weights of rows [first, last); whole_R says which row of the whole matrix each of them is."""
    for row in range(first, last):
        inputs_RS[row] = 0
        _add_first(seed, whole_R[row], inputs_RS[row, :size])


# Threads


@_part
def _exchanged(common, own, start, before):
    """Adds what `own[start:]` has become since `before` to the first numbers of `common`; then all three are equal."""
    for d in range(0, len(before), LANES):
        now = lanes(common, d) + (lanes(own, start + d) - lanes(before, d))
        put(common, d, now)
        put(own, start + d, now)
        put(before, d, now)


# Features


@_compiled
def word_rows(
    text: np.ndarray,
    ends_U: np.ndarray,
    ids_U: np.ndarray,
    plain_U: np.ndarray,
    least: int,
    most: int,
    buckets: int,
    vocab_size: int,
    out: np.ndarray,
) -> np.ndarray:
    """Rows of every word, its own (where it has one) and those of its letter n-grams; gives where each begins."""
    starts_U = np.zeros(len(ids_U) + 1, np.int64)
    start, at = 0, 0
    for word in range(len(ids_U)):
        if ids_U[word] >= 0:
            out[at] = ids_U[word]
            at += 1
        if not plain_U[word]:
            at = put_subwords(text, start, ends_U[word], least, most, buckets, vocab_size, out, at)
        start = ends_U[word]
        starts_U[word + 1] = at
    return starts_U


@_compiled
def gram_rows(
    hashes_N: np.ndarray, starts_n: np.ndarray, most: int, buckets: int, vocab_size: int, out: np.ndarray
) -> np.ndarray:
    """Rows of the word n-grams of every document; gives where each document's begin."""
    found_n = np.zeros(len(starts_n), np.int64)
    at = 0
    for document in range(len(starts_n) - 1):
        hashes_T = hashes_N[starts_n[document] : starts_n[document + 1]]
        at = put_word_ngrams(hashes_T, len(hashes_T), most, buckets, vocab_size, out, at)
        found_n[document + 1] = at
    return found_n


@_part
def _features(texts, document, inputs, stride, hot, away, out_F):
    """Where the rows of a document's features begin; asks for them, so that they are near when their turn comes. The
    first `hot` rows have copies, `away` rows from there."""
    count = 0
    for place in range(texts.starts[document], texts.starts[document + 1]):
        code = texts.codes[place]
        for at in range(texts.row_starts[code], texts.row_starts[code + 1]):
            row = np.int64(texts.rows[at])
            out_F[count] = (row + away if 0 <= row < hot else row) * stride
            count += 1
    for at in range(texts.gram_starts[document], texts.gram_starts[document + 1]):
        out_F[count] = np.int64(texts.grams[at]) * stride
        count += 1
    for i in range(count):
        if out_F[i] >= 0:
            for d in range(0, stride, LINE):
                fetch(inputs, out_F[i] + d)
    return count


@_part
def _mean(rows_F, count, inputs, stride, hidden):
    """Four registers of sums at a time, while the rows pass."""
    scale = same(np.float32(1.0 / count))
    d = 0
    while d + 4 * LANES <= stride:
        a = b = c = e = same(np.float32(0))
        for i in range(count):
            at = rows_F[i] + d
            a = a + lanes(inputs, at)
            b = b + lanes(inputs, at + LANES)
            c = c + lanes(inputs, at + 2 * LANES)
            e = e + lanes(inputs, at + 3 * LANES)
        put(hidden, d, a * scale)
        put(hidden, d + LANES, b * scale)
        put(hidden, d + 2 * LANES, c * scale)
        put(hidden, d + 3 * LANES, e * scale)
        d += 4 * LANES
    while d < stride:
        a = same(np.float32(0))
        for i in range(count):
            a = a + lanes(inputs, rows_F[i] + d)
        put(hidden, d, a * scale)
        d += LANES


@_part
def _spread(rows_F, count, inputs, stride, gradient, paces_R):
    """Every feature moves by the gradient's mean share, times its own pace where there are paces."""
    scale = same(np.float32(1.0 / count))
    if len(paces_R) == 0:
        for d in range(0, stride, LANES):
            change = lanes(gradient, d) * scale
            for i in range(count):
                put(inputs, rows_F[i] + d, lanes(inputs, rows_F[i] + d) + change)
        return
    for i in range(count):
        pace = same(paces_R[rows_F[i] // stride]) * scale
        for d in range(0, stride, LANES):
            put(inputs, rows_F[i] + d, fused(pace, lanes(gradient, d), lanes(inputs, rows_F[i] + d)))


@_compiled
def _mean_of_all(rows_F, count, inputs, size, stride, seed, hidden):
    """`_mean` where some rows are not stored: such a row has its first weights, or does not count (seed −1)."""
    hidden[:] = 0
    counted = 0
    for i in range(count):
        row = rows_F[i]
        if row >= 0:
            for d in range(size):
                hidden[d] += inputs[row + d]
            counted += 1
        elif seed >= 0:
            _add_first(seed, -1 - row // stride, hidden[:size])
            counted += 1
    scale = np.float32(1.0 / max(counted, 1))
    for d in range(size):
        hidden[d] *= scale


# Losses: each adds η·(−∂L/∂h) to the gradient, moves the output matrix and returns L


@_part
def _dot(hidden, outputs, row, stride):
    sums = same(np.float32(0))
    for d in range(0, stride, LANES):
        sums = fused(lanes(hidden, d), lanes(outputs, row * stride + d), sums)
    return total(sums)


@_part
def _move(hidden, gradient, outputs, row, stride, alpha):
    rate = same(np.float32(alpha))
    for d in range(0, stride, LANES):
        before = lanes(outputs, row * stride + d)
        put(gradient, d, fused(rate, before, lanes(gradient, d)))
        put(outputs, row * stride + d, fused(rate, lanes(hidden, d), before))


@_part
def _softmax(hidden, gradient, outputs, stride, scores_L, target, rate):
    most = np.float32(-np.inf)
    for label in range(len(scores_L)):
        scores_L[label] = _dot(hidden, outputs, label, stride)
        most = max(most, scores_L[label])
    score = np.float64(scores_L[target] - most)
    sum_of_all = np.float32(0)
    for label in range(len(scores_L)):
        scores_L[label] = math.exp(scores_L[label] - most)
        sum_of_all += scores_L[label]
    scale = np.float32(1) / sum_of_all
    for label in range(len(scores_L)):
        _move(hidden, gradient, outputs, label, stride, rate * (np.float32(label == target) - scores_L[label] * scale))
    return math.log(np.float64(sum_of_all)) - score


@_part
def _logistic(hidden, gradient, outputs, row, stride, positive, rate):
    """−log σ(±B_row h)"""
    score = _dot(hidden, outputs, row, stride)
    alpha = rate * (np.float32(positive) - np.float32(1) / (np.float32(1) + np.exp(-score)))
    _move(hidden, gradient, outputs, row, stride, alpha)
    signed = np.float64(-score if positive else score)
    return max(signed, 0.0) + math.log1p(math.exp(-abs(signed)))


@_part
def _tree(hidden, gradient, outputs, stride, ways, target, rate):
    loss = 0.0
    for at in range(ways.starts[target], ways.starts[target + 1]):
        loss += _logistic(hidden, gradient, outputs, ways.nodes[at], stride, ways.turns[at] == 1, rate)
    return loss


@_part
def _one_vs_all(hidden, gradient, outputs, stride, size, labels, first, last, rate):
    loss = 0.0
    for label in range(size):
        positive = False
        for at in range(first, last):
            positive |= labels[at] == label
        loss += _logistic(hidden, gradient, outputs, label, stride, positive, rate)
    return loss


@_part
def _noise(hidden, gradient, outputs, stride, noise, target, key, rate):
    """Draws are repeated until they are not the target."""
    loss = _logistic(hidden, gradient, outputs, target, stride, True, rate)
    draws = np.uint64(0)
    for _ in range(noise.draws):
        label = target
        while label == target:
            draws += np.uint64(1)
            share = _share(_mixed(key + draws))
            label = 0
            while noise.cumulative[label] <= share:  # labels come by falling share: the way is short
                label += 1
        loss += _logistic(hidden, gradient, outputs, label, stride, False, rate)
    return loss


# Learning and answering


@_compiled
def learn(
    kind: int, texts: DocumentRows, answers: GivenLabels, ways: Ways, noise: Noise, order_n: np.ndarray, first: int,
    last: int, seen: int, planned: int, first_rate: float, seed: int, epoch: int, longest: int, stride: int, hot: int,
    away: int, exchange: int, lock: np.ndarray, paces_R: np.ndarray, inputs: np.ndarray, outputs: np.ndarray,
) -> tuple[float, int]:  # fmt: skip
    """Learns from documents order_n[first:last], `seen` of `planned` before them; sum of losses, and their number. One
    of several threads has copies of the first `hot` rows, `away` rows on, and of the outputs if they are few; it brings
    them up to date after every `exchange` documents."""
    hidden, gradient = np.zeros(stride, np.float32), np.zeros(stride, np.float32)
    scores_L = np.empty(len(outputs) // stride, np.float32)
    rows_F, next_F = np.empty(longest, np.int64), np.empty(longest, np.int64)
    copied = hot > 0 and len(scores_L) <= MOST_COPIED
    common = outputs
    if copied:
        outputs = common.copy()
    before_hot, before_outputs = inputs[: hot * stride].copy(), outputs[: len(outputs) if copied else 0].copy()
    inputs[away * stride : (away + hot) * stride] = before_hot
    loss, learned, due = 0.0, 0, exchange
    following = _features(texts, order_n[first], inputs, stride, hot, away, next_F) if first < last else 0
    for place in range(first, last):
        document, count = order_n[place], following
        rows_F, next_F = next_F, rows_F
        if place + 1 < last:
            following = _features(texts, order_n[place + 1], inputs, stride, hot, away, next_F)
        if hot > 0 and place - first >= due and take(lock):  # or after the next document
            _exchanged(inputs, inputs, away * stride, before_hot)
            _exchanged(common, outputs, 0, before_outputs)
            give_back(lock)
            due = place - first + exchange
        start, stop = answers.starts[document], answers.starts[document + 1]
        if count == 0 or start == stop:
            continue
        rate = np.float32(first_rate * max(1.0 - (seen + place - first) / planned, LEAST_RATE))
        key = _keyed(seed, 1 + epoch, document)
        target = answers.labels[start + np.int64(_share(key) * (stop - start))]  # one of its labels by chance
        _mean(rows_F, count, inputs, stride, hidden)
        gradient[:] = 0
        if kind == _SOFTMAX:
            loss += _softmax(hidden, gradient, outputs, stride, scores_L, target, rate)
        elif kind == _TREE:
            loss += _tree(hidden, gradient, outputs, stride, ways, target, rate)
        elif kind == _ONE_VS_ALL:
            loss += _one_vs_all(hidden, gradient, outputs, stride, len(scores_L), answers.labels, start, stop, rate)
        else:
            loss += _noise(hidden, gradient, outputs, stride, noise, target, key, rate)
        _spread(rows_F, count, inputs, stride, gradient, paces_R)
        learned += 1
    if hot > 0:
        while not take(lock):
            pass
        _exchanged(inputs, inputs, away * stride, before_hot)
        _exchanged(common, outputs, 0, before_outputs)
        give_back(lock)
    return loss, learned


@_compiled
def answer(
    kind: int,
    texts: DocumentRows,
    ways: Ways,
    first: int,
    last: int,
    seed: int,
    longest: int,
    size: int,
    stride: int,
    inputs: np.ndarray,
    outputs: np.ndarray,
    shares_BL: np.ndarray,
) -> None:
    """The probability of every label for documents [first, last), in float64; `size` numbers of a row count."""
    hidden, rows_F = np.zeros(stride, np.float32), np.empty(longest, np.int64)
    labels = shares_BL.shape[1]
    nodes = np.empty(2 * labels, np.float64)
    for document in range(first, last):
        shares_L = shares_BL[document - first]
        count = _features(texts, document, inputs, stride, 0, 0, rows_F)
        _mean_of_all(rows_F, count, inputs, size, stride, seed, hidden)
        if kind == _SOFTMAX:
            most = np.float32(-np.inf)
            for label in range(labels):
                shares_L[label] = _dot(hidden, outputs, label, stride)
                most = max(most, np.float32(shares_L[label]))
            for label in range(labels):
                shares_L[label] = math.exp(shares_L[label] - most)
            shares_L /= shares_L.sum()
        elif kind == _TREE:
            nodes[2 * labels - 2] = 1.0  # the root
            for inner in range(labels - 2, -1, -1):
                right = 1.0 / (1.0 + np.exp(-np.float64(_dot(hidden, outputs, inner, stride))))
                nodes[ways.below[inner, 0]] = nodes[labels + inner] * (1.0 - right)
                nodes[ways.below[inner, 1]] = nodes[labels + inner] * right
            shares_L[:] = nodes[:labels]
        else:
            for label in range(labels):
                shares_L[label] = 1.0 / (1.0 + np.exp(-np.float64(_dot(hidden, outputs, label, stride))))
