"""torchrun with the command line as it is: one run directory, one report, and SIGTERM that saves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canon.training.run import Run

ROOT = Path(__file__).parent.parent.parent
SETS = {"train.batch": 32, "train.log_every": 2, "system.dropout": 0.0, "train.device": "cpu"}


def command(out: Path, **more: object) -> list[str]:
    sets = {**SETS, **{key.replace("__", "."): value for key, value in more.items()}}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "canon"]
    flags = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    return [*launch, "train", "linear/digits-mlp", "--out", str(out), "--resume", "--json", *flags]


def test_torchrun_trains_one_run_as_one_process_would(tmp_path: Path, canon) -> None:
    outcome = subprocess.run(
        command(tmp_path / "two", train__steps=20), cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["cost"]["processes"] == 2 and (tmp_path / "two" / "report.html").is_file()
    flags = [word for key, value in {**SETS, "train.steps": 20}.items() for word in ("--set", f"{key}={value}")]
    assert canon("train", "linear/digits-mlp", "--out", tmp_path / "one", *flags).code == 0
    for ours, theirs in zip(Run(tmp_path / "one").metrics(), Run(tmp_path / "two").metrics(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


def test_sigterm_to_all_processes_saves_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    far = command(out, train__steps=100000, train__checkpoint_every=50000, train__evaluate_every=50000)
    launched = subprocess.Popen(far, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 120
    while not ((out / "metrics.jsonl").is_file() and (out / "metrics.jsonl").stat().st_size > 2000):
        assert launched.poll() is None and time.time() < deadline, launched.communicate()
        time.sleep(0.05)
    os.kill(launched.pid, signal.SIGTERM)  # torchrun hands it on to the workers
    _, reported = launched.communicate(timeout=120)
    run = Run(out)
    assert "everything is saved" in reported
    assert len(list(run.checkpoints.glob("step-*"))) == 1 and run.result is None
