"""The text classifier against fasttext: `python benchmarks/classifier.py` (needs sst-2, tnews and chnsenticorp in
CANON_DATA, and the packages fasttext-wheel and jieba).

Both train on the same lines (training part as published, words cut once: SST-2's own, jieba's for Chinese) with equal
settings and threads, in turns, with several seeds, and are scored on the same test lines. Timed are: "whole", from the
file to the trained model (fasttext.train_supervised; canon's reading, and the steps of a run), and of canon "learning"
alone, with one thread too. fasttext's seed decides its first weights, its threads the rest.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import SMALL, arguments, installed, trained, write_result

from canon import recipe as recipes
from canon.data.batching.documents import Documents, LabelLists
from canon.data.schema import Data
from canon.training.data import read_data


@dataclass(frozen=True)
class Work:
    """A set and fastText's settings for it."""

    source: str
    tokenizer: str
    lr: float
    epochs: int
    dim: int = 100
    word_ngrams: int = 1
    buckets: int = 2_000_000
    loss: str = "softmax"


WORKS = {
    "sst-2, words": Work("sst-2", "split", 0.1, 5),
    "sst-2, bigrams": Work("sst-2", "split", 0.25, 5, dim=10, word_ngrams=2),
    "sst-2, bigrams of 100": Work("sst-2", "split", 0.25, 5, word_ngrams=2),
    "tnews, words": Work("tnews", "jieba", 0.5, 5),
    "tnews, hierarchical": Work("tnews", "jieba", 0.5, 5, loss="hierarchical-softmax"),
    "chnsenticorp, words": Work("chnsenticorp", "jieba", 0.5, 10),
    "chnsenticorp, bigrams": Work("chnsenticorp", "jieba", 0.5, 10, word_ngrams=2),
}
SYSTEM = "fasttext-classifier:base"
LOSSES = {"softmax": "softmax", "hierarchical-softmax": "hs", "one-vs-all": "ova"}


def write_lines(data: Data, split: str, path: Path) -> Path:
    """A split in fastText's form, its words as canon cut them."""
    documents, labels = data.splits[split]["input"], LabelLists.of(data.splits[split]["target"])
    assert isinstance(documents, Documents)
    words = documents.distinct.words
    with path.open("wb") as file:
        for row in range(len(documents)):
            codes = documents.codes_N[documents.offsets[row] : documents.offsets[row + 1] - 1]  # without </s>
            marks = " ".join(f"__label__{data.schema.classes[label]}" for label in labels[row])
            file.write(marks.encode() + b" " + b" ".join(words[code] for code in codes) + b"\n")
    return path


def fasttext_once(work: Work, train: Path, test: Path, threads: int, seed: int) -> dict[str, float]:
    import fasttext

    start = time.perf_counter()
    model = fasttext.train_supervised(
        str(train),
        lr=work.lr,
        dim=work.dim,
        epoch=work.epochs,
        wordNgrams=work.word_ngrams,
        bucket=work.buckets if work.word_ngrams > 1 else 0,
        loss=LOSSES[work.loss],
        thread=threads,
        seed=seed,
        verbose=0,
    )
    whole = time.perf_counter() - start
    return {"whole_s": whole, "accuracy": model.f.test(str(test), 1, 0.0)[1]}


def canon_once(work: Work, train: Path, test: Path, threads: int, seed: int) -> dict[str, float]:
    recipe = recipes.load(SYSTEM, str(train), {"data.valid": 0.0, "data.test": 0.0})
    begun = time.perf_counter()  # the run of the call before has read other parts: no words are kept from it
    size = len(read_data(recipe).splits["train"]["input"])
    reading = time.perf_counter() - begun
    settings = {key: value for key, value in asdict(work).items() if key not in ("source", "tokenizer", "epochs")}
    run, learning = trained(
        train.parent,
        SYSTEM,
        train,
        {
            **{f"system.{key}": value for key, value in settings.items()},
            "data.test": str(test),
            "train.epochs": work.epochs,
            "train.batch": min(10_000, size),
            "train.threads": threads,
            "train.seed": seed,
        },
    )
    assert run.result is not None
    accuracy = run.result["scores"]["test"]["accuracy"]
    return {"whole_s": reading + learning, "learning_s": learning, "accuracy": accuracy}


def spread(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    columns = {key: [run[key] for run in runs] for key in runs[0]}
    return {
        key: {
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
            "mean": statistics.fmean(values),
        }
        for key, values in columns.items()
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    works = {name: work for name, work in WORKS.items() if options.only in name}
    if options.quick:
        works = {"small": Work(str(SMALL / "labels.txt"), "split", 0.5, 2, dim=8, word_ngrams=2, buckets=1000)}
        options.seeds = 1
    with_fasttext = installed("fasttext")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works.items():
            cut = {"data.tokenizer": work.tokenizer, "data.valid": 0.0}
            data = read_data(recipes.load(SYSTEM, work.source, cut))
            train, test = (write_lines(data, split, Path(folder) / f"{split}.txt") for split in ("train", "test"))
            documents = data.splits["train"]["input"]
            assert isinstance(documents, Documents)
            words = len(documents.codes_N) * work.epochs
            canon_once(work, train, test, options.threads, 0)  # compiles
            runs: dict[str, list[dict[str, float]]] = {"canon": [], "canon_one_thread": []}
            for seed in range(options.seeds):
                runs["canon"].append(canon_once(work, train, test, options.threads, seed))
                runs["canon_one_thread"].append(canon_once(work, train, test, 1, seed))
                if with_fasttext:
                    theirs = fasttext_once(work, train, test, options.threads, seed)
                    runs.setdefault("fasttext", []).append(theirs)
            results[name] = {"settings": asdict(work), "words": words, **compared(name, words, runs)}
    write_result("classifier", {"works": results}, options, ("numpy", "numba", "fasttext-wheel", "jieba"))


def compared(name: str, words: int, runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The spreads of all sides and their ratios, which are printed."""
    result: dict[str, Any] = {side: spread(rows) for side, rows in runs.items()}
    ours, alone = result["canon"], result["canon_one_thread"]
    learning = ours["learning_s"]["median"]
    print(
        f"{name}: whole {ours['whole_s']['median']:.2f} s (learning {learning:.2f} s, "
        f"{words / learning / 1e3:,.0f} thousand words/s, {alone['learning_s']['median'] / learning:.2f} times one "
        f"thread), accuracy {ours['accuracy']['mean']:.4f}",
        flush=True,
    )
    if "fasttext" in result:
        theirs = result["fasttext"]
        result["times_as_fast"] = theirs["whole_s"]["median"] / ours["whole_s"]["median"]
        result["accuracy_minus_fasttext"] = ours["accuracy"]["mean"] - theirs["accuracy"]["mean"]
        print(
            f"{name}: {result['times_as_fast']:.2f} times as fast as fasttext ({theirs['whole_s']['median']:.2f} s), "
            f"accuracy {result['accuracy_minus_fasttext']:+.4f}",
            flush=True,
        )
    return result


if __name__ == "__main__":
    main()
