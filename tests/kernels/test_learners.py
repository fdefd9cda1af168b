"""Kernels that learn word vectors and classifiers, compiled and as plain Python with NumPy: equal but for rounding.

A compiled kernel may fuse a product and a sum, and adds lanes in another order. Each is off by half a unit of float32
(6e-8 of the number); after a few hundred steps weights differed by 1e-6 of the largest one at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from canon.systems.words import classifier as classifier_host
from canon.systems.words import classifier_features
from canon.systems.words import fasttext as fasttext_host
from canon.systems.words import glove as glove_host
from canon.systems.words import word2vec as word2vec_host
from tests.kernels.plain import compiled, plain
from tests.systems import test_classifier as classifier_tests
from tests.systems import test_fasttext as fasttext_tests
from tests.systems import test_glove as glove_tests
from tests.systems import test_word2vec as word2vec_tests

Kernels = Callable[[str], ModuleType]
NEAR = 1e-5  # of the largest number


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def compare(learned: Callable[[Kernels], list[Any]]) -> None:
    for one, other in zip(learned(compiled), learned(plain), strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_allclose(other, one, rtol=0, atol=NEAR * max(np.abs(one).max(), 1e-3))


def state_of(learner: Any, steps: int) -> list[Any]:
    """Weights and the mean loss, after some steps."""
    for step in range(1, steps + 1):
        learner.step(step)
    tensors = [tensor for group in learner.tensors().values() for tensor in group.values()]
    return [*tensors, learner.logs()["loss"]]


@pytest.mark.parametrize("loss", [{"negatives": 2}, {"negatives": 8}, {"loss": "hierarchical-softmax"}], ids=str)
@pytest.mark.parametrize("way", word2vec_tests.WAYS)
def test_word2vec(way: dict[str, Any], loss: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = word2vec_tests.corpus_of(200, 40)

    def learned(kernels: Kernels) -> list[Any]:
        monkeypatch.setattr(word2vec_host, "kernels", kernels("word2vec"))
        learner = word2vec_tests.learner_of(corpus, batch=200, **way, **loss)
        return [*state_of(learner, 2), *learner.measure(corpus.tokens, 0, 200)]

    compare(learned)


def test_noise_is_drawn_alike() -> None:
    threshold, other = np.array([1 << 31, 1 << 32, 7], np.int64), np.array([1, 1, 0], np.int32)
    both = [kernels("word2vec").draw_noise(3, 200, threshold, other) for kernels in (compiled, plain)]
    np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
@pytest.mark.parametrize("way", ["skip-gram", "cbow"])
def test_fasttext(way: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = fasttext_tests.corpus_of(fasttext_tests.made_text(40, 1))

    def learned(kernels: Kernels) -> list[Any]:
        monkeypatch.setattr(fasttext_host, "kernels", kernels("fasttext"))
        monkeypatch.setattr(fasttext_host, "subwords", kernels("subwords"))
        learner = fasttext_tests.learner_of(corpus, 2, 150, architecture=way, loss=loss)
        return [*state_of(learner, 2), *learner.measure(corpus.tokens, 0, 100), learner.vectors()]

    compare(learned)


def test_glove(monkeypatch: pytest.MonkeyPatch) -> None:
    def learned(kernels: Kernels) -> list[Any]:
        monkeypatch.setattr(glove_host, "kernels", kernels("glove"))
        learner = glove_tests.learner(glove_tests.corpus(300, 20), batch=300, dim=20, window=3, x_max=3.0)
        return [*state_of(learner, 3), *learner.measure(glove_tests.corpus(200, 20, 1).tokens, 0, 200)]

    compare(learned)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("features", classifier_tests.FEATURES)
@pytest.mark.parametrize("loss", classifier_tests.LOSSES)
def test_classifier_learns_and_answers(
    loss: str, features: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads have copies of the matrices; here one works after the other, so that both ways have one order."""
    path = classifier_tests.sample(tmp_path / "lines.txt", 60)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    one_by_one = lambda _self, work, items: [work(item) for item in items]  # noqa: E731
    monkeypatch.setattr(classifier_host.Classifier, "in_threads", one_by_one)

    def learned(kernels: Kernels) -> list[Any]:
        module = kernels("classifier")
        monkeypatch.setattr(classifier_host, "kernels", module)
        monkeypatch.setattr(classifier_features, "kernels", module)
        monkeypatch.setattr(module, "EXCHANGE", 4)
        sizes = classifier_tests.FEATURES[features]
        learner, columns = classifier_tests.trained(path, 4, loss=loss, dim=20, **sizes)
        outputs = learner.outputs(columns)
        return [*state_of(learner, 0), outputs["probabilities"], outputs["loss"]]

    compare(learned)
