"""The report of a run against the files it is made from, an oracle for the confusion matrix, and a reader of HTML."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as oracle

import canon
from canon.config import read_toml
from canon.errors import CanonError
from canon.metrics import confusion_matrix
from canon.report import curves, facts, page, pipeline
from canon.report import run as report
from canon.report.run import write_report
from canon.training.run import Run
from canon.training.trainer import train
from canon.use.model import load

PAIRS = Path(__file__).parents[1] / "battery" / "pairs.tsv"
EXPECTING = """
[system]
name = "mlp:tiny"
[data]
source = "digits"
[train]
epochs = 3
[optimizer]
lr = 0.01
[expect]
"test/accuracy" = [0.5, 1.0]
"test/loss" = [90.0, 91.0]
[expect.curve]
"valid/accuracy" = [[3, 0.1, 0.5], [60, 0.6, 1.0]]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mine.toml").write_text(EXPECTING)
    table = folder / "flowers.csv"
    rows = [f"{i % 7},{i % 5},{'<b>rose</b>' if i % 2 else 'lily & co'}" for i in range(60)]
    table.write_text("\n".join(["a,b,label", *rows]) + "\n")
    asked = {
        "digits": ("digits-mlp", "", {"train.epochs": 3.0, "system.hidden": [32], "train.clip": 5.0}),
        "boost": ("cancer-adaboost", "", {"train.steps": 12}),
        "numbers": ("diabetes-linear", "", {"train.steps": 60, "data.valid": 0.1}),
        "no-valid": ("digits-softmax", "", {"train.epochs": 2.0, "data.valid": 0.0}),
        "expecting": (str(folder / "mine.toml"), "", {}),
        "table": ("mlp:tiny", str(table), {"train.epochs": 2.0}),
    }
    made = {}
    for name, (recipe, data, changes) in asked.items():
        made[name] = train(recipe, data, folder / name, changes=changes, quiet=True)
        write_report(made[name])
    return made


def text_of(run: Run) -> str:
    return (run.path / "report.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Fails on tags that do not close in order; keeps tables as lists of rows of texts."""

    VOID = ("meta", "circle", "br", "path", "use", "rect", "image", "img", "col")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in self.VOID or tag == "path":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID or tag == "path":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if any(tag in self.open for tag in ("td", "th")):
            self.tables[-1][-1][-1] += data


NAMES = ("digits", "boost", "numbers", "no-valid", "expecting", "table")


@pytest.mark.parametrize("name", NAMES)
def test_page_is_whole_and_fetches_nothing(runs: dict[str, Run], name: str) -> None:
    text = text_of(runs[name])
    Reader(text)
    text = re.sub(r'src="data:image/png;base64,[^"]*"', "", text)  # inside the page
    assert not re.search(r"https?:|//\w|@import|<script|<link|src=|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert not list(runs[name].path.glob(".*writing"))


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_risks_are_those_of_the_result(runs: dict[str, Run], name: str) -> None:
    result, tables = runs[name].result, Reader(text_of(runs[name])).tables
    assert result is not None
    scores = next(table for table in tables if table[0][0] == "split")
    for row, (split, values) in zip(scores[1:], result["scores"].items(), strict=True):
        assert row[0] == split
        reported = [float(re.split(r" \[", cell)[0].replace(",", "").replace("−", "-")) for cell in row[2:]]
        assert reported == pytest.approx(list(values.values()), rel=2e-3, abs=5e-5)
    risks = {row[0]: float(row[1].replace(",", "")) for row in next(t for t in tables if t[0][0] == "risk")[1:]}
    assert list(risks) == ["empirical risk", "structural risk", "generalization"]
    assert list(risks.values()) == pytest.approx(list(result["risk"].values()), rel=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_drawn_from_json_alone(runs: dict[str, Run], name: str) -> None:
    """The facts, written as JSON and read again, against those that were gathered and the page that was written."""
    gathered = facts.gather(runs[name])
    loaded = json.loads(json.dumps(gathered))
    assert loaded == gathered
    assert report.render(loaded, draw=True) == text_of(runs[name])


def test_texts_and_attention_are_facts(tmp_path: Path) -> None:
    """Of a Transformer: its page from JSON alone, what it said beside what is right, weights that sum to 1."""
    changes = {"data.tokenizer": "split", "data.target_tokenizer": "split", "train.tokens": 70, "train.steps": 6}
    run = train("transformer:tiny", str(PAIRS), tmp_path / "run", changes=changes, quiet=True)
    text = write_report(run).read_text()
    loaded = json.loads(json.dumps(facts.gather(run)))
    assert report.render(loaded, draw=True) == text and "<h3>Attention</h3>" in text
    rows = loaded["predictions"]["values"]["rows"]
    right = dict(line.split("\t") for line in PAIRS.read_text().splitlines())
    assert rows and all(row["right"] == [right[row["given"]]] for row in rows)
    for head in loaded["attention"]["maps"]:
        assert np.sum(head["weights"], axis=1) == pytest.approx(np.ones(len(head["queries"])), abs=1e-4)


def test_facts_are_those_of_the_files(runs: dict[str, Run]) -> None:
    run, actual = runs["expecting"], facts.gather(runs["expecting"])
    result = run.result
    assert result is not None
    assert actual["curves"]["rows"] == run.metrics() and actual["risks"] == result["risk"]
    assert actual["curves"]["expected"] == {"valid/accuracy": [[3, 0.1, 0.5], [60, 0.6, 1.0]]}
    scores = {(score["split"], score["metric"]): score for score in actual["scores"]}
    assert scores["test", "accuracy"]["value"] == result["scores"]["test"]["accuracy"]
    assert scores["test", "loss"]["expected"] == [90.0, 91.0] and scores["valid", "loss"]["expected"] is None
    assert actual["cost"] is not None and actual["cost"]["parameters"] == result["cost"]["parameters"]
    assert {"key": "lr", "value": "0.01", "origin": f"recipe {run.recipe.name}"} in actual["settings"]["optimizer"]


def test_every_setting_stands_with_its_value_and_origin(runs: dict[str, Run]) -> None:
    run = runs["digits"]
    values = [tuple(row) for table in Reader(text_of(run)).tables for row in table if len(row) == 3]
    written = read_toml(run.path / "recipe.toml")
    written.pop("expect", None)
    for section, settings in written.items():
        for key, value in settings.items():
            assert any(row[0] == key for row in values), f"{section}.{key} = {value}"
    assert ("hidden", "[32]", "--set") in values
    assert ("lr", "0.002", "recipe") in values
    assert ("num_classes", "10", "the data") in values
    assert ("eps", "1e-08", "default") in values


def test_commands_data_and_environment(runs: dict[str, Run]) -> None:
    text, run = text_of(runs["digits"]), runs["digits"]
    sets = "--set &#x27;system.hidden=[32]&#x27; --set train.epochs=3.0 --set train.clip=5.0"
    assert f"canon train linear/digits-mlp {sets}" in text
    assert run.data["fingerprint"] in text and run.data["files"][0]["sha256"] in text
    assert run.env["packages"]["torch"] in text and run.env["platform"] in text
    assert f"--data {runs['table'].path.parent / 'flowers.csv'}" in text_of(runs["table"])


def test_the_exact_command_makes_the_same_result(runs: dict[str, Run], tmp_path: Path) -> None:
    again = train(str(runs["digits"].path / "recipe.toml"), out=tmp_path / "again", quiet=True).result
    before = runs["digits"].result
    assert again is not None and before is not None and again["scores"] == before["scores"]


def test_confusion_matrix_is_scikit_learns(runs: dict[str, Run]) -> None:
    for name in ("digits", "boost"):
        run = runs[name]
        model = load(run.path)
        from canon.training.data import read_data

        test = read_data(run.recipe).splits["test"]
        predicted = model.task.scores(model.learner.outputs({"input": test["input"]})).argmax(1)
        wanted = oracle(np.asarray(test["target"]), predicted, labels=range(len(model.schema.classes)))
        table = next(t for t in Reader(text_of(run)).tables if t[0] == ["", *model.schema.classes])
        assert [[int(cell) for cell in row[1:]] for row in table[1:]] == wanted.tolist()


def test_class_names_cannot_become_html(runs: dict[str, Run]) -> None:
    text = text_of(runs["table"])
    assert "&lt;b&gt;rose&lt;/b&gt;" in text and "lily &amp; co" in text and "<b>" not in text


def test_figures_by_kind_of_run(runs: dict[str, Run]) -> None:
    digits, boost, numbers = (text_of(runs[name]) for name in ("digits", "boost", "numbers"))
    for title in ("Loss", "Accuracy, f1 macro", "Learning rate", "Gradient norm"):
        assert f">{title}</text>" in digits
    assert "a guess by uniform or" in digits and "class shares" in digits
    assert "the majority class," in digits
    assert ">Weighted error, loss</text>" in boost and "Learning rate" not in boost
    assert ">Predicted and true</text>" in numbers and ">MSE</text>" in numbers and "a guess by a constant" in numbers
    assert "var(--ink)" in digits and "#1f2937" not in re.sub(r"<style>.*?</style>", "", digits, count=1, flags=re.S)


def test_expected_ranges_and_curve(runs: dict[str, Run], tmp_path: Path) -> None:
    text = text_of(runs["expecting"])
    assert 'class="good">inside</span> the expected 0.5–1' in text
    assert 'class="bad note">[90–91]' in text
    assert "expected valid/accuracy" in text
    recipe = runs["expecting"].path.parent / "mine.toml"
    changed = train(str(recipe), out=tmp_path / "changed", changes={"optimizer.lr": 0.02}, quiet=True)
    reported = write_report(changed).read_text()
    assert "no expected range for these settings" in reported and "expected valid/accuracy" not in reported


def test_no_validation_set(runs: dict[str, Run]) -> None:
    text = text_of(runs["no-valid"])
    assert "Dots mark" not in text and "valid/loss" not in text and ">Loss</text>" in text


def test_unfinished_run(runs: dict[str, Run], tmp_path: Path) -> None:
    path = Path(shutil.copytree(runs["digits"].path, tmp_path / "half", symlinks=True))
    (path / "result.json").unlink()
    lines = (path / "metrics.jsonl").read_text().splitlines()[:7]
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    text = write_report(Run.open(path)).read_text()
    Reader(text)
    step = max(json.loads(line)["step"] for line in lines)
    assert f"it is at step {step:,} of 61" in text and f"canon train {path} --resume" in text
    assert ">Loss</text>" in text and "<h2>Scores</h2>" not in text


def test_data_that_is_gone_is_said(runs: dict[str, Run], tmp_path: Path) -> None:
    table = runs["table"].path.parent / "flowers.csv"
    content = table.read_bytes()
    table.write_bytes(content.replace(b"0,0,lily", b"9,9,lily", 1))
    try:
        assert "Not shown: " in write_report(runs["table"]).read_text()
    finally:
        table.write_bytes(content)
    assert "Not shown: " not in write_report(runs["table"]).read_text()


def test_after_training_the_data_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page made of the data that training has read against the one made of the data read again."""
    monkeypatch.setattr(facts, "read_data", lambda *_: pytest.fail("read again"))
    run = canon.train("digits-softmax", out=tmp_path / "run", quiet=True, train={"steps": 4})
    made = text_of(run)
    monkeypatch.undo()
    assert write_report(run).read_text() == made and "<h2>Predictions on the test set</h2>" in made


def test_without_matplotlib(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Charts are drawn as they are with it; what else is missing is said once."""
    monkeypatch.setattr(page, "can_draw", lambda: False)
    for name in ("digits", "numbers"):
        assert write_report(runs[name]).read_text() == text_of(runs[name])
        assert capsys.readouterr().err == ""
    stages = [{"stage": "bm25", "p": None, "ndcg": 0.5}]
    facts = {"pipeline": "x", "documents": 2, "stages": stages, "recipe": {}, "path": "x"}
    text = page.write_page(tmp_path / "report.html", pipeline.render, facts).read_text()
    assert "<svg" not in text and "deepcanon[plots]" in text
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "report.html is written without some of its figures" in printed


def test_a_place_that_cannot_be_written(runs: dict[str, Run], tmp_path: Path) -> None:
    path = Path(shutil.copytree(runs["boost"].path, tmp_path / "blocked", symlinks=True))
    (path / "report.html").unlink()
    (path / "report.html").mkdir()
    with pytest.raises(CanonError, match=r"report.html is a folder"):
        write_report(Run.open(path))


def test_curves_draw_what_was_logged(runs: dict[str, Run]) -> None:
    rows = runs["digits"].metrics()
    figure = curves.metric_figure({"digits": rows}, ["valid/accuracy"])
    drawn = figure.axes[0].lines[0].get_xydata()
    assert drawn.tolist() == [[row["step"], row["valid/accuracy"]] for row in rows if "valid/accuracy" in row]
    two = {"0": [[1, 1.0], [2, 5.0], [3, 6.0]], "1": [[1, 3.0], [2, 5.0]]}  # one stopped early
    spread = curves.spread_figure({"x": two}, "a")
    assert spread is not None and spread.axes[0].lines[0].get_xydata().tolist() == [[1, 2], [2, 5]]


def test_words_for_numbers() -> None:
    reported = {page.number(value) for value in (9610, 0.96943, -0.5, 0.0, 1234.56, 0.00012346, 1e-9)}
    assert reported == {"9,610", "0.9694", "−0.5000", "0.0000", "1,234.6", "0.0001235", "1e−09"}
    assert [page.duration(s) for s in (0.5531, 61, 3599.6, 7380)] == ["0.553 s", "1 min 1 s", "1 h 0 min", "2 h 3 min"]
    assert [page.size(n) for n in (12, 129384, 5e9, 3e12)] == ["12 B", "129 kB", "5 GB", "3 TB"]


def test_matrix_of_a_class_never_seen() -> None:
    counts = confusion_matrix([0, 0], [0, 1], classes=[0, 1, 2]).tolist()
    text = report.confusion_table(counts, ("a", "b", "c"))
    rows = [[int(cell) for cell in row[1:]] for row in Reader(text).tables[0][1:]]
    assert rows == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
