"""GloVe against Stanford's program: counting and training on the same text with the same settings, side by side.

    CANON_DATA=… python benchmarks/glove.py --stanford FOLDER [--epochs 15] [--seeds 3] [--dim 100] [--words N]

FOLDER holds vocab_count, cooccur, shuffle and glove as built from github.com/stanfordnlp/GloVe by its Makefile.
The text is wiki-words as one line; min count 5, window 15, x_max 10 (as its demo for a text of this kind), rate 0.05,
two threads. Both sides start from the text file and end with vectors on disk, in processes of their own, in turn, once
for each seed; canon's is `canon train glove` with an empty cache, its start and the reading of compiled kernels among
the time. Counts are compared entry by entry, losses epoch by epoch (Stanford prints half of ours), and vectors by
WordSim-353, SimLex-999 and analogies. Targets: 1.5 × in total, quality equal within noise; two threads 1.8 × one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, own_cache, write_result
from wiki_words import Text, judged, write_text

from canon.data.corpus.cooccurrence import ENTRY
from canon.data.formats.word_tests import Tests
from canon.training.run import Run
from canon.use.vectors import Vectors

THREADS, WINDOW, MIN_COUNT, X_MAX, BATCH = 2, 15, 5, 10, 500_000
RECORD = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f8")])  # Stanford's, words counted from 1


def timed(command: list[str], folder: Path, source: Path | None = None, target: Path | None = None) -> dict[str, Any]:
    """Seconds and peak memory of a process, and what it said."""
    with (
        (source or Path(os.devnull)).open("rb") as given,
        (target or Path(os.devnull)).open("wb") as taken,
        (folder / "said.txt").open("wb") as said,
    ):
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=taken,
            stderr=said,
            cwd=folder,
            env={**os.environ, **own_cache(folder)},
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    printed = (folder / "said.txt").read_text(errors="replace")
    if status:
        raise SystemExit(f"{command[0]} failed:\n{printed[-2000:]}")
    return {"seconds": seconds, "memory_mb": used.ru_maxrss >> 10, "said": printed}


def stanford(programs: Path, text: Text, folder: Path, seed: int, epochs: int, dim: int) -> dict[str, Any]:
    folder.mkdir()
    vocab, counts, shuffled = (folder / name for name in ("vocab.txt", "counts.bin", "shuffled.bin"))
    run = lambda name, *more, **files: timed([str(programs / name), *map(str, more)], folder, **files)  # noqa: E731
    stages = {
        "words": run("vocab_count", "-min-count", MIN_COUNT, "-verbose", 0, source=text.path, target=vocab),
        "counting": run(
            "cooccur", "-vocab-file", vocab, "-window-size", WINDOW, "-memory", 4, "-verbose", 0,
            source=text.path, target=counts,
        ),
        "shuffling": run("shuffle", "-memory", 4, "-seed", seed, "-verbose", 0, source=counts, target=shuffled),
        "training": run(
            "glove", "-input-file", shuffled, "-vocab-file", vocab, "-save-file", folder / "vectors", "-seed", seed,
            "-threads", THREADS, "-iter", epochs, "-vector-size", dim, "-x-max", X_MAX, "-eta", 0.05,
        ),
    }  # fmt: skip
    shuffled.unlink()
    losses = [2 * float(cost) for cost in re.findall(r"cost: (\S+)", stages["training"]["said"])]
    words, rows = [], []
    for line in (folder / "vectors.txt").read_text(encoding="utf-8").splitlines():
        word, *numbers = line.split(" ")
        if word != "<unk>":
            words.append(word)
            rows.append(np.array(numbers, dtype=np.float32))
    return summarized(stages, losses, words, np.stack(rows), text.tests)


def ours(text: Text, folder: Path, seed: int, epochs: int, dim: int, threads: int = THREADS) -> dict[str, Any]:
    folder.mkdir()
    settings = {
        "system.dim": dim, "system.window": WINDOW, "system.x_max": float(X_MAX), "data.min_count": MIN_COUNT,
        "data.tokenizer": "split", "data.lowercase": "false", "data.valid": 0.0, "data.test": 0.0,
        "train.epochs": epochs, "train.batch": BATCH, "train.threads": threads, "train.seed": seed,
        "train.log_every": 1, "train.checkpoint_every": 1 << 30, "train.evaluate_every": 1 << 30,
    }  # fmt: skip
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "canon", "train", "glove", "--data", str(text.path), "--out", f"{folder}/run"]
    whole = timed([*command, *sets], folder)
    run = Run(folder / "run")
    assert run.result is not None
    training = {**whole, "seconds": run.result["cost"]["seconds"]}
    stages = {"words, counting, start": {**whole, "seconds": whole["seconds"] - training["seconds"]}}
    steps: list[list[float]] = [[] for _ in range(epochs)]
    for row in run.metrics():
        if "train/loss" in row:
            steps[min(int(row["epoch"] - 1e-6), epochs - 1)].append(row["train/loss"])
    vectors = Vectors.open(folder / "run")
    losses = [statistics.mean(step) for step in steps]
    return summarized({**stages, "training": training}, losses, list(vectors.words), vectors.matrix, text.tests)


def summarized(
    stages: dict[str, Any], losses: list[float], words: list[str], matrix: np.ndarray, tests: Tests
) -> dict[str, Any]:
    seconds = {name: round(stage["seconds"], 2) for name, stage in stages.items()}
    return {
        "seconds": {**seconds, "total": round(sum(seconds.values()), 2)},
        "memory_mb": max(stage["memory_mb"] for stage in stages.values()),
        "losses": [round(loss, 6) for loss in losses],
        "scores": judged(matrix, words, tests),
        "words": len(words),
    }


def compare_counts(theirs: Path, own: Path) -> dict[str, Any]:
    """Entry by entry: the same pairs, and the greatest difference of two counts, relative."""
    full = np.fromfile(theirs, RECORD)
    full = full[full["row"] >= full["column"]]
    entries = np.fromfile(own, ENTRY)
    entries = entries[np.lexsort((entries["column"], entries["row"]))]
    same = len(full) == len(entries) and all(np.array_equal(full[key] - 1, entries[key]) for key in ("row", "column"))
    difference = float(np.abs(entries["count"] / full["count"] - 1).max()) if same else None
    return {"pairs": len(entries), "same_pairs": bool(same), "greatest_relative_difference": difference}


def middle(runs: list[dict[str, Any]], part: str, name: str) -> float:
    return statistics.median(run[part][name] for run in runs)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--stanford", type=Path, help="folder of the built programs")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--words", type=int, default=0, help="of the text, from its beginning; 0: all")
    options = parser.parse_args()
    if options.quick:
        options.epochs, options.seeds, options.dim = 2, 1, 8
    elif not options.stanford:
        parser.error("name the folder of Stanford's programs: --stanford FOLDER")
    if not options.stanford:
        print("Stanford's programs are left out, since --stanford does not say where they are.")

    runs: dict[str, list[dict[str, Any]]] = {}
    counts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_text(folder, options)
        text.path.write_text(" ".join(text.path.read_text().split()))  # one line: contexts run over its ends
        if not options.quick:
            ours(text, folder / "compile", 0, 1, options.dim)  # the compiled kernels are then in numba's cache
        for seed in range(1, options.seeds + 1):
            sizes = (seed, options.epochs, options.dim)
            if options.stanford:
                theirs = stanford(options.stanford.resolve(), text, folder / f"stanford-{seed}", *sizes)
                runs.setdefault("stanford", []).append(theirs)
            runs.setdefault("canon", []).append(ours(text, folder / f"canon-{seed}", *sizes))
            if seed == 1 and options.stanford:
                (own,) = (folder / "canon-1" / "corpora").glob("pairs-*/entries.bin")
                counts = compare_counts(folder / "stanford-1" / "counts.bin", own)
                print(json.dumps(counts))
            for side, rows in runs.items():
                shown = {key: rows[-1][key] for key in ("seconds", "scores")}
                print(f"{side:9} seed {seed}", json.dumps(shown), flush=True)
                print(f"{'':9} loss by epoch", *rows[-1]["losses"], flush=True)
                shutil.rmtree(folder / f"{side}-{seed}")
        alone = 0.0 if options.quick else ours(text, folder / "alone", 1, 2, options.dim, 1)["seconds"]["training"] / 2
    ratios = ratios_of(runs, alone * options.epochs)
    for name, ratio in ratios.items():
        print(f"{name:24} {ratio:6.2f} ×{'' if '/' in name else ' Stanford'}")
    tests = [*runs["canon"][0]["scores"]]
    quality = {test: {side: [run["scores"][test] for run in rows] for side, rows in runs.items()} for test in tests}
    quality["last loss"] = {side: [run["losses"][-1] for run in rows] for side, rows in runs.items()}
    for test, sides in quality.items():
        line = "   ".join(
            f"{side} {statistics.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"
            for side, values in sides.items()
        )
        print(f"{test:20} {line}")
    settings = {"epochs": options.epochs, "dim": options.dim, "threads": THREADS, "window": WINDOW, "x_max": X_MAX}
    result = {"settings": settings, "counts": counts, "ratios": ratios, "quality": quality, "runs": runs}
    write_result("glove", result, options, packages=("numpy", "numba"))


def ratios_of(runs: dict[str, list[dict[str, Any]]], alone: float) -> dict[str, float]:
    """Stanford's medians / canon's, and one thread's seconds of training (0: not measured) / two threads'."""
    canons, stanfords = runs["canon"], runs.get("stanford", [])
    ratios = {f"training, {THREADS} threads / 1": alone / middle(canons, "seconds", "training")} if alone else {}
    if stanfords:
        before = [name for name in stanfords[0]["seconds"] if name not in ("training", "total")]
        counting = sum(middle(stanfords, "seconds", name) for name in before)
        ratios["words and counting"] = counting / middle(canons, "seconds", "words, counting, start")
        for part in ("total", "training"):
            ratios[part] = middle(stanfords, "seconds", part) / middle(canons, "seconds", part)
    return {name: round(ratio, 2) for name, ratio in ratios.items()}


if __name__ == "__main__":
    main()
