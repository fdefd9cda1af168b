"""The first command on somebody's data beside ten lines of scikit-learn: `canon train PATH`, no settings.

    CANON_DATA=… python benchmarks/first_hour.py [--only NAME …] [--out FOLDER] [--quick]

Each row is one data set as a user has it, a file or folder: what canon chose to train, its score on the test part, the
score of the baseline (benchmarks/baselines.py) on the same rows, and the seconds of the whole command. The tables of
scikit-learn are small: theirs are means over five splits (data.seed). Runs are kept in --out and used as they are if
they are finished. Each row is stored as soon as it is measured, with its commit, date and load; other rows stay.
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
from statistics import fmean
from typing import Any, NamedTuple

import baselines
from common import RESULTS, ROOT, SMALL, arguments, machine_record, write_result

from canon.data.formats.word_tests import read_tests
from canon.use.model import load

TEST = "wordsim353"  # how similar people find two words


class Case(NamedTuple):
    make: Callable[[Path], Path]  # the data, as a user has it; a folder to write to is given
    metric: str
    baseline: Callable[[Path, Path], float | None]  # of the data and of the run
    about: str  # what the baseline is
    splits: int = 1


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

    source, folder = Path(os.environ["CANON_DATA"]) / "multi30k", folder / "multi30k"
    folder.mkdir(exist_ok=True)
    for part, name in {"train": "train", "valid": "val", "test": "test_2016_flickr"}.items():
        sides = [
            gzip.decompress((source / f"{name}.{ending}.gz").read_bytes()).decode().replace("\t", " ")
            for ending in ("en", "de")
        ]
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


TFIDF, BOOSTED, FREQUENT = "TF-IDF, logistic regression", "gradient boosting", "most frequent tag of a word"
CASES: dict[str, Case] = {
    "iris": Case(table("iris"), "accuracy", boosting(False), BOOSTED, splits=5),
    "wine": Case(table("wine"), "accuracy", boosting(False), BOOSTED, splits=5),
    "breast-cancer": Case(table("breast_cancer"), "accuracy", boosting(False), BOOSTED, splits=5),
    "digits": Case(table("digits"), "accuracy", boosting(False), BOOSTED, splits=5),
    "diabetes": Case(table("diabetes"), "r2", boosting(True), BOOSTED, splits=5),
    "cola": Case(shared("glue/CoLA"), "accuracy", text("accuracy"), TFIDF),
    "rte": Case(shared("glue/RTE"), "accuracy", text("accuracy"), TFIDF),
    "sts-b": Case(shared("glue/STS-B"), "spearman", text("spearman"), "TF-IDF, ridge regression"),
    "chnsenticorp": Case(shared("chnsenticorp"), "accuracy", text("accuracy"), f"{TFIDF} (characters)"),
    "tnews": Case(shared("tnews"), "accuracy", text("accuracy"), f"{TFIDF} (characters)"),
    "sst-2": Case(shared("glue/SST-2"), "accuracy", text("accuracy"), TFIDF),
    "weibo-ner": Case(shared("weibo-ner"), "entity_f1", text("entity_f1"), FREQUENT),
    "openbookqa": Case(shared("openbookqa"), "accuracy", text("accuracy"), TFIDF),
    "ud-english-ewt": Case(shared("ud-english-ewt"), "tag_accuracy", text("tag_accuracy"), FREQUENT),
    "wikipedia": Case(wikipedia, "similarity", similar_words, "singular vectors of mutual information"),
    "captions": Case(captions, "bleu", word_by_word, "word by word, by Dice's coefficient"),
}
QUICK = {
    "iris": CASES["iris"]._replace(splits=1),
    "sentences": Case(lambda _: SMALL / "sentences.csv", "accuracy", text("accuracy"), TFIDF),
}
# Why canon's default is below, where it is.
WHY = {
    "openbookqa": "only finetune chooses between texts, and it begins at random weights; the baseline is within two "
    "standard errors (0.045) of it, and above finetune from a small pre-trained network too (finetuning.json)",
    "tnews": "within one standard error (0.007) of the baseline",
}


def scored(result: dict[str, Any], metric: str, run: Path) -> float:
    if metric == "similarity":
        return load(run).vectors.evaluate(TEST)[TEST]
    return float(result["scores"]["test"][metric])


def trained(data: Path, run: Path, seed: int) -> float:
    """Seconds of the first command, which is kept in the run for another time; a run that fails ends the benchmark."""
    kept = run.parent / f"{run.name}.seconds"
    if (run / "result.json").is_file() and kept.is_file():
        return float(kept.read_text())
    start = time.perf_counter()
    line = [sys.executable, "-m", "canon", "train", str(data), "--out", str(run)]
    line += ["--set", f"data.seed={seed}"] * bool(seed)
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{data}: {done.stderr.strip().splitlines()[-1]}")
    kept.write_text(str(time.perf_counter() - start))
    return float(kept.read_text())


def row(name: str, case: Case, folder: Path) -> dict[str, Any]:
    data, seconds, reached, floors = case.make(folder), [], [], []
    for seed in range(case.splits):
        run = folder / (f"{name}-{seed}" if seed else name)
        seconds.append(trained(data, run, seed))
        result = json.loads((run / "result.json").read_text())
        reached.append(scored(result, case.metric, run))
        floors.append(case.baseline(data, run))
    facts: dict[str, Any] = {"data": name, "system": load(folder / name).run.recipe.system_name, "metric": case.metric}
    known = [floor for floor in floors if floor is not None]
    facts |= {"canon": round(fmean(reached), 4), "baseline": round(fmean(known), 4) if known else None}
    facts |= {"about": case.about, "splits": case.splits, "seconds": round(fmean(seconds), 1)}
    below = facts["baseline"] is not None and facts["canon"] < facts["baseline"]
    machine = machine_record()
    facts |= {key: machine[key] for key in ("commit", "date", "load_average_1min")}
    return facts | ({"why": WHY[name]} if below and name in WHY else {})


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=[], choices=list(CASES))
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.out or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cases = QUICK if options.quick else {name: CASES[name] for name in options.only or CASES}
        for name, case in cases.items():
            measured = row(name, case, folder)
            print("  ".join(f"{key} {value}" for key, value in measured.items()), flush=True)
            if not options.quick:
                kept = {row["data"]: row for row in (*_before(), measured)}
                rows = [kept[name] for name in CASES if name in kept]
                write_result("first_hour", {"rows": rows}, options, ("numpy", "scikit-learn", "torch"))


def _before() -> list[dict[str, Any]]:
    """The rows of the last result."""
    path = RESULTS / "first_hour.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []


if __name__ == "__main__":
    main()
