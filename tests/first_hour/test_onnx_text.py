"""Networks of texts as folders that onnxruntime runs: the program beside the graph against `canon predict`."""

from __future__ import annotations

import json
import random
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import canon as package
from canon.data.encodings.passages import PassageSchema
from canon.interop import onnx as exporting
from canon.nn.ragged import Layout
from canon.training.trainer import train
from canon.use.export import convert
from canon.use.model import Model

for name in ("onnx", "onnxruntime", "onnxscript"):
    pytest.importorskip(name, reason=f"{name} is not installed (pip install 'deepcanon[onnx]')")

WORDS = ["good", "fine", "warm", "great", "lovely", "bad", "dull", "cold", "awful", "poor"]
TEXTS = ["good", "a warm and lovely film about a dull town", "poor poor", " ".join(WORDS * 20), "great"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned run for each kind of target and backbone that is written, and a pre-trained one."""
    folder, rng = tmp_path_factory.mktemp("runs"), random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(2, 12))) for _ in range(60)]
    labels = [["down", "up", "level"][i % 3] for i in range(60)]
    rows = "\n".join(f"{text}\t{label}" for text, label in zip(texts, labels, strict=True))
    (folder / "class.tsv").write_text(f"text\tlabel\n{rows}\n")
    rows = "\n".join(f"{text}\t{text[::-1]}\t{'ab'[i % 2]}" for i, text in enumerate(texts))
    (folder / "pair.tsv").write_text(f"sentence1\tsentence2\tlabel\n{rows}\n")
    rows = "\n".join(f"{text}\t{len(text) / 7:.3f}" for text in texts)
    (folder / "number.tsv").write_text(f"text\tscore\n{rows}\n")
    tagged = ("\n".join(f"{w} {'B-UP' if w in WORDS[:5] else 'O'}" for w in text.split()) for text in texts)
    (folder / "tags.conll").write_text("\n\n".join(tagged) + "\n")
    wanted = {
        "class": ("class.tsv", {"system.backbone": "bert:tiny"}),
        "mean": ("class.tsv", {"system.backbone": "bert:tiny", "system.pooling": "mean", "system.mix": True}),
        "roberta": ("class.tsv", {"system.backbone": "roberta:tiny", "data.tokenizer": "byte-bpe"}),
        "gpt2": ("class.tsv", {"system.backbone": "gpt2:tiny"}),
        "pair": ("pair.tsv", {"system.backbone": "bert:tiny"}),
        "number": ("number.tsv", {"system.backbone": "bert:tiny"}),
        "tags": ("tags.conll", {"system.backbone": "bert:tiny"}),
        "lstm": ("class.tsv", {"system.backbone": "bert:tiny", "system.lstm": 4}),
    }
    for name, (data, changes) in wanted.items():
        fixed = {"train.steps": 6, "optimizer.lr": 0.01, "train.threads": 1, "data.max_length": 40}
        train("finetune", str(folder / data), folder / name, changes={**fixed, **changes}, quiet=True)
    return folder


def loaded(path: Path) -> Model:
    model = package.load(path)
    assert isinstance(model, Model)
    return model


def program(run: Path, target: str = "graph") -> dict[str, Any]:
    """The names of predict.py beside the graph of a run."""
    result = convert(str(run), target, "onnx")
    assert result.written.difference is not None and result.written.difference < 1e-5  # type: ignore[union-attr]
    assert {path.name for path in Path(target).iterdir()} == {"model.onnx", "tokenizer.json", "predict.py", "README.md"}
    return runpy.run_path(f"{target}/predict.py")


@pytest.mark.parametrize("name", ["class", "mean", "roberta", "gpt2"])
def test_classes_of_texts_of_different_lengths(runs: Path, name: str) -> None:
    """One of the texts is cut, by both in the same place."""
    classes, shares = program(runs / name)["predict"](TEXTS)
    rows = loaded(runs / name).predict(TEXTS, top=3)
    assert classes == [row["prediction"] for row in rows]
    best = [max(choice["probability"] for choice in row["top"]) for row in rows]
    np.testing.assert_allclose(shares.max(axis=1), best, atol=1e-5)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


def test_two_texts(runs: Path) -> None:
    pairs = [("good", "dull town"), ("a warm film " * 12, "cold"), ("x", "lovely " * 30)]
    classes, shares = program(runs / "pair")["predict"](pairs)
    rows = loaded(runs / "pair").predict([{"sentence1": one, "sentence2": other} for one, other in pairs])
    assert classes == [row["prediction"] for row in rows]
    np.testing.assert_allclose(shares.max(axis=1), [row["top"][0]["probability"] for row in rows], atol=1e-5)


def test_numbers_in_the_unit_of_the_data(runs: Path) -> None:
    wanted = [row["prediction"] for row in loaded(runs / "number").predict(TEXTS)]
    np.testing.assert_allclose(program(runs / "number")["predict"](TEXTS), wanted, rtol=1e-4)


def test_tags_of_words(runs: Path) -> None:
    texts = ["good film", "a warm and lovelyness, film", "bad 中文 good"]
    tagged = program(runs / "tags")["predict"](texts)
    for row, wanted in zip(tagged, loaded(runs / "tags").predict(texts), strict=True):
        assert [word for word, _ in row] == wanted["words"] and [tag for _, tag in row] == wanted["tags"]
    assert {tag for row in tagged for _, tag in row} == {"B-UP", "O"}, "both occur, or the test says little"


@pytest.mark.parametrize("system", ["bert", "roberta"])
def test_hidden_states_and_vectors_of_an_encoder(runs: Path, tmp_path: Path, system: str) -> None:
    Path("text.txt").write_text("The cat sat there. It was warm.\nA dog came. It was cold.\n\n" * 40)
    train(f"{system}:tiny", "text.txt", tmp_path / "run", changes={"train.steps": 2, "train.threads": 1}, quiet=True)
    names = program(tmp_path / "run")
    texts = ["the cat sat", "it", "a dog came, and it was warm"]
    (hidden, pooled), tokens = names["run"](texts)
    model = loaded(tmp_path / "run")
    assert isinstance(model.schema, PassageSchema)
    network = model.network.eval().cpu()
    lengths = [sum(one.attention_mask) for one in tokens]
    ids = torch.tensor([number for one, length in zip(tokens, lengths, strict=True) for number in one.ids[:length]])
    layout = Layout(torch.tensor(lengths))
    with torch.no_grad():
        wanted = network.encode(ids, layout)[-1]
        vectors = network.pool(wanted, layout)
    for row, length in enumerate(lengths):
        start = sum(lengths[:row])
        np.testing.assert_allclose(hidden[row, :length], wanted[start : start + length], atol=1e-5)
    np.testing.assert_allclose(pooled, vectors, atol=1e-5)
    own, mean = names["encode"](texts)
    np.testing.assert_allclose(own, pooled)
    np.testing.assert_allclose(mean, layout.mean(wanted), atol=1e-5)


def test_a_folder_of_hugging_face_becomes_a_graph(tmp_path: Path) -> None:
    Path("text.txt").write_text("The cat sat there. It was warm.\nA dog came. It was cold.\n\n" * 40)
    train("bert:tiny", "text.txt", tmp_path / "run", changes={"train.steps": 1, "train.threads": 1}, quiet=True)
    convert(str(tmp_path / "run"), "folder", "huggingface")
    (hidden, pooled), tokens = program(Path("folder"))["run"](["it was warm", "a cat"])
    network = loaded(tmp_path / "run").network.eval().cpu()
    layout = Layout(torch.tensor([sum(one.attention_mask) for one in tokens]))
    ids = torch.tensor([one.ids for one in tokens])[layout.mask]
    with torch.no_grad():
        wanted = network.encode(ids, layout)[-1]
        np.testing.assert_allclose(pooled, network.pool(wanted, layout), atol=1e-5)
    np.testing.assert_allclose(hidden[layout.mask.numpy()], wanted, atol=1e-5)


def test_the_program_needs_neither_canon_nor_torch(runs: Path, canon: Callable[..., Any]) -> None:
    printed = canon("convert", runs / "class", "graph", "--to", "onnx")
    assert printed.code == 0 and "onnxruntime and torch differ by" in printed.out and printed.out.endswith("graph\n")
    block = "import runpy, sys; sys.modules.update(torch=None, canon=None, transformers=None); sys.argv[1:] = "
    code = f"{block}{TEXTS[:2]!r}; runpy.run_path('graph/predict.py', run_name='__main__')"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    rows = json.loads(canon("predict", runs / "class", *TEXTS[:2], "--json").out)
    assert said == "".join(
        f"{text}\t{row['prediction']}\t{row['top'][0]['probability']:.4f}\n"
        for text, row in zip(TEXTS, rows, strict=False)
    )
    assert "python predict.py" in Path("graph/README.md").read_text()


def test_what_cannot_be_written(runs: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("there").mkdir()
    for source, target, sentence in (
        (runs / "class", "there", "there already exists: give another name for the folder."),
        (runs / "class", "x.onnx", 'a network of texts is written as a folder, whose name has no ".onnx".'),
        (runs / "lstm", "x", "cannot be written as an ONNX graph"),
        ("bert:tiny", "x", "bert:tiny has no tokenizer"),
        ("gpt2:tiny", "x", "is of the system gpt2, which cannot be written as an ONNX file"),
        ("lenet:tiny", "x", 'x: --to onnx writes .onnx, not "".'),
    ):
        refused = canon("convert", source, target, "--to", "onnx")
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1, refused.err
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    refused = canon("convert", runs / "class", "x", "--to", "onnx")
    assert refused.code == 2 and "nothing is written" in refused.err and not Path("x").exists()
