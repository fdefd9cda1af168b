"""Checkpoints that would follow too soon wait: the run and what is left of it are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canon.runs import checkpoint
from canon.training import trainer
from canon.training.trainer import train

DIGITS = {"train.steps": 60, "train.batch": 50, "data.limit": 300, "train.evaluate_every": 5}


def tensors(run: Any, link: str) -> dict[str, Any]:
    groups, _ = checkpoint.load((run.path / link).resolve())
    return {f"{group}/{name}": tensor.tolist() for group, rows in groups.items() for name, tensor in rows.items()}


@pytest.mark.parametrize("interval", [("_SOONEST", 1e9), ("_TIMES", 1e12)])  # as if hours lay between, or one took them
def test_checkpoints_wait_and_the_best_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: tuple[str, float]
) -> None:
    monkeypatch.setattr(trainer, "_SOONEST", 0.0)
    monkeypatch.setattr(trainer, "_TIMES", 0)
    plain = train("digits-softmax", out=tmp_path / "plain", changes=DIGITS, quiet=True)
    written = []
    save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda *given: (written.append(given[1]), save(*given))[1])
    monkeypatch.setattr(trainer, *interval)
    slow = train("digits-softmax", out=tmp_path / "slow", changes=DIGITS, quiet=True)
    assert len(written) <= 3 and written[-1] == 60
    for link in ("best", "last"):
        assert tensors(plain, link) == tensors(slow, link)
    assert plain.result["scores"] == slow.result["scores"]
    lines = [[json.loads(line) for line in (run.path / "metrics.jsonl").open()] for run in (plain, slow)]
    assert lines[0] == lines[1]


def test_a_users_own_interval_is_kept_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_SOONEST", 1e9)
    changes = {**DIGITS, "train.checkpoint_every": 20, "train.keep": 9}
    run = train("digits-softmax", out=tmp_path / "run", changes=changes, quiet=True)
    assert {20, 40, 60} <= {checkpoint.step_of(path) for path in checkpoint.newest_first(run.checkpoints)}


def test_a_copy_that_followed_the_links_is_the_run(tmp_path: Path) -> None:
    import shutil

    from canon.use.model import load

    run = train("digits-softmax", out=tmp_path / "run", changes={**DIGITS, "train.steps": 20}, quiet=True)
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    assert (copy / "best").is_dir() and not (copy / "best").is_symlink()
    assert load(copy).checkpoint == (copy / "checkpoints" / run.best().name).resolve()
    assert load(copy).evaluate() == load(run.path).evaluate()
    # It is trained on as the run itself is, and has links again.
    both = [train(out=path, resume=True, changes={"train.steps": 30}, quiet=True) for path in (run.path, copy)]
    assert tensors(both[0], "last") == tensors(both[1], "last") and (copy / "last").is_symlink()
