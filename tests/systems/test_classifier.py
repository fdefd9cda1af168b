"""The fastText classifier against fasttext itself, numpy written out, brute force and scikit-learn."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import f1_score, precision_recall_fscore_support

from canon.contracts import Context
from canon.data import targets
from canon.data.batching.documents import Distinct, Documents, LabelLists, hashes
from canon.data.config import DataConfig
from canon.data.encodings.bags import BagSchema
from canon.data.schema import Columns
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.systems.words.classifier import Classifier, Config
from canon.systems.words.classifier_features import label_tree
from canon.systems.words.subwords import subword_ids, word_ngram_ids
from canon.tasks.labels import LabelTask
from canon.training.run import Run
from canon.training.trainer import train
from tests.learners import data_of
from tests.objectives.choices import choice
from tests.reading import read_as

LOSSES = {"softmax": "softmax", "hierarchical-softmax": "hs", "one-vs-all": "ova", "negative-sampling": "ns"}
FEATURES: dict[str, dict[str, int]] = {
    "words": {},
    "trigrams": {"word_ngrams": 3, "buckets": 500},
    "letters": {"word_ngrams": 2, "minn": 2, "maxn": 4, "buckets": 500},
}


def documents(texts: list[str], words: Words) -> Documents:
    """Texts cut at spaces, by hand."""
    rows = [[*text.encode().split(), b"</s>"] for text in texts]
    distinct = list(dict.fromkeys(word for row in rows for word in row))
    codes = np.array([distinct.index(word) for row in rows for word in row], dtype=np.int32)
    ids = np.array([words.index.get(word.decode(), -1) for word in distinct], dtype=np.int32)
    return Documents(codes, np.array([len(row) for row in rows]), Distinct(distinct, ids, hashes(distinct)))


def vocabulary(*words: str) -> Words:
    return Words([*words, "</s>"], np.ones(len(words) + 1, np.int64), len(words) + 1)


def labels(*rows: list[int]) -> LabelLists:
    return LabelLists(np.array([code for row in rows for code in row], np.int64), np.array([len(row) for row in rows]))


def sample(path: Path, count: int = 300, seed: int = 0) -> Path:
    """Lines whose words tell their labels, a third of them with two labels."""
    rng = np.random.default_rng(seed)
    words = [*(f"w{i}" for i in range(60)), "naïve", "北京", "é"]
    lines = []
    for _ in range(count):
        code = int(rng.integers(5))
        own = rng.choice(words[code * 12 : code * 12 + 20], size=int(rng.integers(0, 9))).tolist()
        names = ["abcde"[code]] + (["abcde"[(code + 1) % 5]] if rng.random() < 0.3 else [])
        lines.append(" ".join([*(f"__label__{name}" for name in names), *own]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(path: Path, steps: int = 60, batch: int = 20, seed: int = 3, **changes: Any) -> tuple[Classifier, Columns]:
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0, min_count=2, tokenizer="split"), "bags")
    sizes = {key: value for key, value in data.schema.sizes().items() if key != "shape"}
    learner = Classifier(Config(**{"dim": 8, "lr": 0.5, **sizes, **changes}), Context(seed=seed))
    columns = data.splits["train"]
    torch.set_num_threads(1)
    learner.begin(data_of(columns), batch, steps)
    for step in range(1, steps + 1):
        learner.step(step)
    return learner, columns


# Against fasttext

TEXTS = ["w1 w2 unknown w3", "", "北京 é w5 w20 zzz", "w50 w51 w52", "w1", "w13 w13 naïve w14 nothing else known"]


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_fasttext_answer_as_fasttext_does(loss: str, features: str, tmp_path: Path) -> None:
    """Probabilities of all labels, for known and unknown words, from fasttext's own matrices.

    fasttext adds 1e-5 to every probability (at every turn of a tree) and looks sigmoids up in a table of 512 places
    from −8 to 8, which is 1/128 of a probability at most."""
    own = FEATURES[features]
    names = {"word_ngrams": "wordNgrams", "buckets": "bucket"}
    theirs = {"bucket": 0, **{names.get(key, key): value for key, value in own.items()}}
    path = sample(tmp_path / "a.txt")
    model = fasttext.train_supervised(
        str(path), dim=8, epoch=5, lr=0.5, thread=1, loss=LOSSES[loss], verbose=0, minCount=3, **theirs
    )
    words, counts = model.get_words(include_freq=True)
    classes, label_counts = model.get_labels(include_freq=True)
    known = Words(list(words), np.array(counts, np.int64), 0)
    learner = Classifier(Config(vocab_size=known.size, num_classes=5, dim=8, loss=loss, **own), Context())  # type: ignore[arg-type]
    rows = 5 - (loss == "hierarchical-softmax")
    matrices = {"input": model.get_input_matrix(), "output": model.get_output_matrix()[:rows]}
    arrays = {**matrices, "label_counts": np.array(label_counts, np.int64)}
    learner.restore({"model": {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}}, {})
    actual = learner.outputs({"input": documents(TEXTS, known)})
    tolerance = 5e-5 if loss in ("softmax", "hierarchical-softmax") else 1 / 128
    for text, codes, shares in zip(TEXTS, actual["labels"].tolist(), actual["probabilities"].tolist(), strict=True):
        values = {name: share for share, name in model.f.predict(f"{text}\n", 5, 0.0, "strict")}
        for code, share in zip(codes, shares, strict=True):
            assert share == pytest.approx(values[classes[code]], abs=tolerance), (text, classes[code])
        assert shares == sorted(shares, reverse=True)


def test_weights_of_canon_answer_alike_in_fasttext(tmp_path: Path) -> None:
    """The other way: matrices that canon learned, with all their rows, put into a fasttext model of the same lines."""
    path = sample(tmp_path / "a.txt")
    learner, _ = trained(path, word_ngrams=2, buckets=700)
    model = fasttext.train_supervised(
        str(path), dim=8, epoch=1, thread=1, verbose=0, minCount=2, wordNgrams=2, bucket=700
    )
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0, min_count=2, tokenizer="split"), "bags")
    assert data.schema.words is not None and set(model.get_words()) == set(data.schema.words.words)
    whole, output = learner.whole_input(), learner.tensors()["model"]["output"]
    assert whole.shape == (data.schema.words.size + 700, 8)
    order = [data.schema.words.index[word] for word in model.get_words()]
    rows = [data.schema.classes.index(name.removeprefix("__label__")) for name in model.get_labels()]
    model.set_matrices(np.vstack([whole[order], whole[data.schema.words.size :]]), output[rows])
    result = learner.outputs({"input": documents(TEXTS, data.schema.words)})
    for text, codes, shares in zip(TEXTS, result["labels"].tolist(), result["probabilities"].tolist(), strict=True):
        values = {name: share for share, name in model.f.predict(f"{text}\n", 5, 0.0, "strict")}
        for code, share in zip(codes, shares, strict=True):
            assert share == pytest.approx(values[f"__label__{data.schema.classes[code]}"], abs=5e-5)


def test_accuracy_is_that_of_fasttext(tmp_path: Path) -> None:
    """Docstrings by module, the same words, split and settings, one thread, three seeds each: mean test accuracy within
    0.02 (measured: 0.791 and 0.780; one of the 514 test examples is 0.002)."""
    data = read_as(DataConfig(source="python-modules", tokenizer="word", valid=0.0), "bags")
    lines = {}
    for split in ("train", "test"):
        column, target = data.splits[split]["input"], data.splits[split]["target"]
        assert isinstance(column, Documents)
        rows = np.split(column.codes_N, column.offsets[1:-1])
        texts = [" ".join(column.distinct.words[code].decode() for code in row[:-1]) for row in rows]
        names = [f"__label__{data.schema.classes[code]}" for code in np.asarray(target)]
        lines[split] = tmp_path / f"{split}.txt"
        # fasttext reads a file in its order, so the file must have none.
        order = np.random.default_rng(0).permutation(len(texts))
        lines[split].write_text("".join(f"{names[row]} {texts[row]}\n" for row in order))
    assert data.schema.words is not None
    config = Config(vocab_size=data.schema.words.size, num_classes=15, dim=50, lr=0.5, word_ngrams=2, buckets=100_000)
    task = LabelTask(choice("softmax", "labels"), config, data.schema)
    size, epochs = len(data.splits["train"]["input"]), 10
    ours, theirs = [], []
    for seed in range(3):
        learner = Classifier(config, Context(seed=seed))
        torch.set_num_threads(1)
        learner.begin(data_of(data.splits["train"]), size, epochs)
        for step in range(1, epochs + 1):
            learner.step(step)
        ours.append(task.score(learner.outputs(data.splits["test"]), data.splits["test"])["accuracy"])
        model = fasttext.train_supervised(
            str(lines["train"]),
            dim=50,
            lr=0.5,
            epoch=epochs,
            wordNgrams=2,
            bucket=100_000,
            thread=1,
            seed=seed,
            verbose=0,
        )
        theirs.append(model.f.test(str(lines["test"]), 1, 0.0)[1])
    assert np.mean(ours) == pytest.approx(np.mean(theirs), abs=0.02)


# Against numpy written out


def sigmoid(x: np.ndarray | float) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def descended(
    loss: str, hidden: np.ndarray, output: np.ndarray, own: list[int], rate: float, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """−∂L/∂h · η, the output matrix one step on, and L."""
    if loss == "softmax":
        scores = output @ hidden
        shares = np.exp(scores) / np.exp(scores).sum()
        error = rate * (np.eye(len(output))[own[0]] - shares)
        return error @ output, output + np.outer(error, hidden), float(-np.log(shares[own[0]]))
    if loss == "one-vs-all":
        rows, goals = np.arange(len(output)), np.isin(np.arange(len(output)), own).astype(float)
    else:
        ways = label_tree(counts)
        part = slice(ways.starts[own[0]], ways.starts[own[0] + 1])
        rows, goals = ways.nodes[part], ways.turns[part].astype(float)
    shares = sigmoid(output[rows] @ hidden)
    after = output.copy()
    after[rows] += np.outer(rate * (goals - shares), hidden)
    reported = -(goals * np.log(shares) + (1 - goals) * np.log(1 - shares)).sum()
    return rate * (goals - shares) @ output[rows], after, float(reported)


@pytest.mark.parametrize("dim", [3, 40, 100])  # within a register, more than one, more than four
@pytest.mark.parametrize("loss", ["softmax", "hierarchical-softmax", "one-vs-all"])
def test_one_step_is_the_gradients(loss: str, dim: int) -> None:
    """One document with words, a word twice, an unknown word, word n-grams and letter n-grams: both matrices and the
    loss against the equations in float64."""
    words = vocabulary("fine", "film", "dull")
    config = Config(
        vocab_size=4,
        num_classes=4,
        dim=dim,
        lr=0.3,
        loss=loss,
        word_ngrams=2,
        minn=3,
        maxn=4,
        buckets=50,  # type: ignore[arg-type]
    )
    column, target = documents(["fine film fine unseen"], words), labels([2] if loss != "one-vs-all" else [2, 0])
    learner = Classifier(config, Context(seed=5))
    torch.set_num_threads(1)
    learner.begin(data_of({"input": column, "target": target}), 1, 10)
    learner.label_counts = np.array([9, 5, 4, 1])
    learner._prepare()
    rng = np.random.default_rng(0)
    output = rng.normal(size=(3 if loss == "hierarchical-softmax" else 4, dim))
    learner.outputs_LS[:, :dim] = output
    output = learner.outputs_LS[:, :dim].astype(np.float64)
    before = learner.whole_input().astype(np.float64)

    rows = []
    for word in ("fine", "film", "fine", "unseen", "</s>"):
        rows += [words.index[word]] if word in words.index else []
        rows += subword_ids(word, 3, 4, 50, 4).tolist()
    rows += word_ngram_ids(column.hashes, 2, 50, 4).tolist()
    hidden = before[rows].mean(axis=0)
    gradient, after, reported = descended(loss, hidden, output, target[0].tolist(), 0.3, learner.label_counts)
    wanted = before.copy()
    np.add.at(wanted, rows, gradient / len(rows))

    learner.step(1)
    np.testing.assert_allclose(learner.outputs_LS[:, :dim], after, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(learner.whole_input(), wanted, rtol=1e-5, atol=1e-6)
    assert learner.logs()["loss"] == pytest.approx(reported, rel=1e-6)
    assert not learner.inputs_RS[:, dim:].any() and not learner.outputs_LS[:, dim:].any(), "what fills up stays 0"


def test_an_epoch_is_one_document_after_the_other(tmp_path: Path) -> None:
    """All documents of an epoch in canon's own order, the rate falling, against the same in numpy."""
    path = sample(tmp_path / "a.txt", 60)
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0, tokenizer="split"), "bags")
    assert data.schema.words is not None
    column = data.splits["train"]["input"]
    target = LabelLists.of(data.splits["train"]["target"])
    first = LabelLists(target.flat[target.offsets[:-1]], np.ones(60, np.int64))  # one label each: nothing is drawn
    learner = Classifier(Config(vocab_size=data.schema.words.size, num_classes=5, dim=8, lr=0.5), Context(seed=1))
    torch.set_num_threads(1)
    learner.begin(data_of({"input": column, "target": first}), 20, 3)
    inputs, output = learner.whole_input().astype(np.float64), np.zeros((5, 8))
    for step in (1, 2, 3):
        learner.step(step)
    assert isinstance(column, Documents)
    for place, row in enumerate(learner._order_n):
        own = column.ids[column.offsets[row] : column.offsets[row + 1]]
        rate = 0.5 * (1 - place / 60)
        gradient, output, _ = descended("softmax", inputs[own].mean(axis=0), output, [first.flat[row]], rate, output)
        np.add.at(inputs, own, gradient / len(own))
    assert sorted(learner._order_n.tolist()) == list(range(60)) and (np.diff(learner._order_n) < 0).any()
    np.testing.assert_allclose(learner.whole_input(), inputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(learner.outputs_LS[:, :8], output, rtol=1e-4, atol=1e-5)


def aligned(num_labels: int, size: int, own: list[int], **changes: Any) -> Classifier:
    """A learner whose document d has the hidden vector e_d, so that output row l, column d tells what d did to l."""
    words = vocabulary(*(f"w{d}" for d in range(size)))
    config = Config(vocab_size=size + 1, num_classes=num_labels, dim=size, lr=1e-3, **changes)
    learner = Classifier(config, Context(seed=11))
    column = documents([f"w{d}" for d in range(size)], words)
    torch.set_num_threads(1)
    learner.begin(data_of({"input": column, "target": labels(*([own] * size))}), size, 10**6)
    learner.inputs_RS[:] = 0
    learner.inputs_RS[np.arange(size), np.arange(size)] = 2.0  # the mean with </s>, which is 0, is 1
    return learner


def test_a_label_is_drawn_evenly_and_again_in_every_epoch() -> None:
    """Of two labels each 600 documents learn from one: binomial within 4 σ, and others in the next epoch."""
    learner = aligned(4, 600, [0, 3])
    learner.step(1)
    chosen = learner.outputs_LS[:, :600] > 0
    assert chosen.sum() == 600 and not chosen[1:3].any()
    assert abs(chosen[0].sum() - 300) < 4 * np.sqrt(600 / 4)
    before = learner.outputs_LS[:, :600].copy()
    learner.step(2)
    again = learner.outputs_LS[:, :600] - before > 0
    assert abs((again[0] != chosen[0]).sum() - 300) < 4 * np.sqrt(600 / 4)


def test_noise_is_drawn_by_the_root_of_counts() -> None:
    """Labels drawn as noise, counted by how far their rows moved, against √count without the target: χ² test."""
    learner = aligned(5, 800, [1], loss="negative-sampling", negatives=4)
    learner.label_counts = np.array([400, 100, 64, 25, 4])
    learner._prepare()
    learner.step(1)
    draws = np.rint(-learner.outputs_LS[:, :800] / (1e-3 * 0.5))  # σ(0) = ½; each draw moves by ½ lr
    assert (draws[1] == -1).all() and (draws[[0, 2, 3, 4]] >= 0).all()
    counted = draws[[0, 2, 3, 4]].sum(axis=1)
    shares = np.sqrt([400, 64, 25, 4])
    assert counted.sum() == 3200
    assert stats.chisquare(counted, 3200 * shares / shares.sum()).pvalue > 1e-3


# The tree


def test_tree_is_huffmans_and_probabilities_sum_to_one() -> None:
    """Σ count · length against a heap's; the codes are prefix-free; Σ_l P(l) = 1 for random weights."""
    rng = np.random.default_rng(2)
    counts = np.sort(rng.integers(1, 1000, 37))[::-1]
    ways = label_tree(counts)
    heap = counts.tolist()
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    lengths = np.diff(ways.starts)
    assert int((counts * lengths).sum()) == cost
    codes = ["".join(map(str, ways.turns[a:b][::-1])) for a, b in zip(ways.starts[:-1], ways.starts[1:], strict=True)]
    assert not any(a != b and b.startswith(a) for a in codes for b in codes)
    words = vocabulary("a", "b", "c")
    learner = Classifier(Config(vocab_size=4, num_classes=37, dim=6, loss="hierarchical-softmax"), Context())
    arrays = {"input": rng.normal(size=(4, 6)), "output": 3 * rng.normal(size=(36, 6))}
    model = {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
    learner.restore({"model": model | {"label_counts": torch.from_numpy(counts.copy())}}, {})
    actual = learner.outputs({"input": documents(["a b", "c c c", ""], words)})
    np.testing.assert_allclose(actual["probabilities"].astype(float).sum(axis=1), 1, atol=1e-6)
    # One label's probability by its own way to the root.
    hidden = arrays["input"].astype(np.float32)[[0, 1, 3]].mean(axis=0)
    part = slice(ways.starts[20], ways.starts[21])
    right = sigmoid(arrays["output"].astype(np.float32)[ways.nodes[part]] @ hidden)
    wanted = np.prod(np.where(ways.turns[part] == 1, right, 1 - right))
    row = actual["labels"][0].tolist().index(20)
    assert float(actual["probabilities"][0, row]) == pytest.approx(wanted, rel=1e-4)


# Learning


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_do_not_depend_on_where_they_are_cut(loss: str, tmp_path: Path) -> None:
    """300 documents four times over in steps of 100 and of 40: bit for bit the same weights."""
    path = sample(tmp_path / "a.txt")
    one, _ = trained(path, steps=12, batch=100, loss=loss, word_ngrams=2, buckets=99)
    other, _ = trained(path, steps=30, batch=40, loss=loss, word_ngrams=2, buckets=99)
    for name, tensor in one.tensors()["model"].items():
        assert np.array_equal(tensor, other.tensors()["model"][name]), name


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_logged_is_that_of_the_outputs(loss: str, tmp_path: Path) -> None:
    """At a rate of almost 0 the mean logged over an epoch is the mean of outputs' losses: exactly where nothing is
    drawn, and within 5 % where labels and noise are."""
    learner, columns = trained(sample(tmp_path / "a.txt"), steps=30, loss=loss)
    learner.config = Config(**{**vars(learner.config), "lr": 1e-12})
    learner.logs()
    for step in range(31, 46):  # an epoch of 15 steps
        learner.step(step)
    reported = learner.outputs(columns)["loss"]
    tolerance = 1e-4 if loss == "one-vs-all" else 0.05
    assert learner.logs()["loss"] == pytest.approx(reported.mean(), rel=tolerance)


def test_threads_learn_as_well_as_one(tmp_path: Path) -> None:
    """Two threads without locks against one: the training loss within 10 %, and every document learned from once."""
    path = sample(tmp_path / "a.txt", 600)
    one, columns = trained(path, steps=60, batch=100)
    two = Classifier(one.config, Context(seed=3))
    torch.set_num_threads(2)
    two.begin(data_of(columns), 100, 60)
    for step in range(1, 61):
        two.step(step)
    assert two.state()["learned"] == one.state()["learned"] == 6000
    losses = [float(learner.outputs(columns)["loss"].mean()) for learner in (one, two)]
    torch.set_num_threads(1)
    assert losses[1] == pytest.approx(losses[0], rel=0.1) and losses[0] < 0.7 * np.log(5)


def test_nothing_is_lost_between_threads(tmp_path: Path) -> None:
    """At a rate so small that changes add up, an epoch by two threads changes both matrices as one thread does: of 63
    words each thread has copies, and what it learned reaches the common rows once."""
    path = sample(tmp_path / "a.txt", 3000)
    for start in ("inputs", "outputs"):  # what begins at 0, so that it is its change
        values = []
        for threads in (1, 2):
            learner, columns = trained(path, steps=1, batch=1, lr=1e-7)
            torch.set_num_threads(threads)
            learner.begin(data_of(columns), 3000, 1)
            learner.outputs_LS[:, :8] = np.random.default_rng(1).normal(size=(5, 8))
            matrix = learner.inputs_RS if start == "inputs" else learner.outputs_LS
            matrix[:] = 0
            learner.step(1)
            values.append(matrix.copy())
        torch.set_num_threads(1)
        assert learner._hot == 64 and np.abs(values[0]).max() > 1e-7
        np.testing.assert_allclose(values[1], values[0], atol=1e-3 * np.abs(values[0]).max())


def test_rows_that_training_never_touched_are_not_stored(tmp_path: Path) -> None:
    """Of 50,000 buckets the used ones; what is left out answers as if all rows were there, from the seed."""
    learner, columns = trained(sample(tmp_path / "a.txt"), word_ngrams=2, buckets=50_000)
    model = learner.tensors()["model"]
    assert len(model["input"]) < learner.config.vocab_size + 3000 and len(model["buckets"]) < 3000
    whole = Classifier(learner.config, Context())
    arrays = {"input": torch.from_numpy(learner.whole_input()), "output": model["output"]}
    whole.restore({"model": arrays | {"label_counts": model["label_counts"]}}, {})
    data = read_as(
        DataConfig(source=str(tmp_path / "a.txt"), valid=0.0, test=0.0, min_count=2, tokenizer="split"), "bags"
    )
    assert data.schema.words is not None
    unseen = documents(["w1 w59 new w30 w2", *TEXTS], data.schema.words)
    for column in (columns["input"], unseen):
        ours, theirs = learner.outputs({"input": column}), whole.outputs({"input": column})
        assert np.array_equal(ours["labels"], theirs["labels"])
        np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], rtol=0, atol=1e-7)
    # And stored in a checkpoint: it answers the same.
    again = Classifier(learner.config, Context())
    again.restore(learner.tensors(), learner.state())
    assert np.array_equal(
        again.outputs({"input": unseen})["probabilities"], learner.outputs({"input": unseen})["probabilities"]
    )


def test_only_the_likeliest_of_many_labels_are_reported() -> None:
    """1,500 labels: the 1,000 of greatest probability, in order, against a sort of all of them."""
    rng = np.random.default_rng(0)
    learner = Classifier(Config(vocab_size=2, num_classes=1500, dim=4), Context())
    arrays = {"input": rng.normal(size=(2, 4)), "output": rng.normal(size=(1500, 4))}
    model = {name: torch.tensor(array, dtype=torch.float32) for name, array in arrays.items()}
    learner.restore({"model": model | {"label_counts": torch.ones(1500, dtype=torch.int64)}}, {})
    result = learner.outputs({"input": documents(["a"], vocabulary("a"))})
    scores = arrays["output"].astype(np.float32) @ arrays["input"].astype(np.float32).mean(axis=0)
    assert result["labels"][0].tolist() == np.argsort(-scores, kind="stable")[:1000].tolist()


def test_a_rate_that_is_too_large_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"no longer finite: system.lr = 1e\+30"):
        learner, _ = trained(sample(tmp_path / "a.txt"), lr=1e30)
        learner.logs()


# Pre-trained vectors


def test_vectors_are_taken_by_word(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """train.init = FILE.vec: known words begin with its rows, the others and the outputs as without; a wrong width is
    a sentence."""
    path = sample(tmp_path / "a.txt")
    vectors = {"w3": np.arange(8) / 8, "w30": -np.ones(8), "elsewhere": np.zeros(8)}
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in vectors.items()]
    (tmp_path / "some.vec").write_text(f"3 8\n{chr(10).join(lines)}\n")
    plain, columns = trained(path, steps=1)
    learner = Classifier(plain.config, Context(seed=3))
    words = Words(list(vectors), np.ones(3, np.int64), 3)
    learner.adopt({"input": torch.tensor(np.stack(list(vectors.values())), dtype=torch.float32)}, words)
    learner.begin(data_of(columns), 20, 1)
    other = Classifier(plain.config, Context(seed=3))
    other.begin(data_of(columns), 20, 1)
    column = columns["input"]
    assert isinstance(column, Documents)
    rows = {word.decode(): int(row) for word, row in zip(column.distinct.words, column.distinct.ids, strict=True)}
    ours, theirs = learner.whole_input(), other.whole_input()
    for word, row in rows.items():
        if row >= 0:
            np.testing.assert_allclose(ours[row], vectors.get(word, theirs[row]), rtol=1e-6)
    with pytest.raises(CanonError, match=r"have 5 dimensions, but system.dim is 8: set system.dim=5"):
        learner.adopt({"input": torch.zeros(3, 5)}, words)
    options = ("--data", path, "--set", "system.dim=8", "--set", "train.init=some.vec", "--set", "train.epochs=2")
    printed = canon("train", "fasttext-classifier", "--set", "data.tokenizer=split", *options, "--out", "run")
    assert printed.code == 0 and "vectors of 2 of 64 words taken" in (printed.out + printed.err)


# Scores


def test_scores_are_scikit_learns() -> None:
    """Two and more labels an example; top 1, top 2 and a threshold: F1, precision and recall of each label."""
    rng = np.random.default_rng(1)
    n, size = 200, 7
    shares = rng.random((n, size)).astype(np.float32)
    truth = rng.random((n, size)) < 0.25
    truth[:, 2] |= ~truth.any(axis=1)
    own = LabelLists(np.nonzero(truth)[1], truth.sum(axis=1))
    order = np.argsort(-shares, axis=1)
    outputs = {
        "labels": order,
        "probabilities": np.take_along_axis(shares, order, axis=1),
        "loss": rng.random(n),
    }
    schema = BagSchema(targets.Labels(tuple("abcdefg")))
    ranks = np.argsort(order, axis=1)
    for top, threshold in ((None, None), (2, None), (None, 0.6), (3, 0.7)):
        task = LabelTask(choice("softmax", "labels"), Config(num_classes=7), schema)
        task.top, task.threshold = top, threshold
        scores = task.score(outputs, {"target": own})
        most = top or (1 if threshold is None else size)
        predicted = (ranks < most) & (shares >= np.float32(threshold or 0.0))
        for average in ("micro", "macro"):
            assert scores[f"f1_{average}"] == pytest.approx(
                f1_score(truth, predicted, average=average, zero_division=0)
            )
        wanted = precision_recall_fscore_support(truth, predicted, zero_division=0)
        for name, column in zip(("precision", "recall", "f1", "examples"), wanted, strict=True):
            assert [row[name] for row in task.table] == pytest.approx(column.tolist())
        assert [row["label"] for row in task.table] == list("abcdefg")
    best = np.take_along_axis(truth, order, axis=1)
    assert scores["accuracy"] == pytest.approx(best[:, 0].mean())
    assert scores["recall@1"] == pytest.approx(best[:, 0].sum() / truth.sum())
    assert scores["precision@5"] == pytest.approx(best[:, :5].mean())
    assert scores["recall@5"] == pytest.approx(best[:, :5].sum() / truth.sum())


def test_precision_and_recall_are_fasttexts(tmp_path: Path) -> None:
    """model.test and model.test_label of fasttext against canon's scores of the same weights; of single labels only the
    precision, since fasttext 0.9.2 gives NaN for their recall."""
    path = sample(tmp_path / "a.txt")
    model = fasttext.train_supervised(str(path), dim=8, epoch=5, lr=0.5, thread=1, verbose=0, minCount=1, bucket=0)
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0, tokenizer="split"), "bags")
    assert data.schema.words is not None
    order = [model.get_words().index(word) for word in data.schema.words.words]
    rows = [model.get_labels().index(f"__label__{name}") for name in data.schema.classes]
    config = Config(vocab_size=len(order), num_classes=5, dim=8)
    learner = Classifier(config, Context())
    arrays = {"input": model.get_input_matrix()[order], "output": model.get_output_matrix()[rows]}
    counts = torch.ones(5, dtype=torch.int64)
    learner.restore({"model": {name: torch.from_numpy(a) for name, a in arrays.items()} | {"label_counts": counts}}, {})
    task = LabelTask(choice("softmax", "labels"), config, data.schema)
    result = task.score(learner.outputs(data.splits["train"]), data.splits["train"])
    count, precision, recall = model.f.test(str(path), 1, 0.0)
    assert count == 300 and result["accuracy"] == pytest.approx(precision)
    assert result["recall@1"] == pytest.approx(recall)
    reported = model.test_label(str(path), k=1, threshold=0.0)
    for row in task.table:
        assert row["precision"] == pytest.approx(reported[f"__label__{row['label']}"]["precision"])


# From the command line


def test_from_lines_to_predictions(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """train, evaluate (own and other data, labels of each), predict (top, threshold), and what is refused."""
    path = sample(tmp_path / "a.txt", 500)
    more = ("--set", "system.dim=10", "--set", "system.lr=0.5", "--set", "train.epochs=20", "--set", "train.threads=1")
    assert canon("train", "fasttext-classifier", "--data", path, "--out", "run", "--quiet", *more).code == 0
    result = Run(Path("run")).result
    assert result is not None and result["scores"]["test"]["accuracy"] > 0.75
    record = json.loads(canon("evaluate", "run", "--json").out)
    assert {row["label"] for row in record.pop("labels")} == set("abcde") and record == result["scores"]["test"]
    assert "precision  recall" in canon("evaluate", "run", "--labels").out
    narrow = json.loads(canon("evaluate", "run", "--json", "--top", "2").out)
    assert narrow["f1_micro"] != record["f1_micro"] and narrow["accuracy"] == record["accuracy"]

    (tmp_path / "b.txt").write_text("__label__a w1 w2 w3\n__label__new w4\n__label__b __label__other w20 w21\n")
    other = canon("evaluate", "run", "--data", "b.txt", "--json")
    assert other.code == 0 and "new (1), other (1); 1 examples have no other label and are not scored" in other.err
    assert json.loads(other.out)["accuracy"] in (0.0, 0.5, 1.0)

    rows = json.loads(canon("predict", "run", "w1 w2 w3 w4", "b.txt", "--top", "3", "--json").out)
    assert [row["source"] for row in rows] == ["w1 w2 w3 w4", "b.txt, line 1", "b.txt, line 2", "b.txt, line 3"]
    assert rows[0]["prediction"] == "a" and len(rows[0]["top"]) == 3
    rows = json.loads(canon("predict", "run", "w1 w2 w3 w4", "--threshold", "0.05", "--json").out)
    assert all(choice["probability"] >= 0.05 for choice in rows[0]["top"]) and rows[0]["top"]
    assert canon("predict", "run", "w1", "--threshold", "2").err == (
        "canon: --threshold must be a probability, 0 to 1, got 2.\n"
    )


def test_several_labels_by_one_vs_all(tmp_path: Path) -> None:
    """Labels of their own words: each is found by itself, and all of an example's labels pass the threshold."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        own = np.flatnonzero(rng.random(4) < 0.5)
        own = own if len(own) else np.array([0])
        words = [f"{'abcd'[code]}{rng.integers(3)}" for code in own for _ in range(2)]
        lines.append(" ".join([*(f"__label__{'abcd'[code]}" for code in own), *words]))
    (tmp_path / "a.txt").write_text("\n".join(lines))
    changes = {"objective.name": "one-vs-all", "train.epochs": 50, "train.threads": 1}
    changes |= {"system.dim": 16, "system.lr": 1.0}
    run = train("fasttext-classifier", str(tmp_path / "a.txt"), tmp_path / "run", changes=changes, quiet=True)
    assert run.result is not None
    assert run.result["scores"]["test"]["f1_micro"] > 0.97 and run.result["scores"]["test"]["recall@1"] < 0.7


def test_refusals(tmp_path: Path, canon: Callable[..., Any]) -> None:
    assert canon("train", "digits-softmax", "--out", "run", "--quiet", "--set", "train.steps=2").code == 0
    assert "are for systems that give labels to documents" in canon("evaluate", "run", "--top", "2").err
    assert "--labels is for systems that give labels" in canon("evaluate", "run", "--labels").err
    with pytest.raises(CanonError, match=r"system.minn is 5, more than system.maxn, 3"):
        Classifier(Config(minn=5, maxn=3), Context())
