"""The text classifier against fasttext: `python benchmarks/classifier.py` (needs sst-2, tnews and chnsenticorp in
CANON_DATA, and the packages fasttext-wheel and jieba).

Both train on the same lines (training part as published, words cut once: SST-2's own, jieba's for Chinese) with equal
settings and threads, in turns, with several seeds, and are scored on the same test lines. Timed are: "whole", from the
file to the trained model (fasttext.train_supervised; canon's reading and learning without evaluations or a run
directory), and of canon "learning" alone, with one thread too. fasttext's seed decides its first weights, its threads
the rest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from common import write_result

sys.path.insert(0, str(Path(__file__).parent.parent))
from canon.contracts import Context
from canon.data.batching.documents import Documents, Labels
from canon.data.config import DataConfig
from canon.data.read import labelled
from canon.data.schema import Data
from canon.systems.words.classifier import Classifier, Config
from canon.tasks.labels import LabelTask
from tests.learners import data_of
from tests.reading import read_as


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
LOSSES = {"softmax": "softmax", "hierarchical-softmax": "hs", "one-vs-all": "ova"}


def write_lines(data: Data, split: str, path: Path) -> Path:
    """A split in fastText's form, its words as canon cut them."""
    documents, labels = data.splits[split]["input"], Labels.of(data.splits[split]["target"])
    assert isinstance(documents, Documents)
    words = documents.distinct.words
    with path.open("wb") as file:
        for row in range(len(documents)):
            codes = documents.codes_N[documents.offsets[row] : documents.offsets[row + 1] - 1]  # without </s>
            own = " ".join(f"__label__{data.schema.classes[label]}" for label in labels[row])
            file.write(own.encode() + b" " + b" ".join(words[code] for code in codes) + b"\n")
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
    from canon.data import read_documents

    torch.set_num_threads(threads)
    read_documents._cut_last.clear()  # reading counts
    start = time.perf_counter()
    config = DataConfig(source=str(train), valid=0.0, test=0.0)
    data = read_as(config, "bags")
    columns, sizes = data.splits["train"], data.schema.sizes()
    settings = Config(
        vocab_size=sizes["vocab_size"],
        num_classes=sizes["num_classes"],
        dim=work.dim,
        lr=work.lr,
        loss=work.loss,  # type: ignore[arg-type]
        word_ngrams=work.word_ngrams,
        buckets=work.buckets,
    )
    learner = Classifier(settings, Context(seed=seed))
    size = len(columns["input"])
    batch = min(10_000, size)
    steps = -(-work.epochs * size // batch)
    learner.begin(data_of(columns), batch, steps)
    begun = time.perf_counter()
    for step in range(1, steps + 1):
        learner.step(step)
    end = time.perf_counter()
    held = labelled(data.schema, test, config)
    score = LabelTask("labels", settings, data.schema).score(learner.outputs(held), held)
    return {"whole_s": end - start, "learning_s": end - begun, "accuracy": score["accuracy"]}


def spread(runs: list[dict[str, float]], key: str) -> dict[str, float]:
    values = [run[key] for run in runs]
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "mean": statistics.fmean(values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="works whose name holds this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="write no result file")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in WORKS.items():
            if options.only not in name:
                continue
            data = read_as(DataConfig(source=work.source, tokenizer=work.tokenizer, valid=0.0), "bags")
            train, test = (write_lines(data, split, Path(folder) / f"{split}.txt") for split in ("train", "test"))
            words = len(data.splits["train"]["input"].codes_N) * work.epochs  # type: ignore[union-attr]
            canon_once(work, train, test, options.threads, 0)  # compiles
            ours, alone, theirs = [], [], []
            for seed in range(options.seeds):
                theirs.append(fasttext_once(work, train, test, options.threads, seed))
                ours.append(canon_once(work, train, test, options.threads, seed))
                alone.append(canon_once(work, train, test, 1, seed))
            found = {
                "settings": vars(work),
                "words": words,
                "canon": {key: spread(ours, key) for key in ours[0]},
                "canon_one_thread": {key: spread(alone, key) for key in alone[0]},
                "fasttext": {key: spread(theirs, key) for key in theirs[0]},
            }
            whole = {tool: found[tool]["whole_s"]["median"] for tool in ("canon", "fasttext")}  # type: ignore[index]
            right, other = (statistics.fmean(run["accuracy"] for run in runs) for runs in (ours, theirs))
            times = whole["fasttext"] / whole["canon"]
            results[name] = found | {"times_as_fast": times, "accuracy_minus_fasttext": right - other}
            learning = found["canon"]["learning_s"]["median"]  # type: ignore[index]
            rate = words / learning / 1e3
            gain = found["canon_one_thread"]["learning_s"]["median"] / learning  # type: ignore[index]
            print(
                f"{name}: whole {whole['canon']:.2f} s (learning {learning:.2f} s, {rate:,.0f} thousand words/s, "
                f"{gain:.2f} times one thread) "
                f"against {whole['fasttext']:.2f} s, {times:.2f} times as fast; "
                f"accuracy {right:.4f} against {other:.4f} ({right - other:+.4f})"
            )
    if not options.keep:
        packages = ("numpy", "numba", "fasttext-wheel", "jieba")
        command = f"python benchmarks/classifier.py --seeds {options.seeds} --threads {options.threads}"
        path = write_result("classifier", {"works": results}, command=command, packages=packages)
        print(path)


if __name__ == "__main__":
    main()
