"""A step that does not fit: one sentence with a setting that does, and the run goes on with it."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from canon.errors import CanonError
from canon.nn import limits
from canon.training import memory
from canon.training.gradient import Gradient
from canon.training.memory import too_large
from canon.training.trainer import train

DIGITS = {"train.steps": 4, "train.batch": 50, "train.log_every": 1, "data.limit": 200}


def test_a_smaller_piece_is_tried_until_one_fits() -> None:
    tried = []

    def attempt(size: int) -> None:
        tried.append(size)
        if size > 9:
            raise MemoryError

    mishap = too_large(torch.device("cpu"), 50, True, attempt)
    assert tried == [25, 13, 7] and mishap.setting == "train.micro_batch=7"
    with pytest.raises(ZeroDivisionError):  # another error is not the memory's
        too_large(torch.device("cpu"), 50, True, lambda size: 1 // 0)  # type: ignore[arg-type]


def test_what_a_step_needs_is_measured_on_a_processor_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that keeps 40 MB an example, of which one fits: twenty need 800 MB more than the process has now."""
    monkeypatch.setattr(memory, "memory", lambda device=None: 50_000_000)
    monkeypatch.setattr(memory, "gigabytes", lambda size: f"{size / 1e6:.0f} MB")
    pages, looks = memory._PAGES, []

    class Watched:
        def exists(self) -> bool:
            return True

        def read_text(self) -> str:
            text = pages.read_text()
            looks.append(text)
            return text

    def attempt(size: int) -> None:
        if size > 1:
            raise MemoryError
        held = mmap.mmap(-1, 40_000_000)  # new pages, where a tensor may lie in ones that the process has
        for page in range(0, len(held), mmap.PAGESIZE):
            held[page] = 1
        before = len(looks)
        while len(looks) < before + 2:  # the second look begins with the memory in use
            time.sleep(0.001)
        held.close()

    monkeypatch.setattr(memory, "_PAGES", Watched())
    now = int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    message = str(too_large(torch.device("cpu"), 20, True, attempt))
    needs = re.search(r"needs about (\d+) MB, and cpu has 50 MB; train.micro_batch=1 fits", message)
    assert needs and now + 700 < float(needs[1]) < now + 900


def test_a_limit_of_the_process_is_what_there_is() -> None:
    code = (
        "import resource, torch; from canon.nn.limits import memory; from canon.training.memory import too_large;"
        "resource.setrlimit(resource.RLIMIT_AS, (9 << 30, 9 << 30)); assert memory() <= 9 << 30;"
        "print(too_large(torch.device('cpu'), 1, True, print))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert limits.memory() < 9 << 30 or "this process may have 9.7 GB" in printed


def test_nothing_is_tried_while_other_processes_wait() -> None:
    """Passes of one process alone would begin sums that the others take no part in."""

    def attempt(size: int) -> None:
        raise AssertionError

    mishap = too_large(torch.device("cpu"), 50, True, attempt, alone=False)
    assert mishap.setting == "train.micro_batch=25" and "needs about half" in str(mishap)


def test_control_groups_around_a_process_limit_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tmp_path / "cgroup"
    groups.write_text("4:memory:/jobs/7\n0::/user/one.scope\n")
    monkeypatch.setattr(limits, "_GROUPS", groups)
    files = [str(path) for path in limits._limits()]
    old, new = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
    assert files == [
        *(f"{old}{name}/memory.limit_in_bytes" for name in ("/jobs/7", "/jobs", "")),
        *(f"{new}{name}/memory.max" for name in ("/user/one.scope", "/user", "")),
    ]


def test_batches_that_cannot_be_cut_ask_for_a_smaller_batch() -> None:
    assert "choose a smaller train.batch" in str(too_large(torch.device("cpu"), 50, False, lambda size: None))
    assert "on one example" in str(too_large(torch.device("cpu"), 1, True, lambda size: None))


def test_a_run_that_does_not_fit_says_what_does_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with room for 20 examples, played by an error; in pieces the run ends as one with enough memory."""
    enough = train("digits-softmax", out=tmp_path / "enough", changes=DIGITS, quiet=True)
    plain = Gradient._pass

    def narrow(self: Gradient, phase: Any, batch: Any, *more: Any, **options: Any) -> Any:
        if len(batch["input"]) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return plain(self, phase, batch, *more, **options)

    monkeypatch.setattr(Gradient, "_pass", narrow)
    with pytest.raises(CanonError, match=r"train\.micro_batch=13 fits .* --resume --set train\.micro_batch=13$"):
        train("digits-softmax", out=tmp_path / "run", changes=DIGITS, quiet=True)
    run = train(out=tmp_path / "run", resume=True, changes={"train.micro_batch": 13}, quiet=True)
    ours, theirs = (r.result["scores"]["test"]["loss"] for r in (run, enough))
    assert ours == pytest.approx(theirs, rel=1e-5)
