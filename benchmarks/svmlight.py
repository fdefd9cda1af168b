"""Reading LETOR's lines against scikit-learn's load_svmlight_file: `python benchmarks/svmlight.py [--documents N]`.

A file of N documents with 46 features each of six digits, as MQ2008 has them, ten documents of a query, with the
document's name in a comment. Both give the same dense matrix, grades and queries, which is checked; they take turns.
Target: five times as fast.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from common import arguments, interleaved, show_ratios, summary, write_result
from sklearn.datasets import load_svmlight_file

from canon.data.formats.letor import read_letor

_FEATURES, _EACH = 46, 10


def write(path: Path, documents: int) -> None:
    draw = np.random.default_rng(0)
    with path.open("w") as file:
        for start in range(0, documents, 10_000):
            values = draw.random((min(10_000, documents - start), _FEATURES))
            for place, row in enumerate(values.tolist(), start=start):
                cells = " ".join(f"{number}:{value:.6f}" for number, value in enumerate(row, 1))
                file.write(f"{place % 3} qid:{place // _EACH} {cells} #docid = GX{place:09d} inc = 1 prob = 0.1\n")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.quick:
        options.documents, options.repeats = 2_000, 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write(path, options.documents)
        rows, _ = read_letor(path)
        values, grades, queries = load_svmlight_file(str(path), query_id=True)
        assert np.array_equal(rows.values, values.toarray().astype(np.float32))
        assert np.array_equal(rows.grades, grades) and np.array_equal(
            np.repeat(rows.queries, rows.sizes).astype(np.int64), queries
        )
        calls = {
            "canon": lambda: read_letor(path),
            "scikit-learn": lambda: load_svmlight_file(str(path), query_id=True)[0].toarray(),
        }
        times = summary(interleaved(calls, repeats=options.repeats))
        size = path.stat().st_size
    ratios = show_ratios(times, "scikit-learn")
    facts = {"documents": options.documents, "features": _FEATURES, "bytes": size, "times": times, "ratios": ratios}
    write_result("svmlight", facts, options, packages=("numpy", "numba", "scikit-learn"))


if __name__ == "__main__":
    main()
