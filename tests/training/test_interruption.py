"""Killed, stopped, damaged or out of room: nothing but the work since the last checkpoint is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from canon.errors import CanonError
from canon.runs import checkpoint
from canon.training.run import Run
from canon.training.trainer import train

ROOT = Path(__file__).parent.parent.parent
SHORT = {
    "train.steps": 30,
    "train.batch": 32,
    "train.log_every": 2,
    "train.evaluate_every": 5,
    "train.checkpoint_every": 4,
    "train.keep": 3,
    "train.threads": 1,
    "train.device": "cpu",
}
LONG = {
    **SHORT,
    "train.steps": 2500,
    "train.log_every": 10,
    "train.checkpoint_every": 1250,
    "train.evaluate_every": 1250,
}


def fit(out: Path, resume: bool = False, **more: object) -> Run:
    changes = {} if resume else {**SHORT, **{key.replace("__", "."): value for key, value in more.items()}}
    return train("linear/digits-mlp", out=out, resume=resume, changes=changes, quiet=True)


def assert_same_end(first: Path, second: Path) -> None:
    """The same final weights and optimiser state, bit for bit, and the same metrics.jsonl."""
    assert (first / "metrics.jsonl").read_bytes() == (second / "metrics.jsonl").read_bytes()
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = load_file(first / "last" / file), load_file(second / "last" / file)
        assert ours.keys() == theirs.keys() and ours
        assert all(torch.equal(ours[key], theirs[key]) for key in ours), file


def kill_and_compare(tmp_path: Path, kills: int, seed: int) -> None:
    command = [sys.executable, "-m", "tests.training.killing", str(tmp_path), str(kills), str(seed)]
    reported = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert reported.returncode == 0, reported.stderr
    outcome = json.loads(reported.stdout.splitlines()[-1])
    assert len(outcome["moments"]) == kills and outcome["unreadable"] == []
    assert len(set(outcome["moments"])) > min(kills, 8) // 2, "the kills came at different moments"
    assert outcome["ends"] >= 1
    for end in range(outcome["ends"]):
        assert_same_end(tmp_path / "whole", tmp_path / f"end-{end}")


def test_killed_at_random_moments_ends_as_never_killed(tmp_path: Path) -> None:
    kill_and_compare(tmp_path, kills=8, seed=1)


@pytest.mark.slow
def test_killed_fifty_times_ends_as_never_killed(tmp_path: Path) -> None:
    kill_and_compare(tmp_path, kills=50, seed=2)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As long as a signal needs to come in the midst of it."""
    return train("linear/digits-mlp", out=tmp_path_factory.mktemp("long") / "run", changes=LONG, quiet=True).path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(number: int, long_run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "canon", "train", "linear/digits-mlp", "--out", str(tmp_path / "parts")]
    for key, value in LONG.items():
        command += ["--set", f"{key}={value}"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    metrics = tmp_path / "parts" / "metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size > 1000):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(number)
    _, reported = child.communicate(timeout=60)
    assert child.returncode == 128 + number
    assert "everything is saved" in reported and "--resume" in reported and "Traceback" not in reported
    stopped = Run(tmp_path / "parts")
    assert stopped.result is None and 0 < checkpoint.step_of((stopped.path / "last").resolve()) < LONG["train.steps"]
    fit(tmp_path / "parts", resume=True)
    assert_same_end(long_run, tmp_path / "parts")


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("harm", ["truncate", "flip", "remove"])
def test_damage_is_seen_and_the_checkpoint_before_is_used(file: str, harm: str, tmp_path: Path, capsys) -> None:
    whole = fit(tmp_path / "whole")
    shutil.copytree(whole.path, tmp_path / "hurt", symlinks=True)
    run = Run(tmp_path / "hurt")
    (run.path / "result.json").unlink()
    newest = next(checkpoint.newest_first(run.checkpoints))
    victim = newest / file
    content = bytearray(victim.read_bytes())
    if harm == "truncate":
        victim.write_bytes(content[: len(content) // 2])
    elif harm == "remove":
        victim.unlink()
    else:
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
    train("linear/digits-mlp", out=run.path, resume=True)
    printed = capsys.readouterr().err
    assert "Falling back to the one before" in printed and newest.name in printed
    assert "Resumed from step 28" in printed
    assert_same_end(whole.path, run.path)


def test_every_checkpoint_damaged_begins_again(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole")
    shutil.copytree(whole.path, tmp_path / "hurt", symlinks=True)
    run = Run(tmp_path / "hurt")
    (run.path / "result.json").unlink()
    for path in checkpoint.newest_first(run.checkpoints):
        (path / "model.safetensors").write_bytes(b"")
    fit(run.path, resume=True)
    assert_same_end(whole.path, run.path)


def test_a_half_written_line_and_later_lines_are_cut_on_resume(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole")
    shutil.copytree(whole.path, tmp_path / "cut", symlinks=True)
    run = Run(tmp_path / "cut")
    (run.path / "result.json").unlink()
    newest = next(checkpoint.newest_first(run.checkpoints))
    shutil.rmtree(newest)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 999, "train/lo')
    fit(run.path, resume=True)
    assert_same_end(whole.path, run.path)


def test_time_to_resume_does_not_depend_on_the_step(tmp_path: Path) -> None:
    """By arithmetic, not replay: a resumed loader makes only the permutation of the epoch it is in."""
    from canon.training import trainer

    fit(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(next(checkpoint.newest_first(tmp_path / "run" / "checkpoints")))
    recipe, path = trainer.plan("", "", tmp_path / "run", True, {})
    resumed = trainer.Trainer(recipe, path, trainer.enter_world(recipe.train), quiet=True)
    made: list[int] = []
    order = resumed.learner.loader.order
    permute = order._permutation
    order._permutation = lambda epoch: made.append(epoch) or permute(epoch)
    resumed.fit()
    assert set(made) == {0}  # steps 29 and 30 of 41 in the first epoch


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_is_intact(tmp_path: Path) -> None:
    """A run on a tmpfs too small for its checkpoints, in a mount namespace of its own."""
    probe = ["unshare", "--map-root-user", "--mount", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("needs unshare with user namespaces, to mount a small tmpfs")
    sets = " ".join(f"--set {key}={value}" for key, value in {**SHORT, "train.keep": 50}.items())
    script = f"""
        mount -t tmpfs -o size=9m tmpfs {tmp_path} || exit 77
        cd {ROOT}
        {sys.executable} -m canon train linear/digits-mlp --out {tmp_path}/run {sets}
        echo "exit $?"
        {sys.executable} -c "
from pathlib import Path
from canon.runs import checkpoint
folder = Path('{tmp_path}/run/checkpoints')
kept = list(checkpoint.newest_first(folder))
for path in kept: checkpoint.verify(path)
print('intact', len(kept), [p.name for p in folder.iterdir() if p.name.startswith('.')])"
    """
    outcome = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "bash", "-c", script], capture_output=True, text=True, timeout=120
    )
    if outcome.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    assert "exit 2" in outcome.stdout, outcome.stdout + outcome.stderr
    sentence = outcome.stderr.splitlines()[-1]
    assert sentence.startswith("canon: The disk is full") and "is intact" in sentence, outcome.stderr
    assert "Traceback" not in outcome.stderr
    count = int(outcome.stdout.split("intact ")[1].split()[0])
    assert count >= 1 and outcome.stdout.strip().endswith("[]")


def test_a_nan_stops_before_the_step_and_names_the_last_good_checkpoint(tmp_path: Path, monkeypatch) -> None:
    from canon.tasks.classification import Classification

    learn = Classification.loss
    calls = iter(range(1, 1000))

    def poisoned(self, network, batch, phase, turn):
        loss = learn(self, network, batch, phase, turn)
        return loss * float("nan") if next(calls) == 10 else loss

    monkeypatch.setattr(Classification, "loss", poisoned)
    with pytest.raises(CanonError, match=r"not finite at step 10; the last good checkpoint is step-00000008"):
        fit(tmp_path / "run")
    checkpoint.verify(tmp_path / "run" / "checkpoints" / "step-00000008")
    monkeypatch.setattr(Classification, "loss", learn)
    fit(tmp_path / "run", resume=True)
    assert_same_end(fit(tmp_path / "whole").path, tmp_path / "run")


def test_a_nan_can_be_skipped(tmp_path: Path, monkeypatch) -> None:
    from canon.tasks.classification import Classification

    learn = Classification.loss
    calls = iter(range(1, 1000))
    monkeypatch.setattr(
        Classification,
        "loss",
        lambda self, *rest: learn(self, *rest) * (float("inf") if next(calls) == 10 else 1.0),
    )
    run = fit(tmp_path / "run", train__nonfinite="skip")
    assert run.metrics()[-2]["train/skipped_steps"] == 1
    weights = load_file(run.path / "last" / "model.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_an_existing_run_is_not_touched_without_resume(tmp_path: Path) -> None:
    run = fit(tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    with pytest.raises(CanonError, match="already exists: add --resume"):
        fit(tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_run_directory_is_whole_or_absent(tmp_path: Path, monkeypatch) -> None:
    from canon.training import run as module

    monkeypatch.setattr(module, "environment", lambda _world: os._exit(9))
    child = os.fork()
    if child == 0:
        fit(tmp_path / "run")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert not (tmp_path / "run").exists()
    monkeypatch.undo()
    fit(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
