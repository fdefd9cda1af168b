"""The command line: examples in every help, JSON that parses, results on stdout and all else on stderr, exit codes."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canon import recipe as recipes
from canon.data.catalogue import CATALOGUE
from canon.optim import OPTIMIZERS
from canon.registry import SYSTEMS
from canon.registry.recipes import pipeline_tables
from canon.training.trainer import train

VERBS = (
    *("train", "check", "evaluate", "predict", "translate", "generate", "neighbors", "analogy"),
    *("encode", "search", "rank", "recommend", "play"),
    *("compare", "tune", "help", "list", "describe", "plot"),
    *("inspect filters", "inspect features", "inspect attention", "inspect gradients", "inspect importances"),
    *("convert", "distill", "claims run", "claims show", "claims report", "claims new"),
    *("tokenizer train", "data fetch"),
    "features",
)
LISTS = {
    "systems": ("system", [system.name for system in SYSTEMS]),
    "recipes": ("recipe", recipes.names()),
    "pipelines": ("pipeline", list(pipeline_tables())),
    "datasets": ("dataset", list(CATALOGUE)),
    "optimizers": ("optimizer", list(OPTIMIZERS)),
}
ROWS = "age,city,label\n" + "".join(f"{i},{'PQ'[i % 3 > 0]},{'ab'[i % 2]}\n" for i in range(40))
TINY = ("--set", "train.steps=3", "--set", "train.batch=8", "--set", "train.threads=1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of softmax regression on rows.csv beside it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "rows.csv").write_text(ROWS)
    with contextlib.chdir(folder):
        changes = {"train.steps": 3, "train.batch": 8, "train.threads": 1}
        train("softmax-regression", str(folder / "rows.csv"), "run", changes=changes, quiet=True)
    return folder / "run"


def table(text: str) -> list[list[str]]:
    """Lines of columns parted by two spaces or more."""
    return [re.split(r" {2,}", line) for line in text.splitlines()]


# Help


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_of_that_verb(verb: str, canon: Callable[..., Any]) -> None:
    code, out, err = canon(*verb.split(), "--help")
    assert (code, err) == (0, "")
    examples = re.findall(r"canon [a-z].*", out[out.index("Example") :])
    assert examples and all(line.startswith(f"canon {verb}") for line in examples)


def test_help_names_every_verb(canon: Callable[..., Any]) -> None:
    code, out, _ = canon("--help")
    assert code == 0
    named = re.findall(r"^  ([a-z]+) {2,}\S", out[out.index("Train and compare:") :], re.MULTILINE)
    assert sorted(named) == sorted({verb.split()[0] for verb in VERBS})


def test_no_verb_shows_the_help(canon: Callable[..., Any]) -> None:
    code, out, _ = canon()
    assert code == 0 and "Train and compare:" in out


# Lists


@pytest.mark.parametrize("what", LISTS)
def test_a_list_is_the_registrys_as_json_and_as_a_table(what: str, canon: Callable[..., Any]) -> None:
    key, names = LISTS[what]
    code, out, err = canon("list", what, "--json")
    assert (code, err) == (0, "")
    assert [row[key] for row in json.loads(out)] == names
    code, out, err = canon("list", what)
    assert (code, err) == (0, "")
    header, *lines = table(out)
    assert header[0] == key and [line[0] for line in lines] == names


def test_list_alone_lists_systems(canon: Callable[..., Any]) -> None:
    assert canon("list").out == canon("list", "systems").out


def test_a_recipe_is_listed_with_what_it_reaches(canon: Callable[..., Any]) -> None:
    rows = {row["recipe"]: row for row in json.loads(canon("list", "recipes", "--json").out)}
    row = rows["linear/cancer-svm"]
    assert (row["system"], row["data"]) == ("linear-svm", "breast-cancer")
    low, high = recipes.load("linear/cancer-svm").expect["test/accuracy"]
    assert f"test/accuracy {low:.4g}–{high:.4g}" in row["reaches"]


def test_built_in_sets_are_here_and_others_are_not(canon: Callable[..., Any]) -> None:
    """CANON_DATA is an empty folder in tests; a distribution may package Fashion-MNIST, but not this."""
    here = {row["dataset"]: row["here"] for row in json.loads(canon("list", "datasets", "--json").out)}
    assert all(here[name] for name, entry in CATALOGUE.items() if entry.builtin)
    assert not here["wikitext-2"]


# Results on stdout, the rest on stderr


def test_train_prints_one_path_on_stdout_and_speaks_on_stderr(canon: Callable[..., Any]) -> None:
    code, out, err = canon("train", "softmax-regression", *TINY)
    assert (code, out) == (0, "runs/digits-softmax/report.html\n")
    assert Path(out.strip()).is_file()
    assert "Softmax regression (softmax-regression) on digits" in err
    assert "3 steps of 8 examples on cpu." in err
    assert re.search(r"^ test  loss \d+\.\d+ .* accuracy", err, re.MULTILINE)


def test_train_quietly_says_nothing_but_the_result(canon: Callable[..., Any]) -> None:
    code, out, err = canon("train", "softmax-regression", "--out", "here", "--quiet", *TINY)
    assert (code, out, err) == (0, "here/report.html\n", "")
    assert "Softmax regression" in Path("here/log.txt").read_text()


@pytest.mark.usefixtures("small_texts")
def test_train_alone_runs_the_default_recipe(canon: Callable[..., Any]) -> None:
    code, out, _ = canon("train", "--json", *TINY)
    record = json.loads(out)
    assert (code, record["recipe"], record["run"]) == (0, recipes.DEFAULT, "runs/pronounce")


def test_train_json_is_the_result_file(canon: Callable[..., Any]) -> None:
    code, out, _ = canon("train", "adaboost", "--out", "run", "--json", *TINY)
    record = json.loads(out)
    assert code == 0 and record.pop("run") == "run"
    stored = json.loads(Path("run/result.json").read_text())
    assert stored.pop("sha256") and record == stored
    assert record["steps"] == 3 and set(record["scores"]) == {"train", "valid", "test"}


def test_a_finished_run_resumed_has_nothing_left_to_do(run: Path, canon: Callable[..., Any]) -> None:
    code, out, err = canon("train", run, "--resume")
    assert (code, out) == (0, f"{run}/report.html\n")
    assert "nothing is left to do" in err


def test_what_was_measured_is_printed_beside_and_withheld_when_changed(canon: Callable[..., Any]) -> None:
    """adaboost needs no luck, so its numbers are those of its recipe."""
    err = canon("train", "cancer-adaboost", "--out", "whole").err
    low, high = recipes.load("cancer-adaboost").expect["test/accuracy"]
    assert f"(expected {low:.4g}–{high:.4g})" in err
    assert "expected" not in canon("train", "cancer-adaboost", "--out", "part", *TINY).err


def test_evaluate(run: Path, canon: Callable[..., Any]) -> None:
    code, out, err = canon("evaluate", run, "--json")
    scores = json.loads(out)
    assert (code, err) == (0, "")
    assert scores == json.loads((run / "result.json").read_text())["scores"]["test"]
    header, *lines = table(canon("evaluate", run).out)
    assert header == ["metric", "value"]
    assert lines == [[name, f"{value:.4f}"] for name, value in scores.items()]
    assert json.loads(canon("evaluate", run, "--split", "train", "--json").out) != scores


def test_evaluate_on_other_data(run: Path, canon: Callable[..., Any]) -> None:
    """Of two rows that differ only in their labels, one is right."""
    Path("other.csv").write_text("city,age,label\nP,3,a\nP,3,b\n")
    assert json.loads(canon("evaluate", run, "--data", "other.csv", "--json").out)["accuracy"] == 0.5


def test_predict(run: Path, canon: Callable[..., Any]) -> None:
    """The table holds what the JSON holds."""
    Path("new.csv").write_text("city,age\nP,3\nQ,30\nR,12\n")
    code, out, err = canon("predict", run, "new.csv", "--top", "2", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["source"] for row in rows] == [f"new.csv, row {i}" for i in (1, 2, 3)]
    for row in rows:
        assert sum(choice["probability"] for choice in row["top"]) == pytest.approx(1, abs=1e-6)
    head, *lines = [re.split(r"  +", line) for line in canon("predict", run, "new.csv", "--top", "2").out.splitlines()]
    assert head == ["source", "class", "probability", "class_2", "probability_2"]
    flat = [
        [part for choice in row["top"] for part in (choice["class"], f"{choice['probability']:.4f}")] for row in rows
    ]
    assert lines == [[row["source"], *parts] for row, parts in zip(rows, flat, strict=True)]
    assert canon("predict", run, "new.csv").out.splitlines()[0].split() == ["source", "class", "probability"]


def test_check(canon: Callable[..., Any]) -> None:
    Path("rows.csv").write_text(ROWS)
    code, out, err = canon("check", "rows.csv", "--json")
    record = json.loads(out)
    assert (code, err) == (0, "")
    assert (record["name"], record["kind"], record["splits"]) == (
        "rows.csv",
        "table",
        {"train": 32, "valid": 4, "test": 4},
    )
    code, out, err = canon("check", "rows.csv", "--set", "data.label=city")
    assert (code, err) == (0, "")
    assert out.startswith("rows.csv: table\n") and "softmax-regression" in out


# Exit codes of the program itself


def test_as_a_program(tmp_path: Path) -> None:
    """`python -m canon` ends with 0 and with 2 as the function does, and lists without importing torch."""
    code = "import sys; sys.argv = ['canon', 'list', 'systems']; from canon.command import main\nmain()"
    watch = f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr)); {code}"
    good = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True)
    assert good.returncode == 0 and good.stderr == "False\n"
    bad = subprocess.run([sys.executable, "-m", "canon", "list", "sistems"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == 'canon: No list "sistems"; did you mean systems?\n'


def test_a_folder_goes_before_a_named_set_and_says_so(canon: Callable[..., Any]) -> None:
    Path("digits").mkdir()
    Path("digits/train.csv").write_text(ROWS)
    printed = canon("train", "softmax-regression", "--data", "digits", "--out", "run", *TINY)
    assert printed.code == 0 and "digits is the file or folder of that name here, not the named set." in printed.err
    assert json.loads(Path("run/data.json").read_text())["files"][0]["name"] == "digits/train.csv"
