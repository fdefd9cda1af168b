"""Comparisons against the runs they are made of; reuse, resume, and every refusal."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from canon.compare.compare import compare, compare_runs
from canon.compare.protocol import budget_changes, parse_budget
from canon.compare.report import render
from canon.compare.result import Comparison
from canon.errors import CanonError
from canon.training import trainer
from canon.training.run import Run
from canon.training.trainer import train

NAMES = ("digits-mlp", "digits-softmax", "mlp:tiny")
BUDGET = ("steps", 12)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(NAMES, seeds=3, budget=BUDGET, out=tmp_path_factory.mktemp("three") / "out", quiet=True)


def test_every_number_is_that_of_the_runs(made: Comparison) -> None:
    assert "p is corrected for 2 comparisons with the first (Holm)." in made.notes
    stored = json.loads((made.folder / "compare.json").read_text())
    first: dict[str, list[float]] = {}
    p_values = {}
    for label, folder, entry in zip(
        NAMES, ("digits-mlp", "digits-softmax", "mlp-tiny"), stored["recipes"], strict=True
    ):
        assert entry["label"] == label
        results = [json.loads((made.folder / folder / f"seed-{k}" / "result.json").read_text()) for k in range(3)]
        assert [result["seed"] for result in results] == [0, 1, 2]
        for metric in ("accuracy", "loss", "f1_macro"):
            values = np.array([result["scores"]["test"][metric] for result in results])
            actual = entry["metrics"][metric]
            assert (actual["mean"], actual["sd"]) == (pytest.approx(values.mean()), pytest.approx(values.std(ddof=1)))
            if label == NAMES[0]:
                first[metric] = list(values)
            elif metric == "loss":
                p_values[label] = stats.ttest_rel(values, first[metric]).pvalue
                assert entry["minus_first"][metric]["mean"] == pytest.approx((values - first[metric]).mean())
                assert entry["minus_first"][metric]["p"] == pytest.approx(p_values[label])
        assert entry["cost"]["examples"] == 12 * 64 and entry["cost"]["parameters"] == results[0]["cost"]["parameters"]
    smaller, larger = sorted(p_values, key=lambda label: p_values[label])
    corrected = {entry["label"]: entry["minus_first"]["loss"]["p_holm"] for entry in stored["recipes"][1:]}
    assert corrected[smaller] == pytest.approx(min(1, 2 * p_values[smaller]))
    assert corrected[larger] == pytest.approx(max(p_values[larger], corrected[smaller]))
    assert stored["main"] == "accuracy" and stored["seeds"] == [0, 1, 2] and stored["split"] == "test"


def test_a_run_of_a_comparison_is_an_ordinary_run(made: Comparison, tmp_path: Path) -> None:
    alone = train("digits-mlp", out=tmp_path / "alone", changes={"train.steps": 12, "train.seed": 1}, quiet=True)
    assert alone.result is not None
    assert alone.result["scores"] == (made.entries[0].runs[1].result or {})["scores"]


def test_page_is_whole_and_fetches_nothing(made: Comparison) -> None:
    text = (made.folder / "report.html").read_text()
    assert not re.search(r"https?:|//\w|@import|<script|<link|src=|url\((?!#)", text)
    assert text.count('href="mlp-tiny/seed-2/report.html"') == 1
    assert (made.folder / "mlp-tiny/seed-2/report.html").is_file()
    for piece in (*NAMES, "test accuracy", "valid/accuracy", "train/loss", *made.verdicts(), "--budget steps=12"):
        assert piece in text


def test_the_page_is_drawn_from_json_alone(made: Comparison) -> None:
    """The facts that compare.json stores against those of the comparison and the page that was written."""
    stored = json.loads((made.folder / "compare.json").read_text())
    assert stored == made.to_json() and render(stored, draw=True) == (made.folder / "report.html").read_text()


def test_curves_and_settings_are_facts(made: Comparison) -> None:
    facts = made.to_json()
    assert list(facts["curves"]) == ["valid/accuracy", "valid/loss", "train/loss"]
    for entry in made.entries:
        for seed, run in entry.runs.items():
            logged = [[row["step"] * 64, row["train/loss"]] for row in run.metrics() if "train/loss" in row]
            assert logged and facts["curves"]["train/loss"][entry.label][str(seed)] == logged
    assert facts["settings"]["digits-softmax"]["system.name"] == "softmax-regression"
    assert facts["settings"]["digits-softmax"]["system.hidden"] is None  # a setting that only the others have
    assert not any(key in ("train.seed", "data.source") for key in facts["settings"]["digits-mlp"])


def test_same_command_again_trains_nothing(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.compare.compare.train_and_keep", lambda *_, **__: pytest.fail("trained again"))
    again = compare(NAMES, seeds=3, budget=BUDGET, out=made.folder, quiet=True)
    assert again.to_json() == made.to_json()


def test_interrupted_comparison_goes_on(made: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped inside the second run: the first is kept, the second resumed, and all is as if never stopped."""
    inner, calls = trainer.Trainer._evaluate, []

    def stopping(self: trainer.Trainer) -> bool:
        calls.append(self.run.path.name)
        if self.step == 10 and "softmax" in str(self.run.path):
            self.signals.number = 15
        return inner(self)

    monkeypatch.setattr(trainer.Trainer, "_evaluate", stopping)
    arguments: dict[str, Any] = {"seeds": 2, "budget": BUDGET, "out": tmp_path / "out", "quiet": True}
    with pytest.raises(trainer.Interrupted):
        compare(NAMES[:2], **arguments)
    monkeypatch.undo()
    monkeypatch.setattr("canon.compare.compare.write_report", lambda *_: None)
    left = Run.open(tmp_path / "out/digits-softmax/seed-0")
    assert left.result is None and not (tmp_path / "out/digits-mlp/seed-1").exists()
    comparison = compare(NAMES[:2], **arguments)
    for entry, whole in zip(comparison.entries, made.entries, strict=False):
        assert entry.values["loss"] == {seed: whole.values["loss"][seed] for seed in (0, 1)}
    assert "Resumed from step" in (left.path / "log.txt").read_text()


def test_self_comparison_shows_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.compare.compare.write_report", lambda *_: None)
    result = compare(["digits-softmax"] * 2, seeds=2, budget=BUDGET, out=tmp_path / "self", quiet=True)
    assert [entry.label for entry in result.entries] == ["digits-softmax", "digits-softmax #2"]
    assert len({run.path for entry in result.entries for run in entry.runs.values()}) == 4
    for gap in result.entries[1].against.values():
        assert (gap.mean, gap.p, gap.p_holm) == (0.0, 1.0, 1.0)
    assert "no difference is shown" in result.verdicts()[0]
    assert not any("Holm" in note for note in result.notes)  # one comparison needs no correction


def test_one_seed_and_other_objectives(tmp_path: Path) -> None:
    names = ["cancer-logistic", "cancer-svm", "cancer-adaboost"]
    alike = {"data.valid": 0.1}
    comparison = compare(names, 1, budget=("examples", 2000), changes=alike, out=tmp_path / "one", quiet=True)
    assert any("no interval" in note for note in comparison.notes)
    assert comparison.entries[0].summary["accuracy"].low is None and comparison.entries[1].against["accuracy"].p is None
    assert "loss" not in comparison.metrics and any("different objectives" in note for note in comparison.notes)
    seen = {entry.label: entry.cost["examples"] for entry in comparison.entries}
    assert seen == {"cancer-logistic": 63 * 32, "cancer-svm": 5 * 409, "cancer-adaboost": 5 * 409}


def test_runs_as_arguments(made: Comparison, tmp_path: Path) -> None:
    paths = [run.path for entry in made.entries for run in entry.runs.values()]
    result = compare_runs(paths[:6], tmp_path / "runs")
    assert [entry.label for entry in result.entries] == ["linear/digits-mlp", "linear/digits-softmax"]
    for entry, whole in zip(result.entries, made.entries, strict=False):
        assert entry.summary == whole.summary
    both = compare_runs([paths[0], paths[6]], tmp_path / "presets")  # one recipe name, other settings
    assert [re.search(r"system\.\w+=\S+", entry.label) is not None for entry in both.entries] == [True, True]
    twice = compare_runs([paths[0], shutil.copytree(paths[0], tmp_path / "copy", symlinks=True)], tmp_path / "twice")
    assert len(twice.entries) == 2 and twice.entries[1].against["loss"].mean == 0


def test_what_some_seeds_lack_is_not_compared(made: Comparison, tmp_path: Path) -> None:
    """In a run of the second recipe, whose other runs and the first recipe's have it."""
    paths = [run.path for entry in made.entries for run in entry.runs.values()][:6]
    paths[4] = Path(shutil.copytree(paths[4], tmp_path / "lacks", symlinks=True))
    result = json.loads((paths[4] / "result.json").read_text())
    del result["sha256"]
    result["scores"]["test"] = {"more": 1.0, "accuracy": result["scores"]["test"]["accuracy"]}
    (paths[4] / "result.json").write_text(json.dumps(result))
    comparison = compare_runs(paths, tmp_path / "lacking")
    assert comparison.metrics == ["accuracy"]
    assert any("more is undefined for the test set" in note for note in comparison.notes)


def test_other_settings_in_the_same_place(made: Comparison) -> None:
    with pytest.raises(CanonError, match=r"seed-0 was made with train.steps 12, not 13: give another --out"):
        compare(NAMES, seeds=3, budget=("steps", 13), out=made.folder, quiet=True)
    with pytest.raises(CanonError, match=r"optimizer.lr 0.002, not 0.5"):
        compare(NAMES[:1], budget=BUDGET, changes={"optimizer.lr": 0.5}, out=made.folder, quiet=True)


def toml(path: Path, **data: Any) -> str:
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in data.items())
    text = f'[system]\nname = "softmax-regression"\n[data]\n{lines}\n[train]\nepochs = 1\n'
    path.write_text(text)
    return str(path)


REFUSED: list[tuple[str, Callable[[Path], dict[str, Any]], str]] = [
    ("recipe", lambda p: {"names": ["digits-mlq"]}, r'No recipe or system "digits-mlq"; did you mean .*digits-mlp\?'),
    ("nothing", lambda p: {"names": []}, "Give the recipes to compare"),
    ("seeds", lambda p: {"names": NAMES, "seeds": 0}, "--seeds must be a positive whole number, got 0"),
    ("own seed", lambda p: {"names": NAMES, "changes": {"train.seed": 3}}, "train.seed is what a comparison varies"),
    ("unit", lambda p: {"names": NAMES, "budget": ("hours", 3)}, 'No unit of a budget "hours"; there are: epochs'),
    ("amount", lambda p: {"names": NAMES, "budget": ("steps", 0)}, "--budget steps must be a positive whole number"),
    (
        "data",
        lambda p: {"names": ["digits-softmax", "cancer-logistic"]},
        "digits-softmax and cancer-logistic cannot be compared: the data of one is digits, of the other breast-cancer",
    ),
    (
        "task",
        lambda p: {"names": ["digits-softmax", "diabetes-linear"]},
        "the task of one is classification, of the other regression",
    ),
    (
        "split seed",
        lambda p: {"names": [toml(p / "a.toml", source="digits"), toml(p / "b.toml", source="digits", seed=1)]},
        r"a and b cannot be compared: the split's seed \(data.seed\) of one is 0, of the other 1",
    ),
    (
        "split",
        lambda p: {"names": [toml(p / "a.toml", source="digits"), toml(p / "b.toml", source="digits", valid=0.2)]},
        r"the split of one is \(.*valid 0.1 of each class\), of the other \(.*valid 0.2 of each class\)",
    ),
    (
        "budget",
        lambda p: {"names": ["cancer-logistic", "cancer-adaboost"], "changes": {"data.valid": 0.1}},
        r"cancer-logistic sees 12,288 examples and cancer-adaboost 40,900 examples; give one to all, as in --budget",
    ),
    (
        "place",
        lambda p: {"names": NAMES[:1], "budget": BUDGET, "out": p / "file/below"},
        r"cannot be written: Not a directory",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refusals(arguments: Callable[[Path], dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CanonError, match=sentence) as reported:
        compare(**{"out": tmp_path / "out", "quiet": True, **arguments(tmp_path)})
    assert "\n" not in str(reported.value) and not (tmp_path / "out").exists()


def test_runs_that_are_refused(made: Comparison, tmp_path: Path) -> None:
    whole = made.entries[1].runs[0].path
    half = Path(shutil.copytree(whole, tmp_path / "half", symlinks=True))
    (half / "result.json").unlink()
    longer = train("digits-softmax", out=tmp_path / "longer", changes={"train.steps": 20}, quiet=True).path
    split = train(
        "digits-softmax", out=tmp_path / "split", changes={"train.steps": 12, "data.seed": 5}, quiet=True
    ).path
    loss = {"train.steps": 12, "train.monitor": "loss"}
    chosen = train("digits-softmax", out=tmp_path / "chosen", changes=loss, quiet=True).path
    for other, sentence in (
        (tmp_path, "is not a run"),
        (tmp_path / "none", "There is no run"),
        (half, "is not finished: continue it with canon train"),
        (longer, "The budgets differ: .* sees 768 examples and .* 1,280 examples; train them again"),
        (split, r"data.seed\) of one is 0, of the other 5"),
        (chosen, "one keeps the weights of best accuracy, the other of best loss"),
    ):
        with pytest.raises(CanonError, match=sentence):
            compare_runs([whole, other], tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_budgets() -> None:
    assert parse_budget("examples=5000") == ("examples", 5000) and parse_budget(" seconds = 2.5") == ("seconds", 2.5)
    assert budget_changes(("examples", 5000), 64) == {"train.steps": 79}  # 5,056: whole batches
    assert budget_changes(("epochs", 2), 64) == {"train.epochs": 2.0}
    assert budget_changes(("seconds", 3), 64) == {"train.seconds": 3.0}
    for wrong in ("5000", "examples=many", "examples=1.5", "steps=-1", "epochs=nan", "seconds=inf", "steps=true"):
        with pytest.raises(CanonError, match="--budget"):
            parse_budget(wrong)


def test_seconds_budget_ends_runs(tmp_path: Path) -> None:
    out = tmp_path / "s"
    comparison = compare(["digits-mlp"], seeds=1, budget=("seconds", 0.05), out=out, quiet=True)
    assert (comparison.entries[0].runs[0].result or {})["ended"] == "train.seconds are over"


def test_command_line(made: Comparison, canon: Callable) -> None:
    arguments = ("compare", *NAMES, "--budget", "steps=12", "--out", made.folder)
    reported = canon(*arguments, "--json")
    assert reported.code == 0 and json.loads(reported.out) == made.to_json()
    assert reported.err.splitlines()[0].startswith("[1/9] digits-mlp, seed 0: loss ")
    printed = canon(*arguments).out
    assert printed.endswith(f"{made.folder}/report.html\n") and "minus first" in printed and "examples seen" in printed
    run = made.entries[0].runs[0].path
    for wrong, sentence in (
        (("compare", run, "digits-mlp"), "not both"),
        (("compare", run, "--budget", "steps=3"), "Runs are compared as they are"),
        (("compare", "digits-mlp", "--budget", "hours=3"), "No unit of a budget"),
    ):
        refused = canon(*wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1


def test_the_metric_that_decides_comes_first(made: Comparison) -> None:
    """In the runs it is the second, after the loss."""
    scores = next(iter(made.entries[0].runs.values())).result["scores"]["test"]  # type: ignore[index]
    assert next(iter(scores)) == "loss" and made.main == "accuracy"
    for entry in made.entries:
        assert next(iter(entry.values)) == next(iter(entry.summary)) == made.main
    assert made.metrics[0] == made.main


def test_every_seed_can_have_its_own_examples(tmp_path: Path) -> None:
    made = compare(NAMES[1:], seeds=2, budget=("steps", 2), out=tmp_path / "out", quiet=True, vary="data.seed")
    prints = [[run.data["fingerprint"] for run in entry.runs.values()] for entry in made.entries]
    assert prints[0] == prints[1] and len(set(prints[0])) == 2
    assert [run.recipe.data.seed for run in made.entries[0].runs.values()] == [0, 1]
    assert "--vary data.seed" in made.command
    again = compare(NAMES[1:], seeds=2, budget=("steps", 2), out=tmp_path / "out", quiet=True, vary="data.seed")
    assert again.to_json() == made.to_json()
    with pytest.raises(CanonError, match=r"No setting that goes with the seed \(--vary\) \"data.limit\""):
        compare(NAMES[1:], vary="data.limit")
    with pytest.raises(CanonError, match=r"data\.seed is what --vary data\.seed sets"):
        compare(NAMES[1:], vary="data.seed", changes={"data.seed": 3})
