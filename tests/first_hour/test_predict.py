"""`predict` takes what a user has: files, standard input, texts, dicts, data frames, arrays; against the same rows as a
file."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import canon as package
from canon.errors import CanonError
from canon.training.trainer import train
from canon.use.model import Model
from canon.use.translate import translate

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (pip install 'deepcanon[tables]')")

FAST = {"train.threads": 1}
ROWS = [{"age": 61.5, "city": "P"}, {"age": 23, "city": "R"}, {"age": 40.25, "city": "Z"}]
GOOD, BAD = ("good fine warm great lovely", "bad dull cold awful poor")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on a table, on texts with labels (words, and a network that is fine-tuned), on tags, on pairs of texts."""
    folder, rng = tmp_path_factory.mktemp("runs"), random.Random(0)
    people = [(rng.gauss(40, 12), rng.choice("PQR")) for _ in range(200)]
    lines = [f"{age:.1f},{city},{'yes' if age > 40 else 'no'}" for age, city in people]
    (folder / "people.csv").write_text("\n".join(["age,city,bought", *lines]) + "\n")
    films = [(" ".join(rng.choices(words.split(), k=5)), name) for words, name in ((GOOD, "up"), (BAD, "down")) * 60]
    (folder / "films.csv").write_text("\n".join(["text,label", *(f"{text},{name}" for text, name in films)]) + "\n")
    tagged = "\n".join("Ann B-PER\nsees O\nRome B-LOC\n" if i % 2 else "Rome B-LOC\nis O\nold O\n" for i in range(40))
    (folder / "tagged.conll").write_text(tagged)
    (folder / "pairs.tsv").write_text("".join(f"{a} {b}\t{b} {a}\n" for a in "abcdefgh" for b in "ijkl"))
    wanted: dict[str, tuple[str, str, dict[str, Any]]] = {
        "table": ("logistic-regression", "people.csv", {"train.steps": 30}),
        "words": ("fasttext-classifier", "films.csv", {"train.epochs": 5.0}),
        "text": ("finetune", "films.csv", {"train.steps": 60, "optimizer.lr": 0.003, "system.backbone": "bert:tiny"}),
        "tags": ("finetune", "tagged.conll", {"train.steps": 4, "system.backbone": "bert:tiny"}),
        "pairs": ("transformer:tiny", "pairs.tsv", {"train.steps": 4, "data.tokenizer": "word"}),
    }
    for name, (system, data, changes) in wanted.items():
        train(system, str(folder / data), folder / name, changes={**changes, **FAST}, quiet=True)
    return folder


@pytest.fixture(scope="module")
def table(folder: Path) -> Model:
    model = package.load(folder / "table")
    assert isinstance(model, Model)
    return model


def without_names(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "source"} for row in rows]


def of_file(model: Model, path: Path) -> list[dict[str, Any]]:
    path.write_text("city,age\nP,61.5\nR,23\nZ,40.25\n")
    return without_names(model.predict(path, top=2))


class Frame:
    """A data frame of a library that is not installed: only the protocol, as pandas and polars have it."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class OlderFrame:
    def __init__(self, table: Any) -> None:
        self.table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self.table.__dataframe__(nan_as_null, allow_copy)


def test_rows_of_a_table_in_every_form(table: Model, tmp_path: Path) -> None:
    wanted = of_file(table, tmp_path / "new.csv")
    arrow = pa.table({"age": [61.5, 23, 40.25], "unused": [1, 2, 3], "city": ["P", "R", "Z"]})
    array = np.array([[61.5, "P"], [23, "R"], [40.25, "Z"]], dtype=object)
    for given in (ROWS, iter(ROWS), arrow, Frame(arrow), OlderFrame(arrow), array, array.tolist()):
        rows = table.predict(given, top=2)
        assert without_names(rows) == wanted and [row["source"] for row in rows] == ["row 1", "row 2", "row 3"]
    assert without_names(table.predict(ROWS[0], top=2)) == wanted[:1], "one dict is one row"
    numpy_row = {"city": np.str_("P"), "age": np.float32(61.5)}
    assert without_names(table.predict(numpy_row, top=2)) == wanted[:1]
    several = table.predict([tmp_path / "new.csv", ROWS[0], arrow])
    assert [row["source"] for row in several][2:5] == [f"{tmp_path / 'new.csv'}, row 3", "row 1", "row 1"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (3, "predicts from a file, a dict, a data frame, a list of these, or an array [N, 2]; got an int."),
        ([], "or an array [N, 2]; got an empty list."),
        (b"x", "got a bytes."),
        (np.zeros((4, 3)), "or an array [N, 2]; got an array [4, 3]."),
        ({}, "The input has no columns: every dict is empty."),
        ({"age": 3}, 'The input has no column "city", which the training data had.'),
        ([{"age": 3, "city": "P"}, {"age": "old", "city": "P"}], 'The input, row 2: column "age" must be a number'),
        ({"age": [1, 2], "city": "P"}, '"age" is a list; a cell is text, a number, true, false or null.'),
    ],
)
def test_what_is_not_accepted_is_one_sentence(table: Model, given: Any, sentence: str) -> None:
    with pytest.raises(CanonError) as refused:
        table.predict(given)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["words", "text"])
def test_texts_in_every_form(folder: Path, name: str, tmp_path: Path) -> None:
    """A single text is one example, not one for each letter."""
    model = package.load(folder / name)
    assert isinstance(model, Model)
    texts = ["good warm film", "awful dull film"]
    wanted = model.predict(texts)
    assert [row["prediction"] for row in wanted] == ["up", "down"]
    assert [row["source"] for row in wanted] == texts
    Path("new.txt").write_text("\n".join(texts) + "\n")
    Path("new.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    frame = pa.table({"id": [1, 2], "text": texts})
    dicts = [{"text": text, "label": "?"} for text in texts]
    for given in ("new.txt", Path("new.jsonl"), frame, Frame(frame), dicts, np.array(texts), tuple(texts)):
        rows = model.predict(given)
        assert [row["prediction"] for row in rows] == ["up", "down"]
        for row, one in zip(rows, wanted, strict=True):
            assert row["top"][0]["probability"] == pytest.approx(one["top"][0]["probability"], rel=1e-4)
    assert [row["source"] for row in model.predict(texts[0])] == texts[:1]
    with pytest.raises(CanonError, match="predicts from a text, a file, a dict, a data frame, a list of these; got"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(CanonError, match='has no column "text", which is the text'):
        model.predict({"review": "good", "stars": 3})


def test_words_to_tag(folder: Path) -> None:
    model = package.load(folder / "tags")
    assert isinstance(model, Model)
    (wanted,) = model.predict("Ann sees Rome")
    words = {"words": ["Ann", "sees", "Rome"]}
    for given in (words, [{"text": "Ann sees Rome"}], pa.table({"text": ["Ann sees Rome"]})):
        assert without_names(model.predict(given)) == without_names([wanted])
    Path("new.jsonl").write_text('{"id": 1, "text": "Ann sees Rome"}\n{"tokens": ["Ann", "sees", "Rome"]}\n')
    assert without_names(model.predict("new.jsonl")) == without_names([wanted, wanted])
    with pytest.raises(CanonError, match='row 2: there are no "words", and no "text"'):
        model.predict([{"text": "Ann"}, {"other": "Ann"}])
    with pytest.raises(CanonError, match="tags was trained on sentences with tags and predicts from a text"):
        model.predict([["Ann", "sees"]])


def test_a_row_as_json(folder: Path, canon: Callable[..., Any]) -> None:
    wanted = json.loads(canon("predict", folder / "table", '{"age": 61.5, "city": "P"}', "--json").out)
    assert wanted[0]["prediction"] == "yes" and wanted[0]["source"] == "row 1"
    refused = canon("predict", folder / "table", "hello")
    sentence = 'There is no file or folder "hello". A row is given as {"age": …, "city": …}.'
    assert (refused.code, refused.err) == (2, f"canon: {sentence}\n")


@pytest.mark.parametrize(("system", "extra"), [("mlp", {}), ("finetune", {"system.backbone": "bert:tiny"})])
def test_two_texts_of_one_example(
    system: str, extra: dict[str, Any], canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["red", "blue", "green", "grey", "pink"]
    rows = [(f"the {a} car here", f"one {b} car there", int(a == b)) for a in words for b in words]
    Path("t.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows * 2))
    train(system, "t.tsv", "run", changes={"train.steps": 3, **extra, **FAST}, quiet=True)
    model = package.load("run")
    assert isinstance(model, Model)
    pair = rows[0][:2]

    def shares(predicted: list[dict[str, Any]]) -> list[float]:
        return [choice["probability"] for row in predicted for choice in row["top"]]

    wanted = shares(model.predict({"sentence1": pair[0], "sentence2": pair[1]}, top=2))
    assert shares(model.predict(pair, top=2)) == pytest.approx(wanted, rel=1e-4)
    assert shares(model.predict([pair, pair], top=2)) == pytest.approx(wanted * 2, rel=1e-4)
    pipe(monkeypatch, "\t".join(pair) + "\n")
    piped = json.loads(canon("predict", "run", "-", "--top", 2, "--json").out)
    assert shares(piped) == pytest.approx(wanted, rel=1e-4)


def test_images_as_arrays(tmp_path: Path) -> None:
    train("lenet:tiny", out=tmp_path / "run", changes={"train.steps": 3, **FAST}, quiet=True)
    model = package.load(tmp_path / "run")
    assert isinstance(model, Model)
    pixels = np.random.default_rng(0).integers(0, 17, (3, 1, 8, 8)).astype(np.uint8)
    wanted = without_names(model.predict(pixels))
    assert without_names(model.predict(torch.from_numpy(pixels))) == wanted
    assert without_names(model.predict(list(pixels))) == wanted and len(model.predict(pixels[0])) == 1
    with pytest.raises(CanonError, match=r"on images and predicts from a file, a list of these, or an array \["):
        model.predict({"image": "x.png"})


def test_a_single_text_is_translated_as_one(folder: Path) -> None:
    model = package.load(folder / "pairs")
    assert isinstance(model, Model)
    assert translate(model, "a i") == translate(model, ["a i"]) and len(translate(model, "a i")) == 1
    with pytest.raises(CanonError, match="translate takes a text or a list of texts, got int"):
        translate(model, [3])  # type: ignore[list-item]
    assert without_names(model.predict({"source": "a i"})) == without_names(model.predict("a i"))


# The command line


def pipe(monkeypatch: pytest.MonkeyPatch, content: str | bytes) -> None:
    raw = content.encode() if isinstance(content, str) else content
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))


def test_formats_hold_the_same(folder: Path, canon: Callable[..., Any]) -> None:
    Path("new.csv").write_text("city,age\nP,61.5\nR,23\n")
    ask = ("predict", folder / "table", "new.csv", "--top", 2)
    wanted = json.loads(canon(*ask, "--json").out)
    lines = [json.loads(line) for line in canon(*ask, "--format", "jsonl").out.splitlines()]
    assert lines == wanted
    rows = list(csv.DictReader(io.StringIO(canon(*ask, "--format", "csv").out)))
    assert list(rows[0]) == ["source", "class", "probability", "class_2", "probability_2"]
    for row, one in zip(rows, wanted, strict=True):
        assert row["source"] == one["source"] and row["class_2"] == one["top"][1]["class"]
        assert float(row["probability"]) == one["top"][0]["probability"]
    head, first, second = canon(*ask, "--format", "table").out.splitlines()
    assert head.split() == list(rows[0]) and head.index("class") == first.index("yes") == second.index("no")
    for name, form in (("p.csv", "csv"), ("p.jsonl", "jsonl"), ("p.txt", "table")):
        assert canon(*ask, "--out", name).out == f"{name}\n"
        assert Path(name).read_text() == canon(*ask, "--format", form).out
    canon(*ask, "--out", "p.json")
    assert json.loads(Path("p.json").read_text()) == wanted
    refused = canon(*ask, "--format", "xml")
    assert (refused.code, refused.err) == (2, 'canon: No format "xml"; there are: csv, jsonl, table.\n')
    assert "--json is a format itself" in canon(*ask, "--format", "csv", "--json").err


@pytest.mark.parametrize("content", ["age,city\n61.5,P\n23,R\n", "city\tage\nP\t61.5\nR\t23\n", "jsonl", "parquet"])
def test_a_table_by_standard_input(
    folder: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    raw: str | bytes = content
    if content == "jsonl":
        raw = "".join(json.dumps(row) + "\n" for row in ROWS[:2])
    elif content == "parquet":
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(ROWS[:2]), "new.parquet")
        raw = Path("new.parquet").read_bytes()
    for arguments in ((), ("-",)):
        pipe(monkeypatch, raw)
        printed = canon("predict", folder / "table", *arguments, "--json")
        assert printed.code == 0, printed.err
        rows = json.loads(printed.out)
        assert [row["prediction"] for row in rows] == ["yes", "no"]
        assert [row["source"] for row in rows] == ["standard input, row 1", "standard input, row 2"]


def test_lines_by_standard_input(folder: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("words", "text"):
        pipe(monkeypatch, "good warm film\nawful dull film\n")
        rows = json.loads(canon("predict", folder / name, "lovely", "-", "--json").out)
        assert [row["prediction"] for row in rows] == ["up", "up", "down"]
        assert [row["source"] for row in rows][:2] == ["lovely", "standard input, line 1"]
    pipe(monkeypatch, "a i\nb j\n")
    direct = canon("translate", folder / "pairs", "a i", "b j").out
    assert canon("translate", folder / "pairs", "-").out == direct and direct.count("\n") == 2
    Path("in.txt").write_text("b j\n")
    pipe(monkeypatch, "")
    assert canon("translate", folder / "pairs", "a i", "in.txt", "--out", "said.txt").out == ""
    assert Path("said.txt").read_text() == direct


def test_bad_standard_input(folder: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe(monkeypatch, "age,city\nold,P\n")
    refused = canon("predict", folder / "table")
    wrong = 'canon: standard input, line 2: column "age" must be a number, got "old".\n'
    assert (refused.code, refused.out, refused.err) == (2, "", wrong)
    pipe(monkeypatch, "\n")
    assert canon("predict", folder / "table", "-").err == "canon: Standard input is empty.\n"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "or pipe it in." in canon("predict", folder / "table").err


def test_prompts_from_files_and_standard_input(
    tmp_path: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("text.txt").write_text("the cat sat on the mat\nthe dog sat on the log\n" * 30)
    changes = {"train.steps": 3, "data.tokenizer": "word", **FAST}
    train("rnn-lm:tiny", "text.txt", tmp_path / "run", changes=changes, quiet=True)
    ask = ("generate", tmp_path / "run")
    options = ("--length", 5, "--temperature", 0)
    direct = canon(*ask, "the cat", *options).out
    Path("prompt.txt").write_text("the cat\n")
    assert canon(*ask, "prompt.txt", *options).out == direct
    pipe(monkeypatch, "the cat\n")
    assert canon(*ask, "-", *options).out == direct
    assert canon(*ask, "the cat", *options, "--out", "said.txt").out == "said.txt\n"
    assert Path("said.txt").read_text() == direct
    two = json.loads(canon(*ask, "the cat", "prompt.txt", *options, "--json").out)
    assert [one["prompt"] for one in two] == ["the cat"] * 2 and two[0] == two[1]


def test_a_network_that_cannot_go_on_with_a_text_says_so(tmp_path: Path, canon: Callable[..., Any]) -> None:
    Path("text.txt").write_text("the cat sat on the mat\nthe dog sat on the log\n" * 30)
    train("elmo:tiny", "text.txt", tmp_path / "run", changes={"train.steps": 2, **FAST}, quiet=True)
    refused = canon("generate", tmp_path / "run", "the cat")
    assert refused.code == 2 and "is a run of elmo, which can only measure text (canon predict)." in refused.err
