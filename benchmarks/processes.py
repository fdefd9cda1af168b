"""Several processes of torchrun against one, at one thread each and the same global batch:
`python benchmarks/processes.py [--processes N] [--parallel ddp|fsdp] [--steps N] [--repeats N] [--quick]`.

GPT-2 with 4 blocks of 512 features on canon's own source of text, 16 sequences of 128 tokens a step, float32 on CPU
cores with gloo. Rates are those of the runs' own timing.jsonl, from the first logged step to the last; processes take
turns with one, so that a busy machine slows all alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, own_cache, write_result

CHANGES = {
    "system.name": "gpt2:tiny",
    "system.dim": 512,
    "system.num_layers": 4,
    "system.num_heads": 8,
    "system.hidden": 2048,
    "data.max_length": 127,
    "data.vocab_size": 4000,
    "train.batch": 16,
    "train.device": "cpu",
    "train.threads": 1,
    "train.evaluate_every": 1 << 40,
    "train.checkpoint_every": 1 << 40,
}
QUICK = {"system.dim": 32, "system.num_layers": 2, "system.num_heads": 2, "system.hidden": 64, "data.max_length": 16}


def rate(folder: Path, count: int, changes: dict[str, object], data: str) -> float:
    """Steps per second of a training by so many processes."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    launch = [sys.executable, "-m"]
    if count > 1:
        launch += ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m"]
    flags = [word for key, value in changes.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, **own_cache(folder / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    command = [*launch, "canon", "train", "pretrained/gpt2", "--out", str(out), *(["--data", data] if data else [])]
    done = subprocess.run([*command, *flags], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    rows = [json.loads(line) for line in (out / "timing.jsonl").read_text().splitlines()]
    return (rows[-1]["step"] - rows[0]["step"]) / max(rows[-1]["seconds"] - rows[0]["seconds"], 1e-9)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    changes = {**CHANGES, "train.parallel": options.parallel, "train.steps": options.steps, "train.log_every": 5}
    data = ""
    if options.quick:
        options.repeats, data = 1, str(ROOT / "tests" / "battery" / "documents.txt")
        changes |= {**QUICK, "train.steps": 4, "train.log_every": 1, "train.batch": 4, "data.tokenizer": "word"}
    rates: dict[int, list[float]] = {1: [], options.processes: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            for count in rates:
                rates[count].append(rate(Path(folder), count, changes, data))
    medians = {count: statistics.median(values) for count, values in rates.items()}
    for count, values in rates.items():
        spread = f"{min(values):.2f}–{max(values):.2f}"
        print(f"{count} process{'es' * (count > 1)}: {medians[count]:.2f} steps/s ({spread})")
    ratio = medians[options.processes] / medians[1]
    print(f"{options.parallel}: {ratio:.2f} × one process")
    result = {"parallel": options.parallel, "steps_per_second": rates, "ratio": round(ratio, 3), "changes": changes}
    write_result(f"processes-{options.parallel}", result, options, ("torch",))


if __name__ == "__main__":
    main()
