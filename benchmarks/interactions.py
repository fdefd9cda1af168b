"""Reading ten million interactions, and what memory it takes: `python benchmarks/interactions.py [--events N]`.

A CSV of user, item, rating and time, 200,000 users and 50,000 items, popular ones more often. A process alone reads
it, and reports its seconds, the seconds of its processor and the most memory that it had; another splits it, leave one
out, and encodes it too. Target: 30 seconds and 1 GB to read it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, write_result

_USERS, _ITEMS = 200_000, 50_000
_CHILD = """
import json, resource, sys, time
begin = time.perf_counter()
from canon.data.config import DataConfig
from canon.data.encodings import EVENTS
from canon.data.encodings.base import Ask
from canon.data.kinds.interactions import INTERACTIONS
from canon.data.targets import Nothing
config = DataConfig(source=sys.argv[1])
source = INTERACTIONS.source(config)
count = len(source.parts["train"])
if sys.argv[2] == "encoded":
    count = sum(len(columns["input"]) for columns in EVENTS.fit(source, config, Ask((Nothing,))).splits.values())
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "rows": count, "seconds": round(time.perf_counter() - begin, 2),
    "processor_seconds": round(used.ru_utime + used.ru_stime, 2), "memory_mb": round(used.ru_maxrss / 1024),
}))
"""


def write(path: Path, events: int) -> None:
    draw = np.random.default_rng(0)
    users, items = min(_USERS, events // 20), min(_ITEMS, events // 20)
    with path.open("w") as file:
        file.write("user,item,rating,timestamp\n")
        for start in range(0, events, 100_000):
            size = min(100_000, events - start)
            columns = (
                draw.integers(0, users, size), (items * draw.random(size) ** 2).astype(np.int64),
                draw.integers(1, 6, size), 978_300_000 + draw.integers(0, 10**8, size),
            )  # fmt: skip
            file.writelines(f"u{u},i{i},{r},{t}\n" for u, i, r, t in zip(*(c.tolist() for c in columns), strict=True))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.quick:
        options.events = 20_000
    result: dict[str, Any] = {"events": options.events}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        write(path, options.events)
        result["bytes"] = path.stat().st_size
        for what in ("read", "encoded"):
            done = subprocess.run([sys.executable, "-c", _CHILD, str(path), what], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            result[what] = json.loads(done.stdout.splitlines()[-1])
            print(what, result[what], flush=True)
    write_result("interactions", result, options, packages=("numpy", "pyarrow"))


if __name__ == "__main__":
    main()
