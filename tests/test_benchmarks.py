"""Every benchmark runs: `--quick` ends well, prints something and leaves the stored results as they are; the files that
benchmarks name are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
BENCHMARKS = [path for path in sorted(FOLDER.glob("*.py")) if "\nif __name__ ==" in path.read_text(encoding="utf-8")]
SLOW = {"faults", "kernels", "mutants", "portable"}  # they run tests, dozens of trainings, or commands without kernels
# Some ten seconds each, with opponents to load; `make check` has their types.
SLOW |= {"attention_memory", "decoding", "embedding", "encoding", "end_to_end", "gpt2_generation", "processes"}
SLOW |= {"prompting", "vectors", "word2vec_gpu"}


def by_length(path: Path) -> object:
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


def results() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (FOLDER / "results").iterdir()}


@pytest.mark.parametrize("path", [by_length(path) for path in BENCHMARKS])
def test_quick(path: Path) -> None:
    before = results()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, path, "--quick"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert results() == before


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_named_files_are_there(path: Path) -> None:
    names = re.findall(r"\b(?:canon|tests)/[^\s{\"`:,]*\.\w+", path.read_text(encoding="utf-8"))
    assert [name for name in names if not list(ROOT.glob(name))] == []
