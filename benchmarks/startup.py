"""How soon the command line answers: `python benchmarks/startup.py` times `canon --help` against importing torch."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from common import arguments, interleaved, show_ratios, summary, write_result

COMMANDS = {
    "canon --help": [sys.executable, "-m", "canon", "--help"],
    "canon list systems": [sys.executable, "-m", "canon", "list", "systems"],
    "import torch": [sys.executable, "-c", "import torch"],
}


def main() -> None:
    options = arguments(__doc__).parse_args()
    calls = {name: partial(subprocess.run, line, capture_output=True, check=True) for name, line in COMMANDS.items()}
    times = summary(interleaved(calls, repeats=1 if options.quick else 10, warmup=0))
    ratios = show_ratios(times, "import torch")
    result = {"seconds": times, "times_faster_than_import_torch": ratios}
    write_result("startup", result, options, packages=("torch", "typer"))


if __name__ == "__main__":
    main()
