"""Both AUC forms against scikit-learn's roc_auc_score on ten million scores, in one process.

    python benchmarks/auc.py [--n 10000000] [--repeats 5] [--quick]

Targets: each form under 3 s and at most 1.5 × scikit-learn's time, on two cores.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from common import arguments, interleaved, show_ratios, summary, write_result
from sklearn.metrics import roc_auc_score

from canon.metrics import auc_by_pairs, auc_by_ranks


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.quick:
        options.n, options.repeats = 10_000, 1

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, options.n)
    score64 = rng.normal(size=options.n) + 0.5 * labels
    cases = {
        "float64": (labels, score64),
        "float32": (labels, score64.astype(np.float32)),
        "float64, rounded to 2 digits (heavy ties)": (labels, np.round(score64, 2)),
        "float64, 1 % positive": ((rare := (rng.random(options.n) < 0.01).astype(np.int64)), score64 + rare),
    }
    results = {}
    for case, (y, s) in cases.items():
        candidates = {
            "auc_by_pairs": partial(auc_by_pairs, y, s),
            "auc_by_ranks": partial(auc_by_ranks, y, s),
            "scikit-learn": partial(roc_auc_score, y, s),
        }
        values = {name: float(call()) for name, call in candidates.items()}
        times = summary(interleaved(candidates, repeats=options.repeats, warmup=0))
        print(case)
        results[case] = {
            "seconds": times,
            "times_as_fast_as_scikit_learn": show_ratios(times, "scikit-learn"),
            "values": values,
            "forms_differ_by": abs(values["auc_by_pairs"] - values["auc_by_ranks"]),
            "differs_from_scikit_learn_by": abs(values["auc_by_pairs"] - values["scikit-learn"]),
        }
    result = {"n": options.n, "repeats": options.repeats, "results": results}
    write_result("auc", result, options, packages=("numpy", "scikit-learn"))


if __name__ == "__main__":
    main()
