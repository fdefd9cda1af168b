"""How soon the command line answers: `python benchmarks/startup.py` times `canon --help` against importing torch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from common import write_result

COMMANDS = {
    "canon --help": [sys.executable, "-m", "canon", "--help"],
    "canon list systems": [sys.executable, "-m", "canon", "list", "systems"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(10):
        for name, command in COMMANDS.items():
            begun = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - begun)
    medians = {name: round(statistics.median(values), 4) for name, values in seconds.items()}
    ratios = {name: round(medians["import torch"] / value, 2) for name, value in medians.items()}
    for name, value in medians.items():
        print(f"{name:20s} {1000 * value:7.1f} ms   {ratios[name]:.1f}× as fast as importing torch")
    result = {"median_s": medians, "times_faster_than_import_torch": ratios}
    write_result("startup", result, command="python benchmarks/startup.py", packages=("torch", "typer"))


if __name__ == "__main__":
    main()
