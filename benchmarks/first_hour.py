"""The first command on somebody's data beside ten lines of scikit-learn: `canon train PATH`, no settings.

    CANON_DATA=… python benchmarks/first_hour.py [--only NAME …] [--out FOLDER] [--quick]

Each row is one data set as a user has it, a file or folder: what canon chose to train, its score on the test part, the
score of the baseline (benchmarks/baselines.py) on the same rows, and the seconds of the whole command. Runs are kept in
--out and used as they are if they are finished.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import baselines
from common import ROOT, SMALL, arguments, write_result

from canon.data.formats.word_tests import read_tests
from canon.use.model import load

TEST = "wordsim353"  # how similar people find two words


class Case(NamedTuple):
    make: Callable[[Path], Path]  # the data, as a user has it; a folder to write to is given
    metric: str
    baseline: Callable[[Path, Path], float | None]  # of the data and of the run


def shared(place: str) -> Callable[[Path], Path]:
    return lambda _: Path(os.environ["CANON_DATA"]) / place


def text(metric: str) -> Callable[[Path, Path], float | None]:
    return lambda data, _: baselines.of_text(str(data), metric)


def table(name: str) -> Callable[[Path], Path]:
    """A table of scikit-learn as a CSV file."""

    def make(folder: Path) -> Path:
        from sklearn import datasets

        bunch = getattr(datasets, f"load_{name}")()
        named = list(map(str, getattr(bunch, "target_names", [])))
        path = folder / f"{name}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*map(str, bunch.feature_names), "target"])
            for row, label in zip(bunch.data, bunch.target, strict=True):
                writer.writerow([*row, f"class {named[int(label)]}" if named else label])
        return path

    return make


def boosting(numbers: bool) -> Callable[[Path, Path], float]:
    """Gradient boosting on the rows that the run was trained and tested on."""

    def score(_: Path, run: Path) -> float:
        from canon.training.data import read_data

        model = load(run)
        splits = read_data(model.run.recipe, model.run.path).splits
        train, test = ((splits[name]["input"], splits[name]["target"]) for name in ("train", "test"))
        return baselines.of_table(train, test, numbers)

    return score


def wikipedia(folder: Path, size: int = 20_000_000) -> Path:
    path = folder / "wiki.txt"
    with lzma.open(Path(os.environ["CANON_DATA"]) / "wikipedia-en" / "train.txt.xz", "rt", encoding="utf-8") as file:
        path.write_text(file.read(size), encoding="utf-8")
    return path


def captions(folder: Path) -> Path:
    """Multi30k as a table of English and German."""
    import gzip

    source, folder = Path(os.environ["CANON_DATA"]) / "multi30k", folder / "captions"
    folder.mkdir(exist_ok=True)
    for part, name in {"train": "train", "valid": "val", "test": "test_2016_flickr"}.items():
        sides = [gzip.decompress((source / f"{name}.{ending}.gz").read_bytes()).decode() for ending in ("en", "de")]
        rows = zip(*(side.splitlines() for side in sides), strict=True)
        (folder / f"{part}.tsv").write_text("".join(f"{en}\t{de}\n" for en, de in rows), encoding="utf-8")
    return folder


def word_by_word(data: Path, _: Path) -> float:
    train, test = (
        [tuple(line.split("\t")) for line in (data / f"{part}.tsv").read_text(encoding="utf-8").splitlines()]
        for part in ("train", "test")
    )
    return baselines.of_pairs(train, test)  # type: ignore[arg-type]


def similar_words(data: Path, _: Path) -> float:
    return baselines.of_vectors(data.read_text(encoding="utf-8"), read_tests([TEST]).pairs[TEST])


CASES: dict[str, Case] = {
    "sst-2": Case(shared("glue/SST-2"), "accuracy", text("accuracy")),
    "cola": Case(shared("glue/CoLA"), "accuracy", text("accuracy")),
    "rte": Case(shared("glue/RTE"), "accuracy", text("accuracy")),
    "sts-b": Case(shared("glue/STS-B"), "spearman", text("spearman")),
    "chnsenticorp": Case(shared("chnsenticorp"), "accuracy", text("accuracy")),
    "tnews": Case(shared("tnews"), "accuracy", text("accuracy")),
    "weibo-ner": Case(shared("weibo-ner"), "entity_f1", text("entity_f1")),
    "ud-english-ewt": Case(shared("ud-english-ewt"), "tag_accuracy", text("tag_accuracy")),
    "openbookqa": Case(shared("openbookqa"), "accuracy", text("accuracy")),
    "iris": Case(table("iris"), "accuracy", boosting(False)),
    "wine": Case(table("wine"), "accuracy", boosting(False)),
    "breast-cancer": Case(table("breast_cancer"), "accuracy", boosting(False)),
    "digits": Case(table("digits"), "accuracy", boosting(False)),
    "diabetes": Case(table("diabetes"), "r2", boosting(True)),
    "captions": Case(captions, "bleu", word_by_word),
    "wikipedia": Case(wikipedia, "similarity", similar_words),
}
QUICK = {"iris": CASES["iris"], "sentences": Case(lambda _: SMALL / "sentences.csv", "accuracy", text("accuracy"))}


def scored(result: dict[str, Any], metric: str, run: Path) -> float:
    if metric == "similarity":
        return load(run).vectors.evaluate(TEST)[TEST]
    return float(result["scores"]["test"][metric])


def row(name: str, case: Case, folder: Path) -> dict[str, Any]:
    data, run = case.make(folder), folder / name
    seconds = 0.0
    if not (run / "result.json").is_file():
        start = time.perf_counter()
        line = [sys.executable, "-m", "canon", "train", str(data), "--out", str(run)]
        done = subprocess.run(line, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            return {"data": name, "error": done.stderr.strip().splitlines()[-1]}
    result = json.loads((run / "result.json").read_text())
    score = scored(result, case.metric, run)
    baseline = case.baseline(data, run)
    found = {"data": name, "system": load(run).run.recipe.system_name, "metric": case.metric, "canon": round(score, 4)}
    return found | {"baseline": None if baseline is None else round(baseline, 4), "seconds": round(seconds, 1)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=[], choices=list(CASES))
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.out or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cases = QUICK if options.quick else {name: CASES[name] for name in options.only or CASES}
        rows = []
        for name, case in cases.items():
            rows.append(row(name, case, folder))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if not options.only:
            write_result("first_hour", {"rows": rows}, options, ("numpy", "scikit-learn"))


if __name__ == "__main__":
    main()
