"""BM25 against bm25s: building the index, and the first 10 rows of queries, with equal scores.

    OMP_NUM_THREADS=1 python benchmarks/bm25.py [--rows 100000] [--queries 200] [--rounds 5] [--quick]

Rows are drawn: 60 words each of a vocabulary of 100,000 whose frequencies fall as 1 / rank; a query has 4 words of a
row. Both take words that are cut already, keep float32 weights, and run in one process, in turn, with one thread.
bm25s scores every row of a query and takes the first; so does canon. Target: as fast as bm25s at both.
"""

from __future__ import annotations

import importlib
import time

import numpy as np
from common import arguments, installed, interleaved, show_ratios, summary, write_result

from canon.use.search.bm25 import BM25
from canon.use.search.postings import words_of

_WORDS, _LENGTH, _TOP = 100_000, 60, 10
_NONE = np.empty(0, dtype=np.int64)


def drawn(rows: int, queries: int) -> tuple[list[str], list[str]]:
    draw = np.random.default_rng(0)
    chances = 1 / np.arange(1, _WORDS + 1)
    words = draw.choice(_WORDS, (rows, _LENGTH), p=chances / chances.sum())
    texts = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    asked = draw.integers(0, rows, queries)
    picked = [draw.choice(words[row], 4, replace=False).tolist() for row in asked]
    return texts, [" ".join(f"w{word}" for word in query) for query in picked]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.quick:
        options.rows, options.queries, options.rounds = 300, 5, 1
    texts, queries = drawn(options.rows, options.queries)
    start = time.perf_counter()
    ours = BM25.of(texts)
    built = {"canon, from texts": time.perf_counter() - start}
    calls = {"canon": lambda: ours.search(queries, _TOP, _NONE)}
    agreement = None
    if installed("bm25s"):
        bm25s = importlib.import_module("bm25s")
        start = time.perf_counter()
        theirs = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        theirs.index([words_of(text) for text in texts], show_progress=False)
        built["bm25s, from texts"] = time.perf_counter() - start
        cut = [words_of(query) for query in queries]
        calls["bm25s"] = lambda: theirs.retrieve(cut, k=_TOP, show_progress=False, n_threads=0)
        _, scores = theirs.retrieve(cut, k=_TOP, show_progress=False, n_threads=0)
        agreement = float(np.abs(np.asarray(scores) - calls["canon"]()[1]).max())
        print(f"the first {_TOP} scores differ by {agreement:.2g} at most")
    for name, seconds in built.items():
        print(f"{name:32s} {seconds:9.2f} s")
    times = summary(interleaved(calls, repeats=options.rounds))
    ratios = show_ratios(times, "bm25s" if "bm25s" in calls else "canon")
    record = {"rows": options.rows, "queries": options.queries, "build_s": built, "seconds": times, "ratios": ratios}
    write_result("bm25", {**record, "largest_difference": agreement}, options, ("numpy", "bm25s"))


if __name__ == "__main__":
    main()
