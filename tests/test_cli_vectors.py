"""canon neighbors, analogy and convert for word vectors: against gensim, fasttext and the Python objects."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import KeyedVectors

from canon.interop.vectors import read
from canon.interop.vectors_write import write
from canon.training.run import Run
from canon.training.trainer import train
from canon.use.vectors import Vectors

WORDS = ["king", "queen", "man", "woman", "prince", "apple", "pear", "New York"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
MATRIX[1] = MATRIX[0] - MATRIX[2] + MATRIX[3]
TEXT = "\n".join(["the cat sat on the mat", "the dog sat on the log", "a cat and a dog ran"] * 40) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "words.txt", "glove", WORDS[:7], MATRIX[:7])
    return tmp_path / "words.txt"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of word2vec and fasttext on a little text."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT)
    changes = {"train.steps": 5, "train.batch": 200, "train.threads": 1, "data.min_count": 1, "data.test": 0.0}
    for name, more in (("word2vec", {}), ("fasttext", {"system.buckets": 300})):
        train(f"{name}:tiny", str(folder / "text.txt"), folder / name, changes={**changes, **more}, quiet=True)
    return folder


# Asking


def test_evaluate_of_a_file(file: Path, canon: Callable[..., Any], tmp_path: Path) -> None:
    """Analogies and judgements of a file against the Python object; without a test one sentence."""
    questions, pairs = tmp_path / "questions.txt", tmp_path / "pairs.tsv"
    questions.write_text(": royal\nman king woman queen\n")
    pairs.write_text("king\tqueen\t9\nking\tapple\t1\nman\twoman\t8\n")
    assert json.loads(canon("evaluate", file, "--data", questions, "--json").out) == {"questions": 1.0}
    record = json.loads(canon("evaluate", file, "--data", pairs, "--json").out)
    assert record == Vectors.open(file).evaluate(pairs) and set(record) == {"pairs"}
    code, _, err = canon("evaluate", file)
    assert (
        code == 2
        and err == f"canon: {file} is a file of word vectors: name a test for them, as in --data wordsim353.\n"
    )


def test_neighbors_as_a_table_and_as_json(file: Path, canon: Callable[..., Any]) -> None:
    wanted = Vectors.open(file)
    code, out, err = canon("neighbors", file, "king", "pear", "--top", 3, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert [one["word"] for one in record] == ["king", "pear"]
    for one in record:
        near = wanted.neighbors(one["word"], 3)
        assert [row["neighbor"] for row in one["neighbors"]] == [actual.word for actual in near]
        assert np.allclose([row["similarity"] for row in one["neighbors"]], [n.similarity for n in near], atol=1e-6)
    lines = canon("neighbors", file, "king", "--top", 2).out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["king", actual.word, f"{actual.similarity:.4f}"] for actual in wanted.neighbors("king", 2)
    ]


def test_analogy_finds_what_was_put_there(file: Path, canon: Callable[..., Any]) -> None:
    code, out, _ = canon("analogy", file, "man", "king", "woman", "--top", 1)
    assert code == 0 and out.splitlines()[1].split()[0] == "queen"
    record = json.loads(canon("analogy", file, "man", "king", "woman", "--json").out)
    assert record["question"] == ["man", "king", "woman"]
    wanted = Vectors.open(file).analogy("man", "king", "woman")
    assert [row["answer"] for row in record["answers"]] == [actual.word for actual in wanted]


def test_a_word_that_is_not_there(file: Path, canon: Callable[..., Any]) -> None:
    code, out, err = canon("neighbors", file, "kong")
    assert (code, out) == (2, "")
    assert err == f'canon: {file} has no word "kong"; the nearest spellings are king.\n'


def test_notes_go_to_stderr_and_cut_files_need_partial(file: Path, canon: Callable[..., Any]) -> None:
    file.write_bytes(file.read_bytes()[:-20])
    code, _, err = canon("neighbors", file, "king")
    assert code == 2 and "after 6 words; fetch it again, or read what is there with partial=True (--partial)." in err
    code, out, err = canon("neighbors", file, "king", "--partial", "--json")
    assert code == 0 and len(json.loads(out)[0]["neighbors"]) == 5
    assert err == f"{file} ends in the middle of a line, after 6 words; these were read.\n"
    assert canon("neighbors", file, "king", "--limit", 4).code == 0


def test_a_run_is_asked_like_a_file(runs: Path, canon: Callable[..., Any]) -> None:
    for name in ("word2vec", "fasttext"):
        record = json.loads(canon("neighbors", runs / name, "cat", "--top", 3, "--json").out)
        wanted = Vectors.open(runs / name).neighbors("cat", 3)
        assert [row["neighbor"] for row in record[0]["neighbors"]] == [actual.word for actual in wanted]
    assert canon("neighbors", runs / "fasttext", "catty").code == 0  # made of its n-grams
    code, _, err = canon("neighbors", runs / "word2vec", "catt")
    assert code == 2 and err.endswith('has no word "catt"; the nearest spellings are cat, sat, mat.\n')


def test_runs_without_words_are_refused(tmp_path: Path, canon: Callable[..., Any]) -> None:
    canon("train", "linear/digits-softmax", "--out", tmp_path / "run", "--set", "train.steps=2", "--quiet")
    code, _, err = canon("neighbors", tmp_path / "run", "cat")
    assert code == 2 and err == f"canon: {tmp_path}/run is a run of softmax-regression, which has no word vectors.\n"


def test_a_file_is_asked_without_torch(file: Path) -> None:
    code = (
        "import sys; from canon.use.vectors import Vectors; "
        f"Vectors.open({str(file)!r}).neighbors('king'); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Converting

FORMATS = {
    "word2vec": "a.bin",
    "word2vec-text": "a.txt",
    "glove": "a.txt.gz",
    "fasttext-vec": "a.vec",
    "safetensors": "a.safetensors",
    "numpy": "a.npy",
    "fasttext-bin": "a.bin",
}


@pytest.mark.parametrize("to", list(FORMATS))
def test_a_file_to_every_format(to: str, file: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    """Every one can be read again, with the same words and numbers."""
    target = tmp_path / "out" / FORMATS[to]
    code, out, err = canon("convert", file, target, "--to", to)
    assert (code, err) == (0, "") and out.splitlines()[0] == "glove: 7 words of 6 numbers"
    assert out.splitlines()[-1] == str(target)
    data = read(target)
    assert data.words == WORDS[:7] and np.array_equal(data.matrix, MATRIX[:7])


@pytest.mark.parametrize("to", list(FORMATS))
def test_a_run_to_every_format(to: str, runs: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    target = tmp_path / FORMATS[to]
    record = json.loads(canon("convert", runs / "word2vec", target, "--to", to, "--json").out)
    wanted = Vectors.open(runs / "word2vec")
    assert (record["kind"], record["words"], record["dim"], record["format"]) == (
        "word2vec",
        len(wanted),
        wanted.dim,
        to,
    )
    data = read(target)
    assert data.words == wanted.words and np.array_equal(data.matrix, wanted.matrix)


def test_gensim_and_fasttext_read_them(runs: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    """fastText's file has its n-grams: unknown words have the run's vectors there."""
    fasttext = pytest.importorskip("fasttext")
    assert canon("convert", runs / "fasttext", tmp_path / "f.bin", "--to", "fasttext-bin").code == 0
    assert canon("convert", runs / "fasttext", tmp_path / "w.bin", "--to", "word2vec").code == 0
    model, wanted = fasttext.load_model(str(tmp_path / "f.bin")), Vectors.open(runs / "fasttext")
    gensims = KeyedVectors.load_word2vec_format(tmp_path / "w.bin", binary=True)
    for word in wanted.words:
        assert np.allclose(model.get_word_vector(word), wanted.vector(word), atol=1e-6)
        assert np.array_equal(gensims[word], wanted.vector(word))
    assert np.allclose(model.get_word_vector("catty"), wanted.vector("catty"), atol=1e-6)
    # Of a file without n-grams fasttext knows the words.
    assert canon("convert", tmp_path / "w.bin", tmp_path / "plain.bin", "--to", "fasttext-bin").code == 0
    plain = fasttext.load_model(str(tmp_path / "plain.bin"))
    assert all(np.allclose(plain.get_word_vector(word), wanted.vector(word), atol=1e-6) for word in wanted.words)


def test_a_file_becomes_a_run(file: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    """It is asked, and trained on, like one that was trained here."""
    code, out, _ = canon("convert", file, tmp_path / "run", "--to", "canon")
    assert code == 0 and "Its words have no counts there; each counts once here." in out
    opened = Vectors.open(tmp_path / "run")
    assert opened.words == WORDS[:7] and np.array_equal(opened.matrix, MATRIX[:7])
    assert Run.open(tmp_path / "run").recipe.system.name == "word2vec"
    (tmp_path / "text.txt").write_text("the king and the queen ate a pear\n" * 100)
    changes = ("--set", "train.steps=3", "--set", "train.batch=100", "--set", "data.min_count=1")
    settings = ("--set", f"train.init={tmp_path / 'run'}", "--set", "system.dim=6", *changes)
    code, _, err = canon("train", "word2vec:tiny", "--data", tmp_path / "text.txt", "--out", tmp_path / "on", *settings)
    assert code == 0 and "vectors of 7 of 11 words taken" in err
    after = Vectors.open(tmp_path / "on")
    assert set(WORDS[:7]) < set(after.words) and np.array_equal(after.vector("prince"), MATRIX[4])
    assert canon("convert", file, tmp_path / "run", "--to", "canon").err.endswith("give another name for the run.\n")


def test_fasttexts_file_becomes_a_run_with_its_ngrams(runs: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    assert canon("convert", runs / "fasttext", tmp_path / "f.bin", "--to", "fasttext-bin").code == 0
    assert canon("convert", tmp_path / "f.bin", tmp_path / "run", "--to", "canon").code == 0
    ours, theirs = Vectors.open(tmp_path / "run"), Vectors.open(runs / "fasttext")
    for word in (*theirs.words, "catty"):
        assert np.allclose(ours.vector(word), theirs.vector(word), atol=1e-6)


def test_half_precision_and_the_first_words(file: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    options = ("--to", "safetensors", "--dtype", "float16", "--limit", 3)
    assert canon("convert", file, tmp_path / "a.safetensors", *options).code == 0
    data = read(tmp_path / "a.safetensors")
    assert data.words == WORDS[:3] and np.array_equal(data.matrix, MATRIX[:3].astype(np.float16))


def test_what_convert_refuses(file: Path, runs: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    for arguments, reported in {
        (file, "a.bin", "--to", "numpy"): 'a.bin: --to numpy writes .npy, not ".bin".',
        (runs / "word2vec", "a", "--to", "canon"): f"{runs}/word2vec is a run already.",
        (file, "a", "--to", "word2vex"): 'No format (--to) "word2vex"; did you mean word2vec?',
        (tmp_path / "none", "a", "--to", "glove"): f"There is no run, file or folder {tmp_path}/none.",
        ("mlp:tiny", "a.onnx", "--to", "onnx", "--limit", 3): (
            "mlp:tiny is not a file of word vectors: leave out --dtype, --limit, --errors and --partial."
        ),
    }.items():
        code, out, err = canon("convert", *arguments)
        assert (code, out, err) == (2, "", f"canon: {reported}\n")


def test_words_with_spaces_are_reported(tmp_path: Path, canon: Callable[..., Any]) -> None:
    write(tmp_path / "a.safetensors", "safetensors", WORDS, MATRIX)
    code, out, _ = canon("convert", tmp_path / "a.safetensors", tmp_path / "a.bin", "--to", "word2vec")
    assert code == 0 and "One word has spaces, which are written as _: 'New York'." in out
    assert KeyedVectors.load_word2vec_format(tmp_path / "a.bin", binary=True).index_to_key[-1] == "New_York"


def test_a_classifier_goes_to_fasttext_and_comes_back(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """fasttext's own probabilities of a line, and those of a run made of its file, are the run's."""
    fasttext = pytest.importorskip("fasttext")
    rows = [f"{'bread milk honey' if i % 2 else 'cat dog cow'},{'food' if i % 2 else 'beast'}" for i in range(40)]
    (tmp_path / "labelled.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    changes = {"train.steps": 20, "train.batch": 10, "train.threads": 1}
    train("fasttext-classifier:tiny", str(tmp_path / "labelled.csv"), tmp_path / "run", changes=changes, quiet=True)
    assert canon("convert", tmp_path / "run", tmp_path / "c.bin", "--to", "fasttext-bin").code == 0
    assert canon("convert", tmp_path / "c.bin", tmp_path / "again", "--to", "canon").code == 0
    # The inner function, since the outer one asks numpy for what its second version refuses.
    model = fasttext.load_model(str(tmp_path / "c.bin"))
    shares, labels = zip(*model.f.predict("dog milk cat\n", 2, 0.0, "strict"), strict=True)
    (tmp_path / "asked.csv").write_text("text\ndog milk cat\n")
    for name in ("run", "again"):
        record = json.loads(canon("predict", tmp_path / name, tmp_path / "asked.csv", "--top", 2, "--json").out)
        assert [one["class"] for one in record[0]["top"]] == [label.removeprefix("__label__") for label in labels]
        assert np.allclose([one["probability"] for one in record[0]["top"]], shares, atol=2e-4)
