"""The time of one query through a pipeline: recall, features, ranker, later steps; and what its parts take.

    OMP_NUM_THREADS=1 python benchmarks/search.py [--items 100000] [--queries 200] [--run FOLDER] [--quick]

Without --run, a pipeline over drawn documents: words whose frequencies fall as 1 / rank, 8 of a title and 40 of a body,
a price and a kind. BM25 over all fields and over titles, then a filter, MMR over 50 and a cap; no ranker. --run takes a
pipeline that was built, with its ranker, as runs/pydocs, and asks queries made of its titles. Target: 20 ms at p50.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from common import arguments, write_result

from canon.use.pipeline.build import build
from canon.use.pipeline.pipeline import Pipeline

_WORDS = 50_000
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
    words = draw.choice(_WORDS, (items, 48), p=chances / chances.sum())
    with (folder / "documents.jsonl").open("w") as file:
        for number, row in enumerate(words.tolist()):
            texts = [f"w{word}" for word in row]
            cells = {"title": " ".join(texts[:8]), "body": " ".join(texts[8:]), "price": number % 100}
            file.write(json.dumps({"id": f"d{number}", **cells, "kind": f"k{number % 40}"}) + "\n")
    (folder / "drawn.toml").write_text(_RECIPE.format(documents=folder / "documents.jsonl"))
    return folder / "drawn.toml"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--run", default="")
    options = parser.parse_args()
    if options.quick:
        options.items, options.queries = 300, 5
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.run)
        if not options.run:
            path, _ = build(str(drawn(Path(folder), options.items)), Path(folder) / "run", False, {}, True)
        start = time.perf_counter()
        pipeline = Pipeline.open(path)
        opened = time.perf_counter() - start
        draw = np.random.default_rng(1)
        titles = pipeline.rows.columns["title"]
        queries = [" ".join(str(titles[doc]).split()[:4]) for doc in draw.integers(0, len(titles), options.queries)]
        queries = [query for query in queries if query.strip()]
        pipeline.search(queries[:3])
        whole, recall = [], []
        for query in queries:
            start = time.perf_counter()
            pipeline.candidates([query])
            recall.append(time.perf_counter() - start)
            start = time.perf_counter()
            pipeline.search([query])
            whole.append(time.perf_counter() - start)
        count = len(pipeline.rows)
    milliseconds = {
        name: {f"p{p}": round(1000 * float(np.percentile(times, p)), 2) for p in (50, 95, 99)}
        for name, times in (("whole", whole), ("recall alone", recall))
    }
    print(f"{count:,} documents, opened in {opened:.2f} s, {len(queries)} queries of 4 words")
    for name, row in milliseconds.items():
        print(f"{name:16s} " + "   ".join(f"{key} {value:8.2f} ms" for key, value in row.items()))
    write_result("search", {"documents": count, "opened_s": opened, "milliseconds": milliseconds}, options)


if __name__ == "__main__":
    main()
