"""What every benchmark shares: the machine it ran on, fair timing, and one JSON file per result.

`interleaved` times several callables in turn (a, b, c, a, b, c, …), so that a busy neighbour slows all of them alike;
`write_result` stores what was measured with the machine, the date and the versions under benchmarks/results/.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# Environments by which a process calculates as an older processor does: torch, oneDNN, MKL, OpenBLAS and numba.
_OLDER = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",
    },
    "sse4": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "generic",
    },
}


def instruction_sets() -> dict[str, dict[str, str]]:
    """The environment of every instruction set that this machine has: its own, and what is older."""
    import torch

    older = {"AVX512": ["avx2", "sse4"], "AVX2": ["sse4"]}.get(torch.backends.cpu.get_cpu_capability(), [])
    return {"native": {}, **{name: _OLDER[name] for name in older}}


def processor() -> str:
    """The processor's own name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine_record(packages: Iterable[str] = ("numpy",)) -> dict[str, Any]:
    """Processor, cores, system, Python, package versions, commit and date (UTC)."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit or None,
    }


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], *, repeats: int = 5, warmup: int = 1
) -> dict[str, list[float]]:
    """Seconds of every call, by name; candidates take turns, after `warmup` untimed rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(warmup + repeats):
        for name, call in candidates.items():
            gc.collect()
            start = time.perf_counter()
            call()
            spent = time.perf_counter() - start
            if turn >= warmup:
                seconds[name].append(spent)
    return seconds


def summary(seconds: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median, least and greatest of each candidate's times."""
    return {
        name: {
            "median_s": round(statistics.median(values), 4),
            "min_s": round(min(values), 4),
            "max_s": round(max(values), 4),
        }
        for name, values in seconds.items()
    }


def write_result(name: str, result: Mapping[str, Any], *, command: str, packages: Iterable[str] = ("numpy",)) -> Path:
    """benchmarks/results/NAME.json: the command, the machine, then what was measured."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"command": command, "machine": machine_record(packages), **result}
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path
