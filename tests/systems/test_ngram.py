"""The n-gram model against counters, mixtures and Kneser–Ney written out word by word; EM against what it promises."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canon as canon_package
from canon.contracts import Context
from canon.data.batching.sequences import Windows
from canon.systems.words.ngram import Config, NGram, bucket, discounts
from canon.training.run import Run
from tests.learners import data_of

V = 12
SMOOTHINGS = ["interpolated", "kneser-ney"]


def text(size: int = 600, seed: int = 0) -> np.ndarray:
    """Words that lean on the two before them; words 10 and 11 never come."""
    rng = np.random.default_rng(seed)
    tokens = [0, 1]
    for _ in range(size - 2):
        leaning = (tokens[-1] * 3 + tokens[-2]) % 10
        tokens.append(leaning if rng.random() < 0.5 else int(rng.integers(10) * rng.random()))
    return np.array(tokens, np.int32)


def learned(smoothing: str, order: int = 3, tokens: np.ndarray | None = None, steps: int = 30) -> NGram:
    tokens = text() if tokens is None else tokens
    model = NGram(Config(vocab_size=V, order=order, smoothing=smoothing), Context())
    windows = Windows(tokens, 10)
    model.begin(data_of({"input": windows}), len(windows), steps)
    for number in range(1, steps + 1):
        if not model.step(number):
            break
    return model


def grams(tokens: np.ndarray, k: int) -> Counter:
    return Counter(tuple(tokens[i : i + k].tolist()) for i in range(len(tokens) - k + 1))


def unpacked(model: NGram, k: int) -> dict[tuple[int, ...], int]:
    """The k-grams of the model's sorted arrays as tuples of words."""
    if k == 0:
        return {(): 0}
    words = list(unpacked(model, k - 1))
    parents, last = np.divmod(model.keys[k - 1], V)
    result = zip(parents.tolist(), last.tolist(), model.counts[k - 1].tolist(), strict=True)
    return {(*words[parent], word): count for parent, word, count in result}


def by_hand(model: NGram, tokens: np.ndarray, context: tuple[int, ...], word: int) -> float:
    """p(word | context) by the formulas, from counters over the text alone (and λ, which is learned)."""
    p = 1 / V
    for k in range(1, min(model.order, len(context) + 1) + 1):
        h = context[len(context) - k + 1 :]
        counts = grams(tokens, k)
        if model.smoothing == "kneser-ney" and k < model.order:
            counts = Counter(gram[1:] for gram in grams(tokens, k + 1))  # different words before
        of_context = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == h and count}
        total = sum(of_context.values())
        if not total:
            continue
        if model.smoothing == "interpolated":
            weight = model.weights[k - 1][math.ceil(-math.log((1 + total) / len(tokens)))]
            p = weight * of_context.get(word, 0) / total + (1 - weight) * p
        else:
            n, d = Counter(counts.values()), [0.5, 1.0, 1.5]
            if n[1] and n[2] and n[3] and n[4]:
                d = [i - (i + 1) * n[1] / (n[1] + 2 * n[2]) * n[i + 1] / n[i] for i in (1, 2, 3)]
                d = [min(max(value, 0.0), i) for i, value in enumerate(d, 1)]
            taken = {other: d[min(count, 3) - 1] for other, count in of_context.items()}
            p = (of_context.get(word, 0) - taken.get(word, 0)) / total + sum(taken.values()) / total * p
    return p


@pytest.mark.parametrize("order", [1, 2, 4])
def test_counts_equal_collections_counter(order: int) -> None:
    model, tokens = NGram(Config(vocab_size=V, order=order), Context()), text()
    model.count(tokens)
    for k in range(1, order + 1):
        assert unpacked(model, k) == dict(grams(tokens, k))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_sums_to_one_for_any_context(smoothing: str, order: int) -> None:
    """Over the vocabulary, after contexts that were counted, that were not, and that hold words that never came."""
    model, rng = learned(smoothing, order), np.random.default_rng(1)
    for length in range(order + 2):
        for _ in range(30):
            p_V = model.distribution(rng.integers(V, size=length))
            assert abs(p_V.sum() - 1) < 1e-9
            assert p_V.min() > 0


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_perplexity_and_likeliest_word_by_brute_force(smoothing: str, order: int) -> None:
    """A text of 80 words: p of each by the formulas over counters, and the argmax over the whole vocabulary."""
    train, unseen = text(400), np.concatenate([text(76, seed=5), [10, 3, 11, 0]]).astype(np.int32)
    model = learned(smoothing, order, train)
    p_N, best_N = model.probabilities(unseen)
    for t in range(len(unseen)):
        context = tuple(unseen[max(t - order + 1, 0) : t].tolist())
        wanted_V = [by_hand(model, train, context, word) for word in range(V)]
        np.testing.assert_allclose(model.distribution(np.array(context, np.int64)), wanted_V, atol=1e-12)
        assert p_N[t] == pytest.approx(wanted_V[unseen[t]], abs=1e-12)
        assert wanted_V[best_N[t]] == pytest.approx(max(wanted_V), abs=1e-12)
    outputs = model.outputs({"input": Windows(unseen, 9)})
    assert outputs["count"].tolist() == [9.0] * 8 + [7.0]  # the first word is given
    perplexity = math.exp(outputs["loss"].sum().item() / 79)
    assert perplexity == pytest.approx(np.prod(1 / p_N[1:]) ** (1 / 79), rel=1e-12)
    assert outputs["right"].sum().item() == (best_N[1:] == unseen[1:]).sum()


def test_mixture_weights_sum_to_one() -> None:
    """α_k = λ_k Π_{j>k} (1 − λ_j) and what is left for 1/V: a mixture of relative frequencies that gives `p`."""
    model, tokens = learned("interpolated"), text()
    for t in range(5, 60):
        h = tuple(tokens[t - 2 : t].tolist())
        weights, p, rest = [], 0.0, 1.0
        for k in (3, 2, 1):
            counts = {g: c for g, c in grams(tokens, k).items() if g[:-1] == h[2 - (k - 1) :]}
            total = sum(counts.values())
            weight = model.weights[k - 1][bucket(np.array(total), len(tokens))] if total else 0.0
            weights.append(rest * weight)
            p += rest * weight * counts.get((*h[2 - (k - 1) :], int(tokens[t])), 0) / max(total, 1)
            rest *= 1 - weight
        assert sum(weights) + rest == pytest.approx(1, abs=1e-12)
        assert all(0 <= weight <= 1 for weight in weights)
        assert model.probabilities(tokens)[0][t] == pytest.approx(p + rest / V, abs=1e-12)


def test_em_never_lowers_the_likelihood_of_what_was_left_out() -> None:
    """−log p per word, each left out of the counts in turn: falls at every iteration, until no small change helps."""
    tokens = text()
    model = NGram(Config(vocab_size=V), Context())
    model.count(tokens)
    losses = [model._maximise(tokens) for _ in range(5000)]
    assert all(after <= before + 1e-12 for before, after in pairwise(losses))
    assert losses[0] - losses[-1] > 0.01
    best = model.weights.copy()
    for k, place in zip(*np.nonzero((best != 0.5) & (best > 0.02) & (best < 0.98)), strict=True):
        for nudge in (-0.01, 0.01):
            model.weights = best.copy()
            model.weights[k, place] += nudge
            assert model._maximise(tokens) > losses[-1] - 1e-8


def test_left_out_probabilities_by_brute_force() -> None:
    """The loss that EM lowers, against counting the text without each word in turn (as the last of its n-gram)."""
    tokens = text(120)
    model = NGram(Config(vocab_size=V, order=2), Context())
    model.count(tokens)
    model.weights[:] = np.linspace(0.1, 0.9, 64)
    weights, loss = model.weights.copy(), 0.0
    for t in range(120):
        p = 1 / V
        for k in range(1, min(t + 1, 2) + 1):
            own = tuple(tokens[t - k + 1 : t + 1].tolist())
            counts = grams(tokens, k) - Counter([own])
            total = sum(count for gram, count in counts.items() if gram[:-1] == own[:-1])
            if total:
                weight = weights[k - 1][math.ceil(-math.log((1 + total) / 120))]
                p = weight * counts[own] / total + (1 - weight) * p
        loss -= math.log(p) / 120
    assert model._maximise(tokens) == pytest.approx(loss, rel=1e-12)


def test_buckets_as_the_paper_has_them() -> None:
    """l(x) = ⌈−log((1 + x)/T)⌉ at T = 1000: contexts of one bucket have counts within a factor of e."""
    counts = np.array([0, 1, 2, 6, 7, 18, 19, 367, 368, 999])
    assert bucket(counts, 1000).tolist() == [7, 7, 6, 5, 5, 4, 4, 1, 1, 0]


def test_discounts_by_hand() -> None:
    """n₁ = 8, n₂ = 4, n₃ = 2, n₄ = 1: Y = ½, D₁ = 1 − 2·½·4/8, D₂ = 2 − 3·½·2/4, D₃ = 3 − 4·½·1/2."""
    assert discounts(np.repeat([1, 2, 3, 4], [8, 4, 2, 1])) == pytest.approx((0.5, 1.25, 2.0))
    assert discounts(np.array([1, 1, 2])) == (0.5, 1.0, 1.5)  # nothing was counted three times


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_counting_in_steps_is_counting_at_once(smoothing: str) -> None:
    """Windows 7 at a time: after the last step the tables are those of the whole text, and EM ends at the same λ."""
    tokens = text()
    pieces = NGram(Config(vocab_size=V, smoothing=smoothing), Context())
    pieces.begin(data_of({"input": Windows(tokens, 10)}), 7, 100)
    steps = next(number for number in range(1, 100) if not pieces.step(number))
    assert steps >= 9  # 60 windows
    whole = learned(smoothing, steps=100)
    for k in range(3):
        np.testing.assert_array_equal(pieces.keys[k], whole.keys[k])
        np.testing.assert_array_equal(pieces.counts[k], whole.counts[k])
    unseen = text(300, seed=9)
    np.testing.assert_allclose(pieces.probabilities(unseen)[0], whole.probabilities(unseen)[0], rtol=0.02)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_restored_predicts_the_same(smoothing: str) -> None:
    model = learned(smoothing)
    again = NGram(Config(vocab_size=V, smoothing=smoothing), Context())
    again.restore(model.tensors(), model.state())
    columns = {"input": Windows(text(50, seed=2), 8)}
    for name, rows in model.outputs(columns).items():
        assert np.array_equal(rows, again.outputs(columns)[name])


def test_a_text_shorter_than_n() -> None:
    """Three words, n = 5: there is no context of four words, and p still sums to 1."""
    for smoothing in SMOOTHINGS:
        model = learned(smoothing, 5, np.array([1, 2, 1], np.int32))
        assert abs(model.distribution(np.array([1, 2, 1, 2])).sum() - 1) < 1e-12


def test_a_word_that_never_came_stays_possible() -> None:
    """Where every word came often, EM gives 1/V next to nothing: a share of 1/(N + 1) is kept, as if drawn once."""
    tokens = np.tile([1, 2], 50).astype(np.int32)
    model = NGram(Config(vocab_size=V, order=1), Context())
    model.count(tokens)
    for _ in range(5000):
        model._maximise(tokens)
    assert model.distribution(np.zeros(0, np.int64))[7] == pytest.approx(1 / 101 / V)


def test_trains_from_a_file(canon: Callable[..., Any]) -> None:
    """`canon train ngram` on counting words: after two words the third is known but for the lines' ends."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    lines = [" ".join(words[start:stop]) for start in range(9) for stop in range(start + 2, 10)] * 10
    Path("count.txt").write_text("\n".join(lines))
    settings = ("--set", "data.tokenizer=split", "--set", "data.window=10")
    outcome = canon("train", "ngram", "--data", "count.txt", "--out", "run", *settings)
    assert outcome.code == 0, outcome.err
    result = Run(Path("run")).result
    assert result is not None and result["scores"]["test"]["perplexity"] < 3
    predictions = canon_package.load("run").predict(["one two three four"])
    assert predictions[0]["perplexity"] < 4
    outcome = canon("generate", "run", "one two")
    predictions = "canon: run is a run of ngram, which can only measure text (canon predict).\n"
    assert outcome.code == 2 and outcome.err == predictions
