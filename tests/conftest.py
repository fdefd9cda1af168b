"""What all tests share: no data sets or caches of the machine they run on, and a small terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pydoc_data import topics
from typing import NamedTuple

import pytest
from hypothesis import settings

from canon.data.catalogue import builtin, cmudict
from canon.storage import cache_folder

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

SHARE = 20  # one in so many of what built-in texts are made of


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in its own folder and sees only built-in data sets; compiled kernels are shared."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache_folder() / "kernels"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANON_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CANON_CACHE", str(tmp_path))


@cache
def _few_modules() -> list[Path]:
    return list(builtin._modules())[::SHARE]


@cache
def _few_words() -> tuple[dict[str, tuple[str, ...]], int]:
    result, left_out = cmudict.pronunciations()
    return dict(list(result.items())[::SHARE]), left_out


@pytest.fixture
def small_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in texts in small, where a few steps are made: reading and scoring all would tell nothing more."""
    modules, words = _few_modules(), _few_words()
    monkeypatch.setattr(builtin, "_modules", lambda: iter(modules))
    monkeypatch.setattr(topics, "topics", dict(sorted(topics.topics.items())[::SHARE]))
    monkeypatch.setattr(cmudict, "pronunciations", lambda: words)
    monkeypatch.setattr(cmudict, "TEST", 60)
    monkeypatch.setattr(cmudict, "VALID", 40)
    monkeypatch.setattr("canon.tasks.transduction.Transduction.risk_examples", 60)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def canon(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Runs the command line in this process: canon("train", "mlp", …)."""
    from canon.command import run

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["canon", *map(str, arguments)])
        capsys.readouterr()
        code = run()
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
