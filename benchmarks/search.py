"""The time of one query through a pipeline: recall, features, ranker, later steps; and what its parts take.

    OMP_NUM_THREADS=1 python benchmarks/search.py [--items 100000] [--queries 200] [--run FOLDER] [--quick]

Building and answering are processes apart, whose most memory is kept; sizes measured before stay in the file.
Without --run, a pipeline over drawn documents: words whose frequencies fall as 1 / rank, 8 of a title and 40 of a body,
a price and a kind. BM25 over all fields and over titles, then a filter, MMR over 50 and a cap; no ranker. --run takes a
pipeline that was built, with its ranker, as runs/pydocs, and asks queries made of its titles. Target: 20 ms at p50.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, arguments, machine_record, write_result

from canon.use.pipeline.pipeline import Pipeline

_WORDS = 50_000
_AT_ONCE = 10_000  # documents that are drawn together
_RECIPE = """
[documents]
source = "{documents}"
[[recall]]
name = "bm25"
top = 100
[[recall]]
name = "bm25"
field = "title"
top = 50
[[rerank]]
name = "filter"
when = "price > 5"
[[rerank]]
name = "mmr"
[[rerank]]
name = "cap"
by = "kind"
most = 3
"""


def drawn(folder: Path, items: int) -> Path:
    draw = np.random.default_rng(0)
    chances = 1 / np.arange(1, _WORDS + 1)
    with (folder / "documents.jsonl").open("w") as file:
        for number in range(items):
            if number % _AT_ONCE == 0:
                rows = draw.choice(_WORDS, (_AT_ONCE, 48), p=chances / chances.sum()).tolist()
            texts = [f"w{word}" for word in rows[number % _AT_ONCE]]
            cells = {"title": " ".join(texts[:8]), "body": " ".join(texts[8:]), "price": number % 100}
            file.write(json.dumps({"id": f"d{number}", **cells, "kind": f"k{number % 40}"}) + "\n")
    (folder / "drawn.toml").write_text(_RECIPE.format(documents=folder / "documents.jsonl"))
    return folder / "drawn.toml"


def built_alone(recipe: Path, path: Path) -> dict[str, float]:
    """Builds a pipeline in a process of its own, and returns what that took."""
    subprocess.run(
        [sys.executable, "-m", "canon", "train", str(recipe), "--out", str(path), "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"processor_seconds": used.ru_utime + used.ru_stime, "memory_mb": round(used.ru_maxrss / 1024)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--run", default="")
    options = parser.parse_args()
    if options.quick:
        options.items, options.queries = 300, 5
    with tempfile.TemporaryDirectory() as folder:
        path, built = Path(options.run), dict[str, float]()
        if not options.run:
            path = Path(folder) / "run"
            built = built_alone(drawn(Path(folder), options.items), path)
            print(f"built in {built['processor_seconds']:.1f} s of a processor, {built['memory_mb']:,} MB at most")
        start = time.perf_counter()
        pipeline = Pipeline.open(path)
        opened = time.perf_counter() - start
        draw = np.random.default_rng(1)
        titles = pipeline.rows.columns["title"]
        queries = [" ".join(str(titles[doc]).split()[:4]) for doc in draw.integers(0, len(titles), options.queries)]
        queries = [query for query in queries if query.strip()]
        pipeline.search(queries[:3])
        clocks = {"": time.perf_counter, ", processor time": time.process_time}
        calls: dict[str, Callable[[list[str]], Any]] = {"whole": pipeline.search, "recall alone": pipeline.candidates}
        spent: dict[str, list[float]] = {f"{call}{clock}": [] for call in calls for clock in clocks}
        for query in queries:
            for call, ask in calls.items():
                starts = {clock: read() for clock, read in clocks.items()}
                ask([query])
                for clock, read in clocks.items():
                    spent[f"{call}{clock}"].append(read() - starts[clock])
        count = len(pipeline.rows)
    milliseconds = {
        name: {f"p{p}": round(1000 * float(np.percentile(times, p)), 2) for p in (50, 95, 99)}
        for name, times in spent.items()
    }
    print(f"{count:,} documents, opened in {opened:.2f} s, {len(queries)} queries of 4 words")
    for name, row in milliseconds.items():
        print(f"{name:30s} " + "   ".join(f"{key} {value:8.2f} ms" for key, value in row.items()))
    memory = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"{memory:,} MB at most to answer")
    facts = {"documents": count, "opened_s": opened, "milliseconds": milliseconds, "memory_mb": memory, "built": built}
    kept = RESULTS / "search.json"
    sizes = json.loads(kept.read_text()).get("sizes", {}) if kept.exists() and not options.quick else {}
    machine = machine_record()
    facts |= {name: machine[name] for name in ("date", "load_average_1min")}
    write_result("search", {"sizes": {**sizes, str(count): facts}}, options)


if __name__ == "__main__":
    main()
