"""What all tests share: no data sets or caches of the machine they run on, and a small terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in its own folder and sees only built-in data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANON_DATA", str(tmp_path / "data"))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def canon(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Runs the command line in this process: canon("train", "mlp", …)."""
    from canon.cli import main

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["canon", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
