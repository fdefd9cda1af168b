"""The search for settings against the runs it is made of: what is drawn and chosen, time, stopping and going on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from canon.compare import tune as tuning
from canon.compare.tune import Tuning, draw, parse_space, tune
from canon.errors import CanonError
from canon.registry import Range, find
from canon.training.pace import Pace
from canon.training.run import Run
from canon.training.trainer import Interrupted

SMALL = {"train.epochs": 3, "train.threads": 1, "system.dim": 8, "system.word_ngrams": 1}
SPACE = {"system.lr": Range(0.01, 2.0), "system.maxn": (0, 3)}


def lines(path: Path, count: int = 200) -> Path:
    """Two labels that share half of their words."""
    rng = np.random.default_rng(0)
    rows = []
    for row in range(count):
        words = rng.integers(0, 30, size=6) + 10 * (row % 2)
        rows.append(f"__label__{'ab'[row % 2]} " + " ".join(f"w{word}" for word in words))
    path.write_text("\n".join(rows))
    return path


def search(folder: Path, **more: Any) -> Tuning:
    source = folder / "a.txt"
    if not source.exists():
        lines(source)
    own: dict[str, Any] = {"seconds": 60.0, "trials": 4, "space": SPACE, "changes": SMALL, "quiet": True}
    return tune("fasttext-classifier", str(source), out=folder / "out", **(own | more))


def test_draws_depend_on_seed_and_number_alone() -> None:
    """Uniform by the logarithm (Kolmogorov–Smirnov), whole numbers where the range's are, choices evenly (χ²)."""
    space = {"a": Range(0.01, 10.0), "b": Range(2, 64), "c": ("x", "y", "z")}
    drawn = [draw(space, 0, number) for number in range(2, 602)]
    assert drawn[5] == draw(space, 0, 7) != draw(space, 1, 7)
    logs = np.log([row["a"] for row in drawn])
    assert stats.kstest(logs, stats.uniform(np.log(0.01), np.log(1000)).cdf).pvalue > 1e-3
    whole = [row["b"] for row in drawn]
    assert all(isinstance(value, int) and 2 <= value <= 64 for value in whole) and {2, 64} <= set(whole)
    assert stats.chisquare([sum(row["c"] == name for row in drawn) for name in "xyz"]).pvalue > 1e-3


def test_every_trial_is_a_run_and_the_validation_set_decides(tmp_path: Path) -> None:
    """tune.json against the run directories: settings, validation scores, the best and the link to it."""
    searched = search(tmp_path)
    stored = json.loads((searched.folder / "tune.json").read_text())
    assert stored == json.loads(json.dumps(searched.to_json())) and stored["finished"]
    values = []
    for trial in stored["trials"]:
        run = Run.open(searched.folder / f"trial-{trial['number']:03d}")
        assert run.result is not None and run.recipe.train.seed == 0
        assert trial["scores"] == run.result["scores"]["valid"]
        assert trial["value"] == trial["scores"]["accuracy"]
        wanted = {} if trial["number"] == 1 else draw(SPACE | declared(), 0, trial["number"])
        for key, value in wanted.items():
            section, name = key.split(".")
            assert getattr(run.recipe.config if section == "system" else getattr(run.recipe, section), name) == value
        values.append(trial["value"])
    assert len(values) == 4 and stored["best"] == 1 + int(np.argmax(values))
    best = searched.folder / "best"
    assert best.is_symlink() and best.resolve().name == f"trial-{stored['best']:03d}"
    assert (best / "report.html").is_file() and Run.open(best).best().is_dir()
    for trial in stored["trials"]:
        is_best = trial["number"] == stored["best"]
        assert (searched.folder / f"trial-{trial['number']:03d}" / "checkpoints").exists() == is_best


def declared() -> dict[str, Any]:
    """The rest of the system's space, without what the tests give."""
    return {key: value for key, value in find("fasttext-classifier")[0].space.items() if key not in SMALL | SPACE}


def test_weights_of_all_trials_may_be_kept(tmp_path: Path) -> None:
    searched = search(tmp_path, trials=2, keep=True)
    assert all(Run.open(trial.run).best().is_dir() for trial in searched.trials)


def test_the_same_command_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the third trial: two are kept with the best of them; then only the others are made, as without."""
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = search(tmp_path / "whole")
    made: list[str] = []
    real = tuning.train

    def stopping(*arguments: Any, **more: Any) -> Run:
        made.append(Path(arguments[2]).name)
        if len(made) == 3:
            Path(arguments[2]).mkdir()  # as a run that had begun
            raise Interrupted(2, "stopped")
        return real(*arguments, **more)

    monkeypatch.setattr(tuning, "train", stopping)
    with pytest.raises(Interrupted):
        search(tmp_path / "parts")
    stored = json.loads((tmp_path / "parts" / "out" / "tune.json").read_text())
    assert [trial["number"] for trial in stored["trials"]] == [1, 2] and not stored["finished"]
    assert Run.open(tmp_path / "parts" / "out" / "best").result is not None
    again = search(tmp_path / "parts")
    assert made == ["trial-001", "trial-002", "trial-003", "trial-003", "trial-004"]
    for one, other in zip(whole.trials, again.trials, strict=True):
        assert (one.settings, one.value, one.scores) == (other.settings, other.value, other.scores)


def test_time_ends_the_search_and_the_best_is_trained_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial that takes longer than its share is cut short, judged, and then goes on to its last step. The clocks of
    its training and of the search run 1,000 times as fast, so that no machine is too fast for the test."""
    steps, real = 5000, Pace.seconds
    changes = {key: value for key, value in SMALL.items() if key != "train.epochs"}
    ended: list[str] = []
    monkeypatch.setattr(tuning._Search, "_report", lambda self, trial: ended.append(trial.ended))
    monkeypatch.setattr(Pace, "seconds", lambda self: 1000 * real(self))
    monkeypatch.setattr(tuning, "time", SimpleNamespace(perf_counter=lambda: 1000 * time.perf_counter()))
    searched = search(tmp_path, seconds=0.5, trials=0, changes={**changes, "train.steps": steps, "train.batch": 1})
    assert ended == ["train.seconds are over"] and len(searched.trials) == 1
    result = Run.open(searched.folder / "best").result
    assert result is not None and result["steps"] == steps and result["ended"] == "all steps done"
    assert searched.trials[0].scores == result["scores"]["valid"] and searched.finished


def test_a_trial_that_fails_is_reported_and_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searched = search(tmp_path, space={"system.lr": (1e30, 1e30)}, trials=2, quiet=False)
    assert searched.trials[1].value is None and "too large" in searched.trials[1].ended
    assert searched.best is searched.trials[0]
    assert "[2] failed: The weights are no longer finite" in capsys.readouterr().err


def test_a_network_is_tuned_by_its_rate(canon: Callable[..., Any]) -> None:
    """`canon tune` of a system that declares nothing: optimizer.lr, 30 times to either side of the recipe's."""
    more = ("--set", "train.steps=20", "--set", "train.threads=1", "--trials", "3", "--json")
    printed = canon("tune", "digits-softmax", "--seconds", "60", "--out", "out", *more)
    assert printed.code == 0, printed.err
    record = json.loads(printed.out)
    rate = Run.open("out/trial-001").recipe.optimizer.settings.lr
    for trial in record["trials"][1:]:
        assert list(trial["settings"]) == ["optimizer.lr"]
        assert rate / 30 <= trial["settings"]["optimizer.lr"] <= rate * 30
    assert record["run"] == "out/best" and "[3] accuracy" in printed.err
    shown = canon("tune", "digits-softmax", "--seconds", "60", "--out", "out", *more[:-1])
    assert shown.code == 0 and "Best: trial" in shown.out and "out/best/report.html" in shown.out


def test_parse_space() -> None:
    assert parse_space("system.lr=0.01..1") == ("system.lr", Range(0.01, 1))
    assert parse_space("system.dim=10..200") == ("system.dim", Range(10, 200))
    assert parse_space("system.loss=softmax,one-vs-all") == ("system.loss", ("softmax", "one-vs-all"))
    for text in ("system.lr", "system.lr=", "system.lr=1..0.1", "system.lr=a..b", "=1,2"):
        with pytest.raises(CanonError, match=r"--try takes key=low\.\.high or key=a,b,c"):
            parse_space(text)


def test_refusals(tmp_path: Path, canon: Callable[..., Any]) -> None:
    lines(tmp_path / "a.txt")
    base = ("tune", "fasttext-classifier", "--data", "a.txt", "--out", "out")
    assert "--seconds must be a positive number, got 0" in canon(*base, "--seconds", "0").err
    assert 'No setting "system.learning"' in canon(*base, "--try", "system.learning=1,2").err
    assert "must be a positive" in canon(*base, "--try", "system.dim=0,2").err
    assert "has no validation set to choose by" in canon(*base, "--set", "data.valid=0.0").err
    given = [f"--set={key}=1" for key in find("fasttext-classifier")[0].space]
    assert "nothing left to tune" in canon(*base, *given).err
    assert "adaboost declares nothing to tune" in canon("tune", "adaboost", "--out", "out").err
    assert not Path("out").exists()
    Path("out").mkdir()
    (Path("out") / "letter.txt").write_text("mine")
    assert "holds something other than a search" in canon(*base).err
