"""Both AUC forms against scikit-learn's roc_auc_score on ten million scores, in one process.

    python benchmarks/auc.py [--n 10000000] [--repeats 5]

Targets: each form under 3 s and at most 1.5 × scikit-learn's time, on two cores.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import interleaved, summary, write_result
from sklearn.metrics import roc_auc_score

from canon.metrics import auc_by_pairs, auc_by_ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

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
            "auc_by_pairs": lambda y=y, s=s: auc_by_pairs(y, s),
            "auc_by_ranks": lambda y=y, s=s: auc_by_ranks(y, s),
            "scikit-learn": lambda y=y, s=s: roc_auc_score(y, s),
        }
        values = {name: float(call()) for name, call in candidates.items()}
        times = summary(interleaved(candidates, repeats=options.repeats, warmup=0))
        theirs = times["scikit-learn"]["median_s"]
        ratios = {form: round(times[form]["median_s"] / theirs, 3) for form in ("auc_by_pairs", "auc_by_ranks")}
        results[case] = {
            "seconds": times,
            "ratio_to_scikit_learn": ratios,
            "values": values,
            "forms_differ_by": abs(values["auc_by_pairs"] - values["auc_by_ranks"]),
            "differs_from_scikit_learn_by": abs(values["auc_by_pairs"] - values["scikit-learn"]),
        }
        print(case)
        for name, time in times.items():
            ratio = f"  {ratios[name]:.2f} × scikit-learn" if name in ratios else ""
            print(f"  {name:14s} {time['median_s']:.2f} s ({time['min_s']:.2f}–{time['max_s']:.2f}){ratio}")
    path = write_result(
        "auc",
        {"n": options.n, "repeats": options.repeats, "results": results},
        command="python benchmarks/auc.py",
        packages=("numpy", "scikit-learn"),
    )
    print(f"written to {path}")


if __name__ == "__main__":
    main()
