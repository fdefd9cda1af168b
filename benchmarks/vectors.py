"""Reading, writing and asking word vectors against gensim: seconds, and the most memory over that before.

    python benchmarks/vectors.py [--words 250000] [--dim 100] [--repeats 3] [--quick]

Every figure is of a process of its own, which has read ten words before (so that code is imported and compiled).
Targets: reading takes at most 1.2 × the matrix in memory; texts are read at 20 MB/s or more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from common import arguments, installed, write_result

from canon.interop.vectors_write import write

FILES = {"word2vec": "a.bin", "word2vec-text": "a.txt", "glove": "a.glove", "safetensors": "a.safetensors"}
# Run in a process of its own: `work` is measured after `warm`.
MEASURE = """
import json, sys, time
path, small = sys.argv[1:3]
def memory(name):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status[name].split()[0]) * 1024
{setup}
{warm}
before, begun = memory("VmRSS"), time.perf_counter()
{work}
seconds = time.perf_counter() - begun
print(json.dumps([seconds, memory("VmHWM") - before]))
"""
CANON = "from canon.use.vectors import Vectors\nfrom canon.interop.vectors_write import write"
GENSIM = "from gensim.models import KeyedVectors\nread = KeyedVectors.load_word2vec_format"


def cases(to: str) -> dict[str, tuple[str, str, str]]:
    """By name: what is set up, what runs before the clock, and what is measured."""
    made = {"read, canon": (CANON, "Vectors.open(small)", "table = Vectors.open(path)")}
    asked = "table.neighbors('w7'); table.neighbors('w8')"
    made["10 neighbours, canon"] = (CANON, f"table = Vectors.open(path); {asked}", "table.neighbors('w9')")
    if to != "safetensors":
        options = f"binary={to == 'word2vec'}, no_header={to == 'glove'}"
        made["read, gensim"] = (GENSIM, f"read(small, {options})", f"table = read(path, {options})")
        writing = "write({}, '" + to + "', table.words, table.matrix)"
        made["write, canon"] = (
            CANON,
            f"table, few = Vectors.open(path), Vectors.open(small); write(path + '.x', '{to}', few.words, few.matrix)",
            writing.format("path + '.out'"),
        )
    if to == "word2vec":
        asked = "table.most_similar('w7'); table.most_similar('w8')"
        made["10 neighbours, gensim"] = (GENSIM, f"table = read(path, {options}); {asked}", "table.most_similar('w9')")
        made["write, gensim"] = (
            GENSIM,
            f"table = read(path, {options}); read(small, {options}).save_word2vec_format(path + '.x', binary=True)",
            "table.save_word2vec_format(path + '.out', binary=True)",
        )
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--words", type=int, default=250_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    files = FILES
    if options.quick:
        options.words, options.dim, options.repeats, files = 100, 8, 1, {"word2vec": FILES["word2vec"]}
    with_gensim = installed("gensim")
    matrix = np.random.default_rng(0).normal(0, 0.3, (options.words, options.dim)).astype(np.float32)
    words = [f"w{row}" for row in range(options.words)]
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for to, name in files.items():
            path, small = Path(folder) / name, Path(folder) / f"small-{name}"
            write(path, to, words, matrix)
            write(small, to, words[:10], matrix[:10])
            results[to] = {}
            print(f"{to}, {path.stat().st_size / 1e6:.0f} MB")
            # Opponents take turns, so that a busy moment meets both.
            measured: dict[str, list[list[float]]] = {}
            for _ in range(options.repeats):
                for case, (setup, warm, work) in cases(to).items():
                    if setup == GENSIM and not with_gensim:
                        continue
                    code = MEASURE.format(setup=setup, warm=warm, work=work)
                    command = [sys.executable, "-c", code, str(path), str(small)]
                    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                    measured.setdefault(case, []).append(json.loads(printed.splitlines()[-1]))
            for case, rows in measured.items():
                seconds = [times[0] for times in rows]
                results[to][case] = {
                    "median_s": round(median(seconds), 4),
                    "min_s": round(min(seconds), 4),
                    "max_s": round(max(seconds), 4),
                    "megabytes_per_second": round(path.stat().st_size / 1e6 / median(seconds), 1),
                    "memory_over_matrix": round(median(times[1] for times in rows) / matrix.nbytes, 3),
                }
                row = results[to][case]
                print(
                    f"  {case:22s} {row['median_s']:8.3f} s ({row['min_s']:.3f}–{row['max_s']:.3f})"
                    f"{row['megabytes_per_second']:9.1f} MB/s  {row['memory_over_matrix']:.2f} × the matrix"
                )
    result = {"words": options.words, "dim": options.dim, "repeats": options.repeats, "results": results}
    write_result("vectors", result, options, packages=("numpy", "numba", "gensim"))


if __name__ == "__main__":
    main()
