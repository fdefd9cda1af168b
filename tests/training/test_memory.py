"""A step that does not fit: one sentence with a setting that does, and the run goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from canon.errors import CanonError
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
