"""Skip-gram by Triton's kernel against its equations and against the CPU's; without a GPU in Triton's interpreter."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton comes with torch for CUDA alone")

from canon.contracts import Context, World
from canon.kernels.cuda import skip_gram as skip_gram_cuda
from canon.kernels.cuda.skip_gram import OnDevice
from canon.systems.words.word2vec import Config, Word2Vec
from tests.learners import data_of
from tests.systems.test_word2vec import topics

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ALL = np.full(7, 1 << 32, np.int64)


def expected(
    input_VD: np.ndarray, output_VD: np.ndarray, sentences: list[list[int]], noise: int, negatives: int, lr: float
) -> float:
    """Every word after the other, all its neighbours from the vectors as they were; in place. The sum of losses."""
    total = 0.0
    for sentence in sentences:
        for place, word in enumerate(sentence):
            around = [sentence[i] for i in (place - 1, place + 1) if 0 <= i < len(sentence)]
            rows = [(word, 1.0)] + [(noise, 0.0)] * (negatives if noise != word else 0)
            o = np.array([output_VD[row] for row, _ in rows])
            change = np.zeros_like(o)
            for context in around:
                x = input_VD[context].copy()
                p = 1 / (1 + np.exp(-o @ x))
                g = lr * (np.array([label for _, label in rows]) - p)
                total -= sum(np.log(q if label else 1 - q) for q, (_, label) in zip(p, rows, strict=True))
                change += g[:, None] * x
                input_VD[context] += g @ o
            for (row, _), more in zip(rows, change, strict=True):
                output_VD[row] += more
    return float(total)


def test_words_move_as_the_equations_say() -> None:
    """Noise that is always word 5, a window of 1; texts end at marks, and at the span's ends."""
    random = np.random.default_rng(0)
    input_VD, output_VD = (random.normal(size=(7, 5)).astype(np.float32) for _ in range(2))
    tokens = np.array([6, 0, 1, 2, -1, 3, 5, 0, 4, 4, -1, 1], np.int32)
    never, always_5 = np.zeros(7, np.int64), np.full(7, 5, np.int32)
    config = Config(vocab_size=7, dim=5, window=1, negatives=3)
    there = OnDevice(input_VD, output_VD, ALL, (never, always_5), config, DEVICE)
    there.read(tokens[1:11], seed=3, lr_first=0.1, lr_last=0.1)
    wanted = input_VD.copy(), output_VD.copy()
    loss = expected(*wanted, [[0, 1, 2], [3, 5, 0, 4, 4]], noise=5, negatives=3, lr=0.1)
    actual = np.zeros_like(input_VD), np.zeros_like(output_VD)
    there.copy_to(*actual)
    if DEVICE.type == "cpu":  # a GPU does them all at once
        np.testing.assert_allclose(actual[0], wanted[0], atol=1e-5)
        np.testing.assert_allclose(actual[1], wanted[1], atol=1e-5)
        assert there.tallies() == pytest.approx((loss, 4 + 8), rel=1e-5)
    assert (actual[0][6] == input_VD[6]).all() and (actual[1][6] == output_VD[6]).all()
    assert there.tallies()[1] in (0, 12)


def test_it_learns_what_the_cpu_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five topics: the loss falls alike, and words of one topic come together; learning goes on from tensors."""
    monkeypatch.setattr(skip_gram_cuda, "_AT_ONCE", 4)  # the text is short: it would be all at once
    corpus, steps = topics(80), 6
    losses: dict[bool, list[float]] = {}
    for there in (False, True):
        monkeypatch.setattr(Word2Vec, "on_gpu", lambda self, there=there: there)
        settings: Any = {"vocab_size": corpus.words.size, "dim": 16, "window": 3, "subsample": 0.0, "lr": 0.3}
        learner = Word2Vec(Config(**settings), Context(world=World(str(DEVICE)), seed=1))
        learner.begin(data_of({"input": corpus}), len(corpus), steps)
        losses[there] = []
        for step in range(1, steps + 1):
            learner.step(step)
            losses[there].append(learner.logs()["loss"])
            if step == 3:
                learner.restore(learner.tensors(), learner.state())
        seen = corpus.words.counts > 5
        topic = np.array([word[:2] for word in corpus.words.words])[seen]
        alike = np.corrcoef(learner.outputs({"input": corpus})["vectors"][seen])
        is_same = topic[:, None] == topic
        assert alike[is_same].mean() > alike[~is_same].mean() + 0.1
    assert losses[True][0] == pytest.approx(losses[False][0], rel=0.05)
    assert losses[True][-1] == pytest.approx(losses[False][-1], rel=0.05) and losses[True][-1] < losses[True][0]
