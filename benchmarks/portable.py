"""Runs everything that trains as other processors would: `python benchmarks/portable.py` (`make test-portable`).

Every instruction set that the machine has (its own, AVX2, SSE4) with one and with two threads, one line of result for
each; the failures are printed after it. What trains is in `WHAT`; the minutes-long are left out. Arguments go to
pytest, as in `python benchmarks/portable.py -k lenet`. `--quick` runs one file of tests with one thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, instruction_sets

WHAT = ("battery", "golden", "nn", "optim", "systems", "tasks", "training")
QUICK = "tasks/test_floors.py"


def main() -> None:
    options, others = arguments(__doc__).parse_known_args()
    tests = [str(ROOT / "tests" / name) for name in ((QUICK,) if options.quick else WHAT)]
    command = [sys.executable, "-m", "pytest", "--dist", "worksteal", "-m", "not slow", *others, *tests]
    failed = False
    for threads in (1,) if options.quick else (1, 2):  # the quicker ones first
        for name, environment in instruction_sets().items():
            # torch.compile would take what it keeps of another instruction set for its own.
            kept = str(Path(tempfile.gettempdir()) / f"torchinductor_{name}")
            settings = {**os.environ, **environment, "OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": kept}
            # Threads that wait for each other's core take many times as long: two threads, one process.
            processes = ["--numprocesses", "0" if options.quick else str(2 // threads)]
            ended = subprocess.run([*command, *processes], env=settings, cwd=ROOT, capture_output=True, text=True)
            lines = ended.stdout.splitlines()
            print(f"{name}, {threads} thread{'s' * (threads > 1)}: {lines[-1] if lines else ended.stderr}", flush=True)
            if ended.returncode:
                failed = True
                print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
