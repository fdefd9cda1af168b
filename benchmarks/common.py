"""What every benchmark shares: arguments, fair timing, printing, the machine it ran on, and one JSON file per result.

Every benchmark has `--quick`: tiny sizes and no downloads, to check in seconds that it works; it writes nothing.
`interleaved` times several callables in turn (a, b, c, a, b, c, …), so that a busy neighbour slows all of them alike;
`write_result` stores the measurements with the machine, the date and the versions under benchmarks/results/.
Importing this module makes canon and the tests' oracles of this tree importable.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canon.training.run import Run

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SMALL = ROOT / "tests" / "battery"  # texts, pairs and labels of a few kilobytes, for --quick
sys.path.insert(0, str(ROOT))
# Environments in which a process computes like an older processor: torch, oneDNN, MKL, OpenBLAS and numba.
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


def arguments(text: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark whose docstring is `text`."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it works; writes nothing")
    return parser


def own_cache(folder: str | Path) -> dict[str, str]:
    """Environment in which canon keeps in `folder` what it makes of data; kernels compiled before are used."""
    from canon.storage import cache_folder

    kernels = os.environ.get("NUMBA_CACHE_DIR") or str(cache_folder() / "kernels")
    return {"CANON_CACHE": str(folder), "NUMBA_CACHE_DIR": kernels}


def of_a_user(**more: str) -> dict[str, str]:
    """The environment of a command as a user starts it: this tree's canon, whose compiled sources Python keeps."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPATH": str(ROOT), **more}


def installed(module: str) -> bool:
    """Whether an opponent can be imported; if not, the reason is printed."""
    try:
        importlib.import_module(module)
    except Exception as error:  # also one that is there but was built for another torch
        print(f"{module} is left out, since it cannot be imported: {error}")
        return False
    return True


def trained(folder: str | Path, recipe: str, data: str | Path, changes: Mapping[str, Any]) -> tuple[Run, float]:
    """A finished run in `folder`, without evaluations and checkpoints before its end, and the seconds of its steps."""
    from canon.training.trainer import train

    rare = {"train.evaluate_every": 1 << 40, "train.checkpoint_every": 1 << 40, "data.valid": 0.0}
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    run = train(recipe, str(data), out, changes={**rare, **changes}, quiet=True)
    return run, max(run.timings()[-1]["seconds"], 1e-3)  # which is rounded to milliseconds


def instruction_sets() -> dict[str, dict[str, str]]:
    """The environment of every instruction set of this machine: the native one, and the older ones."""
    import torch

    older = {"AVX512": ["avx2", "sse4"], "AVX2": ["sse4"]}.get(torch.backends.cpu.get_cpu_capability(), [])
    return {"native": {}, **{name: _OLDER[name] for name in older}}


def processor() -> str:
    """The processor's name, if the system reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine_record(packages: Iterable[str] = ("numpy",)) -> dict[str, Any]:
    """Processor, cores, system, Python, package versions, commit and date (UTC)."""
    versions: dict[str, str | None] = {}
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


def rates(seconds: Mapping[str, list[float]], amount: float) -> dict[str, dict[str, float]]:
    """Of `amount` done in each time: so much per second, median, least and greatest."""
    per_second = {name: [amount / value for value in values] for name, values in seconds.items()}
    return {
        name: {"median": round(statistics.median(values)), "min": round(min(values)), "max": round(max(values))}
        for name, values in per_second.items()
    }


def show_ratios(times: Mapping[str, Mapping[str, float]], against: str) -> dict[str, float]:
    """Prints each candidate's time and by how much it is faster than `against`; returns these factors."""
    base = times[against]["median_s"]
    ratios = {name: round(base / max(row["median_s"], 1e-9), 3) for name, row in times.items()}
    for name, row in times.items():
        spread = f"{row['min_s']:.4f}–{row['max_s']:.4f}"
        print(f"{name:32s} {row['median_s']:9.4f} s ({spread})   {ratios[name]:6.2f} × {against}", flush=True)
    return ratios


def write_result(
    name: str, result: Mapping[str, Any], options: argparse.Namespace, packages: Iterable[str] = ("numpy",)
) -> None:
    """Writes benchmarks/results/NAME.json: command, machine and measurements; nothing with --quick."""
    if options.quick:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    record = {"command": command, "machine": machine_record(packages), **result}
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    print(f"Written to {path}.")
