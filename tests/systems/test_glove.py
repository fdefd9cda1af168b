"""GloVe against Stanford's program, the equations in numpy and a matrix whose vectors are known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import canon
from canon.contracts import Context
from canon.data.corpus.cooccurrence import ENTRY, Cooccurrence, count
from canon.data.corpus.corpus import Corpus
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels.cpu import glove as kernels_glove
from canon.systems.words.glove import Config, GloVe
from canon.training.run import Run
from canon.training.trainer import train
from tests.learners import data_of


def words(size: int) -> Words:
    return Words([f"w{i}" for i in range(size)], np.arange(2 * size, size, -1), 3 * size)


def corpus(size: int, vocab_size: int, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    tokens = (vocab_size * rng.random(size) ** 2).astype(np.int32)
    tokens[rng.random(size) < 0.05] = -1
    return Corpus(tokens, words(vocab_size))


def learner(text: Corpus, batch: int = 1000, threads: int = 1, **settings: Any) -> GloVe:
    result = GloVe(Config(vocab_size=text.words.size, **settings), Context(seed=3))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    result.begin(data_of({"input": text}), batch, 100)
    torch.set_num_threads(before)
    return result


def with_entries(model: dict[str, np.ndarray], entries: np.ndarray, **settings: Any) -> GloVe:
    """A learner with these weights, sums at 1, and these entries in this order as its only part."""
    size, dim = model["word"].shape
    result = GloVe(Config(vocab_size=size, dim=dim, **settings), Context())
    ones = {name: np.ones_like(array) for name, array in model.items()}
    groups = {"model": model, "optimizer": ones}
    result.restore({group: {n: torch.from_numpy(a) for n, a in made.items()} for group, made in groups.items()}, {})
    result.seed, result.batch, result.size = 0, 100, 100
    result.pairs = Cooccurrence(entries, int((entries["row"] == entries["column"]).sum()), 1)
    return result


def small_case(dim: int = 5, size: int = 6) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Weights by a formula, and all pairs of six words in some order, their counts from 0.1 to 150."""
    pairs = [(i, j) for i in range(size) for j in range(i + 1)]
    pairs = [pairs[13 * k % len(pairs)] for k in range(len(pairs))]
    entries = np.array([(i, j, ((7 * i + 3 * j) % 11 + 1) ** 3 / 9) for i, j in pairs], ENTRY)
    numbers = (np.sin(1 + np.arange(2 * size * (dim + 1))) / dim).reshape(2, size, dim + 1).astype(np.float32)
    model = {"word": numbers[0, :, :dim], "context": numbers[1, :, :dim]}
    return {**model, "word_bias": numbers[0, :, dim], "context_bias": numbers[1, :, dim]}, entries


# The objective and its steps


def test_three_epochs_of_stanfords_program() -> None:
    """Costs, vectors and biases of `glove -threads 1 -iter 3 -vector-size 5 -x-max 50 -binary 1 -load-init-param 1`
    (commit 52f7dbc, float64) on the small case, each pair followed by its mirror image. It prints half of our loss."""
    result = with_entries(*small_case(), x_max=50.0)
    losses = []
    for step in (1, 2, 3):
        result.step(step)
        losses.append(result.logs()["loss"] / 2)
    np.testing.assert_allclose(losses, [3.139563, 0.593503, 0.346628], atol=1e-6)
    vectors = [
        [-0.021365942, 0.22696908, 0.266657434, 0.061153226, -0.200545308],
        [0.052052757, 0.151075007, 0.110867942, -0.030912124, -0.144649973],
        [-0.048141097, 0.052095703, 0.104113238, 0.060738463, -0.038807648],
        [-0.188844063, 0.099551669, 0.296447298, 0.220757822, -0.05785761],
        [-0.198561622, 0.042535076, 0.244523177, 0.221700298, -0.004955721],
        [-0.276276593, -0.132996794, 0.132563529, 0.276233203, 0.165955921],
    ]
    np.testing.assert_allclose(result.vectors(), vectors, atol=1e-6)
    biases = [1.838993554, 2.561508455, 2.188641438, 2.169563419, 1.831595112, 1.418137159]
    context_biases = [1.784456933, 2.538350712, 2.228643825, 2.273951511, 1.961405362, 1.630148839]
    np.testing.assert_allclose(result.arrays["word_bias"], biases, atol=1e-6)
    np.testing.assert_allclose(result.arrays["context_bias"], context_biases, atol=1e-6)


@pytest.mark.parametrize("dim", [1, 16, 37])
def test_steps_are_those_of_adagrad(dim: int) -> None:
    """Two passes against the equations of glove.py, entry by entry in float64; sums too, and the padding is 0."""
    model, entries = small_case(dim)
    result = with_entries(model, entries, x_max=20.0, alpha=0.5, lr=0.1)
    theta = {name: array.astype(np.float64) for name, array in model.items()}
    sums = {name: np.ones_like(array) for name, array in theta.items()}
    for step in (1, 2):
        result.step(step)
        total = 0.0
        for i, j, x in entries.tolist():
            for a, b in ((i, j), (j, i))[: 1 + (i != j)]:
                w, c = theta["word"][a].copy(), theta["context"][b].copy()
                difference = w @ c + theta["word_bias"][a] + theta["context_bias"][b] - math.log(x)
                weight = min((x / 20) ** 0.5, 1)
                total += weight * difference**2
                for name, row, slope, rate in (
                    ("word", a, c, 0.1), ("context", b, w, 0.1), ("word_bias", a, 1, 1), ("context_bias", b, 1, 1),
                ):  # fmt: skip
                    gradient = rate * weight * difference * slope
                    theta[name][row] -= gradient / np.sqrt(sums[name][row])
                    sums[name][row] += gradient**2
        assert math.isclose(result.logs()["loss"], total / 36, rel_tol=1e-5)
    for name in theta:
        np.testing.assert_allclose(result.arrays[name], theta[name], rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(result.sums[name], sums[name], rtol=2e-5)
    assert result.table is not None
    rows = result.table.reshape(6, 4, result.width)
    assert not rows[:, :2, dim:].any() and (rows[:, 2:, dim:] == 1).all()


def test_a_matrix_of_low_rank_is_found() -> None:
    """log X = U Uᵀ + a + aᵀ of rank 3: the loss falls to nothing, and the dot products are those of log X."""
    rng = np.random.default_rng(0)
    size = 40
    basis, bias = rng.normal(size=(size, 3)) / 1.5, rng.normal(size=size)
    log_x = basis @ basis.T + bias[:, None] + bias
    rows, columns = np.tril_indices(size)
    entries = np.array(list(zip(rows, columns, np.exp(log_x[rows, columns]), strict=True)), ENTRY)
    model = {name: rng.normal(size=(size, 8), scale=0.1).astype(np.float32) for name in ("word", "context")}
    model |= {f"{name}_bias": np.zeros(size, np.float32) for name in ("word", "context")}
    result = with_entries(model, entries[rng.permutation(len(entries))], x_max=1.0)
    for step in range(1, 601):
        result.step(step)
    result.logs()
    result.step(601)
    assert result.logs()["loss"] < 1e-5
    reported = result.arrays["word"] @ result.arrays["context"].T
    reported += result.arrays["word_bias"][:, None] + result.arrays["context_bias"]
    assert np.abs(reported - log_x)[np.exp(log_x) > 1].max() < 0.05


def test_the_measured_loss_is_the_papers_mean() -> None:
    """J / number of entries that are not zero, in numpy from the whole matrix, before a step and after."""
    text = corpus(4000, 50)
    actual = learner(text, window=5, dim=12, x_max=8.0)
    for _ in range(2):
        full = np.zeros((50, 50))
        for i, j, x in count(text.tokens, 50, 5).entries.tolist():
            full[i, j] = full[j, i] = x
        i, j = np.nonzero(full)
        arrays = {name: array.astype(np.float64) for name, array in actual.arrays.items()}
        difference = (arrays["word"][i] * arrays["context"][j]).sum(axis=1) - np.log(full[i, j])
        difference += arrays["word_bias"][i] + arrays["context_bias"][j]
        wanted = (np.minimum((full[i, j] / 8) ** 0.75, 1) * difference**2).sum() / len(i)
        reported = actual.outputs({"input": text})
        assert math.isclose(reported["loss"].sum() / reported["pairs"].sum(), wanted, rel_tol=1e-5)
        assert reported["pairs"].sum() == len(i) == 2 * len(actual.pairs) - actual.pairs.num_diagonal  # type: ignore[union-attr]
        actual.step(1)


def test_counts_of_another_text_are_scaled_to_the_size_of_the_first() -> None:
    """Learned from a text ten times over, measured on it once: log(10 x) is compared, weighted by the x there is."""
    part = corpus(500, 30)
    part.tokens[-1] = -1
    actual = learner(Corpus(np.tile(part.tokens, 10), part.words), window=5, dim=8)
    for step in range(1, 40):
        actual.step(step)
    other = GloVe(actual.config, Context())
    other.take_words(part.words)
    other.restore({"model": actual.tensors()["model"]}, actual.state())
    for model in (actual, other):  # while learning, and loaded again
        wanted, pairs = 0.0, 0
        for i, j, x in count(part.tokens, 30, 5).entries.tolist():
            for a, b in ((i, j), (j, i))[: 1 + (i != j)]:
                dot = float(actual.arrays["word"][a] @ actual.arrays["context"][b])
                difference = dot + actual.arrays["word_bias"][a] + actual.arrays["context_bias"][b] - math.log(10 * x)
                wanted += min((x / 100) ** 0.75, 1) * difference**2
                pairs += 1
        reported = model.outputs({"input": part})
        assert math.isclose(reported["loss"].item(), wanted, rel_tol=1e-4) and reported["pairs"].item() == pairs


# Steps and epochs


@pytest.mark.parametrize("batch", [333, 4000, 9001])
def test_an_epoch_is_every_pair_once(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges that steps learn from: each epoch all entries, in an order of its own; the same for any batch."""
    seen: list[int] = []

    def record(width: int) -> Any:
        def learn(entries: np.ndarray, first: int, last: int, *_: Any) -> tuple[float, int]:
            seen.extend(range(first, last))
            return 0.0, last - first

        return learn

    text = corpus(4000, 200)
    result = learner(text, batch=batch, window=3, dim=4)
    size = len(result.pairs)  # type: ignore[arg-type]
    monkeypatch.setattr(kernels_glove, "learner", record)
    for step in range(1, -(-3 * len(text) // batch) + 1):
        result.step(step)
    epochs = [seen[start : start + size] for start in (0, size, 2 * size)]
    assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    again = learner(text, batch=100, window=3, dim=4)
    seen.clear()
    for step in range(1, 41):
        again.step(step)
    assert seen == epochs[0]


def test_threads_learn_as_well_as_one() -> None:
    """The loss after ten epochs with two threads, which do not wait for each other, within 2 % of that with one."""
    text = corpus(60_000, 400)
    losses = []
    for threads in (1, 2):
        result = learner(text, batch=len(text), threads=threads, dim=20, x_max=10.0)
        assert result.threads == threads
        for step in range(1, 11):
            result.step(step)
        reported = result.outputs({"input": text})
        losses.append(float(reported["loss"].sum() / reported["pairs"].sum()))
    assert math.isclose(*losses, rel_tol=0.02)


def test_one_thread_gives_the_same_numbers_again() -> None:
    """Bit for bit, and other numbers for another seed."""
    text = corpus(5000, 100)
    first, again = (learner(text, dim=20) for _ in range(2))
    other = GloVe(first.config, Context(seed=4))
    other.begin(data_of({"input": text}), 1000, 100)
    for result in (first, again, other):
        for step in range(1, 8):
            result.step(step)
    assert np.array_equal(first.vectors(), again.vectors())
    assert not np.array_equal(first.vectors(), other.vectors())


# What is made of it


def test_words_of_like_company_have_like_vectors() -> None:
    """Eight kinds of words that meet company of their own kind more often: the nearest of every word is of its kind."""
    rng = np.random.default_rng(1)
    kinds, each = 8, 5
    lines = []
    for kind in rng.integers(0, kinds, 20_000).tolist():
        met = kind if rng.random() < 0.6 else int(rng.integers(kinds))
        lines += [kind * each + int(rng.integers(each)), kinds * each + met * 3 + int(rng.integers(3)), -1]
    text = Corpus(np.array(lines, np.int32), words(kinds * (each + 3)))
    result = learner(text, batch=len(text), dim=16, window=1, x_max=10.0)
    for step in range(1, 61):
        result.step(step)
    vectors = result.vectors()[: kinds * each]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = vectors @ vectors.T - 2 * np.eye(len(vectors))
    assert (likeness.argmax(axis=1) // each == np.arange(len(vectors)) // each).all()


def test_training_goes_on_with_new_words() -> None:
    """Words of the earlier run keep their rows, in the new order; new ones begin as without it; sums begin again."""
    first = learner(corpus(3000, 40), dim=6, window=4)
    for step in range(1, 6):
        first.step(step)
    new = Words(["fresh", *first.words.words[::-1]], np.arange(41, 0, -1), 100)  # type: ignore[union-attr]
    text = Corpus(corpus(3000, 41, seed=5).tokens, new)
    plain, result = learner(text, dim=6, window=4), GloVe(Config(vocab_size=41, dim=6, window=4), Context(seed=3))
    result.adopt(first.tensors()["model"], first.words)  # type: ignore[arg-type]
    result.begin(data_of({"input": text}), 1000, 100)
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(result.arrays[name][1:], array[::-1])
        np.testing.assert_array_equal(result.arrays[name][0], plain.arrays[name][0])
    assert all((sums == 1).all() for sums in result.sums.values())
    result.step(1)
    assert not np.array_equal(result.arrays["word"][1:], first.arrays["word"][::-1])


def test_vectors_of_other_tools_are_the_sum_at_first() -> None:
    text = corpus(3000, 40)
    given = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    result = GloVe(Config(vocab_size=40, dim=6), Context(seed=3))
    result.adopt({"input": given}, text.words)
    result.begin(data_of({"input": text}), 1000, 100)
    np.testing.assert_array_equal(result.vectors(), given.numpy())
    np.testing.assert_array_equal(result.vector("w7"), given.numpy()[7])
    assert result.vector("unheard") is None
    with pytest.raises(CanonError, match=r"6 dimensions.*system\.dim is 7.*set system\.dim=6"):
        GloVe(Config(vocab_size=40, dim=7), Context()).adopt({"input": given}, text.words)


def test_a_run_from_text_to_neighbours(tmp_path: Path) -> None:
    """Trained by two threads from a file, resumed without counting; its vectors are the sums in its checkpoint."""
    rng = np.random.default_rng(0)
    kinds = [[kind if rng.random() < 0.8 else other for _ in range(6)] for kind, other in ("ab", "ba") * 600]
    lines = [" ".join(f"{kind}{rng.integers(4)}" for kind in line) for line in kinds]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    changes = {"train.steps": 30, "train.batch": 2000, "train.threads": 2, "data.valid": 0.0, "system.dim": 8}
    train("glove", str(tmp_path / "text.txt"), tmp_path / "run", changes=changes, quiet=True)
    result = Run(tmp_path / "run").result
    assert result is not None
    curve = [row["train/loss"] for row in Run(tmp_path / "run").metrics() if "train/loss" in row]
    assert result["scores"]["train"]["loss"] < curve[-1] < 0.1 * curve[0]
    model = canon.load(tmp_path / "run")
    tensors = model.learner.tensors()["model"]
    row = model.schema.words.index["a2"]  # type: ignore[union-attr]
    np.testing.assert_array_equal(model.vectors.matrix[row], (tensors["word"] + tensors["context"])[row])
    assert all(actual.word.startswith("a") for actual in model.vectors.neighbors("a2", 3))
    (counted,) = (tmp_path / "corpora").glob("pairs-*")
    before = (counted / "entries.bin").stat().st_mtime_ns
    train(str(tmp_path / "run"), resume=True, changes={"train.steps": 40}, quiet=True)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 40
    assert (counted / "entries.bin").stat().st_mtime_ns == before, "the counts are those of the first sitting"


# What cannot be


def test_mistakes_are_said_in_a_sentence() -> None:
    lonely = Corpus(np.array([0, -1, 1, -1, 2, -1], np.int32), words(3))
    with pytest.raises(CanonError, match=r"No line of the text has two words.*data\.min_count"):
        learner(lonely)
    wild = learner(corpus(5000, 30), dim=8, lr=1e30, x_max=1.0)
    with pytest.raises(CanonError, match=r"no longer a finite number at step 1: lower system\.lr"):
        wild.step(1)
