"""Measures what recipes reach and writes it into them: `python benchmarks/expect.py [RECIPE …] [--seeds 5]`.

The final figures are the mean ± 3 standard deviations over the seeds; the curve is the least and the greatest over the
seeds at ten of the run's evaluations. What a recipe says it reaches is therefore always something that was printed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from pathlib import Path

import tomli_w

from canon import recipe as recipes
from canon.training.run import Run
from canon.training.trainer import train

_POINTS = 10


def measure(name: str, seeds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for seed in range(seeds):
            out = Path(folder) / str(seed)
            runs.append(train(name, out=out, changes={"train.seed": seed}, quiet=True))
            print(name, seed, runs[-1].result["scores"]["test"], flush=True)
        expect: dict[str, object] = {}
        for metric in runs[0].result["scores"]["test"]:
            values = [run.result["scores"]["test"][metric] for run in runs]
            spread = 3 * statistics.stdev(values)
            expect[f"test/{metric}"] = [_short(statistics.mean(values) - spread), _short(statistics.mean(values) + spread)]
        return {**expect, "curve": _curve(runs)}


def _curve(runs: list[Run]) -> dict[str, list[list[float]]]:
    rows = [run.metrics() for run in runs]
    evaluated = [row["step"] for row in rows[0] if "valid/loss" in row]
    logged = [row["step"] for row in rows[0] if "train/loss" in row or "train/weighted_error" in row]
    curve = {}
    for prefix, steps in (("train/", logged), ("valid/", evaluated)):
        chosen = steps[:: max(1, len(steps) // _POINTS)]
        names = [n for n in ("train/loss", "train/weighted_error", "valid/accuracy") if n.startswith(prefix)]
        for name in names:
            points = [[s, *_range([_at(own, s, name) for own in rows])] for s in chosen if _at(rows[0], s, name) is not None]
            if points:
                curve[name] = points
    return curve


def _at(rows: list[dict[str, float]], step: float, name: str) -> float | None:
    return next((row[name] for row in rows if row["step"] == step and name in row), None)


def _range(values: list[float]) -> list[float]:
    return [_short(min(values)), _short(max(values))]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def write(name: str, expect: dict[str, object]) -> None:
    path = recipes.RECIPES / f"{name}.toml"
    kept = re.split(r"\n+(?=\[expect)", path.read_text(), maxsplit=1)[0].rstrip()
    text = tomli_w.dumps({"expect": expect}).replace("[\n    ", "[").replace(",\n]", "]").replace(",\n    ", ", ")
    text = re.sub(r"\[\s*\n\s*", "[", text).replace(",\n    ]", "]").replace(",\n        ", ", ").replace(",\n]", "]")
    path.write_text(f"{kept}\n\n{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=recipes.names())
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.recipes:
        write(name, measure(name, arguments.seeds))


if __name__ == "__main__":
    main()
