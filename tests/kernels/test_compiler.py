"""The cache of compiled kernels: versions that are no longer used leave it, also with several processes at work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("numba")
from canon.kernels.cpu import compiler

ROOT = Path(__file__).resolve().parents[2]


def version(folder: Path, name: str, age: float) -> Path:
    path = folder / name
    (path / "cpu_1").mkdir(parents=True)
    (path / "cpu_1" / "kernel.nbi").write_bytes(b"index")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_versions_that_rest_leave(tmp_path: Path) -> None:
    """All but the three used last, those used in the last minutes, and what is not a version."""
    current = version(tmp_path, "c" * 16, 9e9)
    used = [version(tmp_path, f"{i:016x}", 100.0 * i) for i in range(10)]
    others = [version(tmp_path, name, 9e6) for name in ("cpu_4168c7ed9ea20f22", "notes")]
    half = version(tmp_path, f".{'d' * 16}.leaving", 9e6)  # of a process that was killed
    elsewhere = version(tmp_path / "elsewhere", "e" * 16, 9e6)
    (tmp_path / ("e" * 16)).symlink_to(elsewhere)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compiler.purge, [current] * 4))
    assert [path.exists() for path in used] == [True] * 6 + [False] * 4  # 0 to 500 seconds ago
    assert current.exists() and all(path.exists() for path in others) and elsewhere.exists() and not half.exists()
    for path in used:
        os.utime(path, (0, 0)) if path.exists() else None
    compiler.purge(current)
    assert sum(path.exists() for path in used) == 3
    compiler.purge(tmp_path / "no folder" / "0")  # nothing to do


def test_a_version_is_compiled_once_and_removal_does_no_harm(tmp_path: Path) -> None:
    """A process whose version leaves in the middle compiles again; the next one finds what it left."""
    code = """
import sys, shutil
from pathlib import Path
import numpy as np
from canon.kernels.cpu import compiler, choosing
def call():
    choosing.best(0, 1, np.ones(40, np.float32), 40, np.array([3]), np.empty((1, 1), np.float32), np.empty((1, 1), int))
[folder] = Path(sys.argv[1]).glob("kernels/*")
if sys.argv[2] == "remove":
    shutil.rmtree(folder)
call()
print(len(list(folder.rglob("*.nbc"))), sum(choosing.best.stats.cache_hits.values()))
"""
    given = {**os.environ, "PYTHONPATH": str(ROOT), "CANON_CACHE": str(tmp_path)}
    given.pop("NUMBA_CACHE_DIR", None)
    counts = []
    for way in ("remove", "use"):
        run = [sys.executable, "-c", code, str(tmp_path), way]
        done = subprocess.run(run, env=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        counts.append(done.stdout.split())
    assert counts == [["1", "0"], ["1", "1"]]
