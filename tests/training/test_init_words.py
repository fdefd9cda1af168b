"""Word vectors to begin with: training on with other text (train.init), and embeddings of networks (train.embeddings).

What is taken is compared, row by row and bit for bit, with the file or run that it came from.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from safetensors.torch import load_file

import canon
from canon.errors import CanonError
from canon.interop.vectors_write import write
from canon.training import trainer
from canon.training.run import Run
from canon.training.trainer import train

FAMILIES = {"beast": ["cat", "dog", "horse", "cow"], "food": ["bread", "milk", "honey", "salt"]}
LATER = {**FAMILIES, "town": ["paris", "berlin", "madrid", "rome"]}
TINY: dict[str, Any] = {
    "train.steps": 12,
    "train.batch": 400,
    "train.threads": 1,
    "train.device": "cpu",
    "train.evaluate_every": 4,
    "data.min_count": 1,
    "data.tokenizer": "split",
}
PAIRS = Path(__file__).parents[1] / "battery" / "pairs.tsv"
TEXT = Path(__file__).parents[1] / "battery" / "text.txt"
DIM = 16


def text_of(families: dict[str, list[str]], seed: int) -> str:
    """Sentences each of one family's words."""
    draw = random.Random(seed)
    lines = [[draw.choice(words) for _ in range(8)] for _ in range(120) for words in families.values()]
    return "\n".join(" ".join(line) for line in lines) + "\n"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "early.txt").write_text(text_of(FAMILIES, 0))
    (folder / "late.txt").write_text(text_of(LATER, 1))
    return folder


@pytest.fixture(scope="module")
def early(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of word2vec on the first text."""
    out = tmp_path_factory.mktemp("early") / "run"
    train("word2vec:tiny", str(texts / "early.txt"), out, changes=TINY, quiet=True)
    return out


def begun(recipe: str, data: Path, out: Path, **changes: Any) -> trainer.Trainer:
    """A training that has not made a step."""
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    planned, path = trainer.plan(recipe, str(data), out, False, changes)
    return trainer.Trainer(planned, path, trainer.enter_world(planned.train), quiet=True)


def rows(run: Path, name: str = "input") -> dict[str, np.ndarray]:
    """What a run has learned of each word."""
    matrix = load_file(run / "best" / "model.safetensors")[name].numpy()
    words = Run(run).schema.words
    assert words is not None
    return dict(zip(words.words, matrix, strict=False))


# Training on


@pytest.mark.parametrize("name", ["input", "output"])
def test_words_of_before_keep_their_rows_and_new_ones_join(name: str, early: Path, texts: Path, tmp_path: Path) -> None:
    made = begun("word2vec:tiny", texts / "late.txt", tmp_path / "late", **TINY, train__init=str(early))
    fresh = begun("word2vec:tiny", texts / "late.txt", tmp_path / "fresh", **TINY)
    before, words = rows(early, name), made.data.schema.words
    assert words is not None and set(words.words) == {word for family in LATER.values() for word in family}
    assert set(before) < set(words.words)
    matrix: np.ndarray = made.learner.arrays[name]  # type: ignore[attr-defined]
    for word, row in zip(words.words, matrix, strict=True):
        if word in before:
            assert np.array_equal(row, before[word]), word
        else:
            other = fresh.data.schema.words.words.index(word)  # type: ignore[union-attr]
            scale = np.abs(fresh.learner.arrays[name][other]).max()  # type: ignore[attr-defined]
            assert np.abs(row).max() <= max(1.5 * scale, 0.5 / DIM)
    assert made._origin == f"Started from {early}: vectors of 8 of 12 words taken, the others newly initialised."


def test_words_that_the_new_text_lacks_stay(early: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "towns.txt").write_text(text_of({"town": LATER["town"]}, 2))
    train(
        "word2vec:tiny",
        str(tmp_path / "towns.txt"),
        tmp_path / "run",
        changes={**TINY, "train.init": str(early)},
        quiet=True,
    )
    loaded = canon.load(tmp_path / "run").vectors
    assert set(loaded.words) == {word for family in LATER.values() for word in family}
    # Nothing was learned of them but as noise, which moves output rows.
    assert np.array_equal(loaded.vector("cat"), rows(early)["cat"])


def test_what_was_learned_before_is_of_use(early: Path, texts: Path, tmp_path: Path) -> None:
    """Before the first step the loss on the later text is lower than that of new vectors, and it falls further."""
    scores = {}
    for name, more in (("on", {"train.init": str(early)}), ("new", {})):
        made = begun("word2vec:tiny", texts / "late.txt", tmp_path / name, **TINY, **more)
        scores[name] = made.evaluate("valid")["loss"]
    run = train(
        "word2vec:tiny",
        str(texts / "late.txt"),
        tmp_path / "run",
        changes={**TINY, "train.init": str(early)},
        quiet=True,
    )
    assert scores["on"] < scores["new"] and run.result is not None
    assert run.result["scores"]["valid"]["loss"] < scores["on"]


def test_resuming_and_evaluating_need_not_the_run_of_before(early: Path, texts: Path, tmp_path: Path) -> None:
    """Stopped, its source removed, and resumed: the same vectors as never stopped, bit for bit."""
    shutil.copytree(early, tmp_path / "source", symlinks=True)
    changes = {**TINY, "train.init": str(tmp_path / "source")}
    whole = train("word2vec:tiny", str(texts / "late.txt"), tmp_path / "whole", changes=changes, quiet=True)
    shutil.copytree(whole.path, tmp_path / "cut", symlinks=True)
    (tmp_path / "cut" / "result.json").unlink()
    shutil.rmtree((tmp_path / "cut" / "last").resolve())
    shutil.rmtree(tmp_path / "source")
    train("word2vec:tiny", out=tmp_path / "cut", resume=True, quiet=True)
    ends = [load_file(path / "last" / "model.safetensors") for path in (whole.path, tmp_path / "cut")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ("input", "output"))
    assert (whole.path / "metrics.jsonl").read_bytes() == (tmp_path / "cut" / "metrics.jsonl").read_bytes()
    assert whole.result is not None
    assert canon.load(tmp_path / "cut").evaluate(split="test") == whole.result["scores"]["test"]


@pytest.mark.parametrize("system", ["word2vec:tiny", "glove:tiny", "fasttext:tiny"])
def test_vectors_of_another_tools_file(system: str, texts: Path, tmp_path: Path) -> None:
    """Written by gensim: what the learner means to be used is the file's for words, fastText's n-grams apart."""
    matrix = np.random.default_rng(0).normal(size=(5, DIM)).astype(np.float32)
    made = KeyedVectors(DIM)
    made.add_vectors(["dog", "nowhere", "rome", "milk", "cat"], matrix)
    made.save_word2vec_format(tmp_path / "gensim.bin", binary=True)
    changes = {**TINY, "train.init": str(tmp_path / "gensim.bin"), "system.dim": DIM}
    ours = begun(system, texts / "late.txt", tmp_path / "run", **changes)
    words = ours.data.schema.words
    assert words is not None and "nowhere" not in words.words
    learner: Any = ours.learner
    result = learner.arrays["input"] if system.startswith("fasttext") else learner.vectors()
    for word in ("dog", "rome", "milk", "cat"):
        assert np.allclose(result[words.words.index(word)], made[word], rtol=1e-6, atol=0)
    assert ours._origin.endswith("vectors of 4 of 12 words taken, the others newly initialised.")


def test_a_run_of_another_system(early: Path, texts: Path, tmp_path: Path) -> None:
    """GloVe that starts from word2vec has word2vec's vectors at step 0."""
    made = begun("glove:tiny", texts / "late.txt", tmp_path / "run", **TINY, train__init=str(early), system__dim=DIM)
    before, words = canon.load(early).vectors, made.data.schema.words
    learner: Any = made.learner
    assert words is not None
    for word in before.words:
        assert np.allclose(learner.vectors()[words.words.index(word)], before.vector(word), rtol=1e-6, atol=0)


def test_what_cannot_be_started_from(early: Path, texts: Path, tmp_path: Path) -> None:
    late = texts / "late.txt"
    with pytest.raises(
        CanonError, match=r"train\.init = .*: the vectors to go on from have 16 dimensions, but system\.dim is 8"
    ):
        begun("word2vec:tiny", late, tmp_path / "a", **TINY, train__init=str(early), system__dim=8)
    write(tmp_path / "other.txt", "glove", ["x", "y"], np.ones((2, DIM), np.float32))
    with pytest.raises(CanonError, match=r"none of the 12 words of the data has a vector in .*other\.txt"):
        begun("word2vec:tiny", late, tmp_path / "b", **TINY, train__init=str(tmp_path / "other.txt"))
    with pytest.raises(CanonError, match=r"train\.init: there is no run, file or folder .*none\.bin"):
        begun("word2vec:tiny", late, tmp_path / "c", **TINY, train__init=str(tmp_path / "none.bin"))
    assert not any((tmp_path / name).exists() for name in "abc")


# As embeddings

NETWORKS = {
    "rnn-lm": ("embedding",),
    "nnlm": ("embedding",),
    "transformer-xl": ("embedding",),
    "seq2seq": ("source_embedding", "target_embedding"),
    "bahdanau": ("source_embedding", "target_embedding"),
    "luong": ("source_embedding", "target_embedding"),
    "local-attention": ("source_embedding", "target_embedding"),
    "hard-attention": ("source_embedding", "target_embedding"),
    "transformer": ("source_embedding", "target_embedding"),
}
SHORT: dict[str, Any] = {"train.steps": 6, "train.threads": 1, "train.device": "cpu", "data.limit": 160}


def settings(system: str) -> dict[str, Any]:
    if len(NETWORKS[system]) == 1:
        return {**SHORT, "data.source": str(TEXT), "data.tokenizer": "split", "data.window": 10}
    pairs = {"data.source": str(PAIRS), "data.tokenizer": "split", "data.target_tokenizer": "split"}
    return {**SHORT, **pairs, "train.tokens": 70}


def network(system: str, out: Path, **more: Any) -> trainer.Trainer:
    changes = {**settings(system), **{key.replace("__", "."): value for key, value in more.items()}}
    planned, path = trainer.plan(f"{system}:tiny", "", out, False, changes)
    return trainer.Trainer(planned, path, trainer.enter_world(planned.train), quiet=True)


@pytest.mark.parametrize("system", list(NETWORKS))
def test_rows_of_known_tokens_are_the_files(system: str, tmp_path: Path) -> None:
    """At step 0, bit for bit; every other weight is as it would be without them."""
    fresh = network(system, tmp_path / "fresh")
    plain: Any = fresh.learner
    tokenizers = fresh.data.schema.tokenizers
    roles = {"embedding": "text", "source_embedding": "source", "target_embedding": "target"}
    vocabularies = {name: tokenizers[roles[name]].vocabulary for name in NETWORKS[system]}
    dim = getattr(plain.network, NETWORKS[system][0]).weight.shape[1]
    words = sorted({token for known in vocabularies.values() for token in known[4:]})[::2]
    matrix = np.random.default_rng(0).normal(size=(len(words), dim)).astype(np.float32)
    write(tmp_path / "words.bin", "word2vec", words, matrix)
    made = network(system, tmp_path / "run", train__embeddings=str(tmp_path / "words.bin"))
    ours: Any = made.learner
    given, reported = dict(zip(words, matrix, strict=True)), []
    state, before = ours.network.state_dict(), plain.network.state_dict()
    for name, vocabulary in vocabularies.items():
        table, old = (net.pop(f"{name}.weight") for net in (state, before))
        for token, row, other in zip(vocabulary, table, old, strict=True):
            assert np.array_equal(row.numpy(), given.get(token, other.numpy())), token
        reported.append(f"{sum(token in given for token in vocabulary):,} of {len(vocabulary):,} rows of {name}")
    assert all(torch.equal(state[name], before[name]) for name in state if name != "output.weight")
    assert made._origin == (
        f"Vectors of {tmp_path}/words.bin taken for {' and '.join(reported)}; the others are newly initialised."
    )


@pytest.mark.parametrize("system", ["transformer", "seq2seq"])
def test_one_table_for_both_sides_is_filled_once(system: str, tmp_path: Path) -> None:
    """With one vocabulary the Transformer has one matrix, and seq2seq too where it is tied."""
    more: dict[str, Any] = {"data.target_tokenizer": ""}
    if system == "seq2seq":
        more |= {"system.tie": True, "system.dim": 16, "system.hidden": 16}
    vocabulary = network(system, tmp_path / "fresh", **more).data.schema.tokenizers["source"].vocabulary
    write(tmp_path / "w.txt", "glove", vocabulary[4:9], np.ones((5, 16), np.float32))
    made = network(system, tmp_path / "run", **more, train__embeddings=str(tmp_path / "w.txt"))
    filled: Any = made.learner.network.source_embedding.weight  # type: ignore[attr-defined]
    assert torch.equal(filled[4:9], torch.ones(5, 16))
    assert f"taken for 5 of {len(vocabulary)} rows of source_embedding; the others" in made._origin


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_or_trained(frozen: bool, tmp_path: Path) -> None:
    """With the rate 0 the rows are the file's to the end; without, all that were seen have moved."""
    words = sorted(set(TEXT.read_text().split()))
    matrix = np.random.default_rng(1).normal(size=(len(words), 16)).astype(np.float32)
    write(tmp_path / "words.safetensors", "safetensors", words, matrix)
    changes = {**settings("rnn-lm"), "train.embeddings": str(tmp_path / "words.safetensors")}
    if frozen:
        changes["optimizer.groups"] = [{"match": "embedding.*", "lr": 0.0}]
    run = train("rnn-lm:tiny", out=tmp_path / "run", changes=changes, quiet=True)
    result = read_embedding(run.path)
    for word, row in zip(words, matrix, strict=True):
        assert np.array_equal(result[word], row) == frozen, word


def read_embedding(run: Path) -> dict[str, np.ndarray]:
    table = load_file(run / "last" / "model.safetensors")["embedding.weight"].numpy()
    return dict(zip(Run(run).schema.tokenizers["text"].vocabulary, table, strict=True))


def test_a_run_as_embedding_and_a_networks_own_vectors(tmp_path: Path) -> None:
    """word2vec into nnlm; and what nnlm then has of its words can be asked, and be a file again."""
    changes = {**TINY, "system.dim": 8}
    train("word2vec:tiny", str(TEXT), tmp_path / "words", changes=changes, quiet=True)
    given = canon.load(tmp_path / "words").vectors
    made = network("nnlm", tmp_path / "run", train__embeddings=str(tmp_path / "words"))
    learner: Any = made.learner
    vocabulary = made.data.schema.tokenizers["text"].vocabulary
    known = [token for token in vocabulary if token in given]
    assert len(known) == 10  # the ten digits
    for token in known:
        row = learner.network.embedding.weight[vocabulary.index(token)].detach().numpy()
        assert np.array_equal(row, given.vector(token))
    run = made.fit()
    asked = canon.load(run.path).vectors
    best = load_file(run.path / "best" / "model.safetensors")["embedding.weight"].numpy()
    assert np.array_equal(asked.vector(known[0]), best[vocabulary.index(known[0])])


def test_resuming_does_not_take_them_again(tmp_path: Path) -> None:
    """The file may be gone by then; the end is that of a run that was never stopped."""
    write(tmp_path / "w.txt", "glove", TEXT.read_text().split()[:1], np.ones((1, 16), np.float32))
    changes = {**settings("rnn-lm"), "train.embeddings": str(tmp_path / "w.txt"), "train.evaluate_every": 3}
    whole = train("rnn-lm:tiny", out=tmp_path / "whole", changes=changes, quiet=True)
    shutil.copytree(whole.path, tmp_path / "cut", symlinks=True)
    (tmp_path / "cut" / "result.json").unlink()
    shutil.rmtree((tmp_path / "cut" / "last").resolve())
    (tmp_path / "w.txt").unlink()
    train(out=tmp_path / "cut", name="rnn-lm:tiny", resume=True, quiet=True)
    ends = [load_file(path / "last" / "model.safetensors") for path in (whole.path, tmp_path / "cut")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_embeddings_that_do_not_fit(tmp_path: Path) -> None:
    write(tmp_path / "w.txt", "glove", ["one", "two"], np.ones((2, 3), np.float32))
    with pytest.raises(CanonError) as caught:
        network("rnn-lm", tmp_path / "a", train__embeddings=str(tmp_path / "w.txt"))
    assert str(caught.value) == (
        f"train.embeddings: {tmp_path}/w.txt has vectors of 3 numbers, but embedding of the network has 16: "
        "set system.dim=3."
    )
    write(tmp_path / "x.txt", "glove", ["Zürich", "Genève"], np.ones((2, 16), np.float32))
    with pytest.raises(
        CanonError, match=r"none of the \d+ tokens of embedding is a word of .*x\.txt; data\.tokenizer must"
    ):
        network("rnn-lm", tmp_path / "b", train__embeddings=str(tmp_path / "x.txt"))
    for system, more in (("mlp", SHORT), ("word2vec", {**TINY, "data.source": str(TEXT)})):
        planned, path = trainer.plan(
            f"{system}:tiny", "", tmp_path / "c", False, {**more, "train.embeddings": str(tmp_path / "w.txt")}
        )
        with pytest.raises(
            CanonError, match=f"train.embeddings is for networks that embed the tokens of a text, which {system} does"
        ):
            trainer.Trainer(planned, path, trainer.enter_world(planned.train), quiet=True)
    assert not any((tmp_path / name).exists() for name in "abc")


def test_a_classifier_begins_with_vectors(tmp_path: Path) -> None:
    """fastText's classifier: rows of known words at step 0 are the file's."""
    rows_ = [f"{'bread milk honey' if i % 2 else 'cat dog cow'},{'food' if i % 2 else 'beast'}" for i in range(40)]
    (tmp_path / "labelled.csv").write_text("text,label\n" + "\n".join(rows_) + "\n")
    matrix = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    write(tmp_path / "w.vec", "fasttext-vec", ["dog", "honey"], matrix)
    changes = {"train.steps": 3, "train.batch": 10, "train.threads": 1, "train.init": str(tmp_path / "w.vec")}
    planned, path = trainer.plan(
        "fasttext-classifier:tiny", str(tmp_path / "labelled.csv"), tmp_path / "run", False, changes
    )
    made = trainer.Trainer(planned, path, trainer.enter_world(planned.train), quiet=True)
    learner, words = made.learner, made.data.schema.words
    assert words is not None and made._origin.startswith(f"Started from {tmp_path}/w.vec: vectors of 2 of ")
    for word, row in zip(("dog", "honey"), matrix, strict=True):
        assert np.array_equal(learner.tensors()["model"]["input"][words.words.index(word)], row)
