"""fastText's vectors against fasttext: words per second and quality on the same text with the same settings, in turn.

    CANON_DATA=… python benchmarks/fasttext_vectors.py [--words N] [--rounds 3] [--seeds 3] [--epochs 5] [--dim 100]

The text is wiki-words in lines of 1,000 words; both sides read that file. fastText's defaults: window 5, 5 negatives,
subsampling 1e-4, min count 5, rate 0.05, n-grams of 3 to 6 letters in 2,000,000 buckets; skip-gram and CBOW.
Speed: one epoch each, in turn, over `rounds` rounds, two threads, and canon with one too. "Whole" is from the text
file to the vectors. "Training" is without reading the text and making the matrices: of fasttext, its time for one epoch
less its time for none; of canon, the steps alone. Words are counted as fasttext counts them, rare ones among them.
Quality: `epochs` epochs with two threads, `seeds` times, each time with the lines in another order, the same for both
(fasttext's Python takes no seed); Spearman's ρ on WordSim-353 and SimLex-999 and the share of analogies solved, by the
same code for both.
Target: skip-gram with n-grams 2 × fasttext with two threads each; quality equal within noise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import interleaved, write_result

from canon.contracts import Context
from canon.data.config import DataConfig
from canon.data.corpus.corpus import Corpus, build
from canon.data.formats.files import read_text
from canon.data.formats.word_tests import read_tests
from canon.data.read_corpus import open_corpus
from canon.metrics.vectors import analogy_accuracy, similarity_correlation
from canon.systems.words.fasttext import Config, FastText
from tests.learners import data_of

LINE = 1000  # words
STEP = 200_000  # places that canon learns from at a time
THREADS = 2
NAMES = {"skip-gram": "skipgram", "cbow": "cbow"}
TESTS = ("wordsim353", "simlex999", "questions-words")


def lines_of(words: int, folder: Path) -> Path:
    """wiki-words, or its first so many words, in lines of a thousand."""
    source = open_corpus(DataConfig(source="wiki-words"))
    text = " ".join(read_text(path) for path in source.parts["train"].inputs.files).split()[: words or None]
    path = folder / "words.txt"
    path.write_text("\n".join(" ".join(text[i : i + LINE]) for i in range(0, len(text), LINE)) + "\n")
    return path


def theirs(path: Path, architecture: str, epochs: int, dim: int) -> Any:
    import fasttext

    return fasttext.train_unsupervised(
        str(path), model=NAMES[architecture], dim=dim, epoch=epochs, thread=THREADS, verbose=0
    )


def read(path: Path, cache: Path) -> Corpus:
    """The text in word numbers, made anew."""
    shutil.rmtree(cache, ignore_errors=True)
    return build(path, DataConfig(source=str(path), tokenizer="split", min_count=5), threads=THREADS)[1]


class Ours:
    """One training by canon; `learning` are the seconds of its steps."""

    def __init__(self, corpus: Corpus, architecture: str, threads: int, epochs: int, dim: int, seed: int = 1) -> None:
        torch.set_num_threads(threads)
        self.learner = FastText(
            Config(vocab_size=corpus.words.size, architecture=architecture, dim=dim), Context(seed=seed)
        )
        steps = max(1, epochs * len(corpus) // STEP)
        self.learner.begin(data_of({"input": corpus}), min(STEP, len(corpus)), steps)
        start = time.perf_counter()
        for step in range(1, steps + 1):
            self.learner.step(step)
        self.learning = time.perf_counter() - start
        # Of steps of equal size a little of the last epoch is left over.
        self.words = corpus.words.total * steps * min(STEP, len(corpus)) / len(corpus)


def speed(path: Path, cache: Path, rounds: int, dim: int) -> dict[str, Any]:
    corpus = read(path, cache)
    total = corpus.words.total
    for architecture in NAMES:  # compiled, or read from the cache
        Ours(corpus.part(0, min(len(corpus), 2000)), architecture, 1, 1, dim)
    training: dict[str, list[float]] = {}

    def ours(architecture: str, threads: int) -> None:
        text = read(path, cache) if threads == THREADS else corpus
        run = Ours(text, architecture, threads, 1, dim)
        training.setdefault(f"canon {architecture}, {threads} thread{'s' * (threads > 1)}", []).append(
            run.words / 1000 / run.learning
        )

    calls: dict[str, Callable[[], Any]] = {"fasttext without training": lambda: theirs(path, "skip-gram", 0, dim)}
    for architecture in NAMES:
        calls[f"fasttext {architecture}"] = lambda own=architecture: theirs(path, own, 1, dim)
        calls[f"canon {architecture}"] = lambda own=architecture: ours(own, THREADS)
        calls[f"canon {architecture}, 1 thread"] = lambda own=architecture: ours(own, 1)
    seconds = interleaved(calls, repeats=rounds, warmup=0)
    for architecture in NAMES:
        pairs = zip(seconds[f"fasttext {architecture}"], seconds["fasttext without training"], strict=True)
        training[f"fasttext {architecture}, {THREADS} threads"] = [total / 1000 / (one - none) for one, none in pairs]
    found: dict[str, Any] = {"training": {name: _told(rates) for name, rates in sorted(training.items())}}
    found["whole"] = {
        name: _told([total / 1000 / value for value in seconds[name]])
        for name in seconds
        if "without" not in name and "1 thread" not in name
    }
    found["ratios"] = _ratios(found)
    return found


def _told(rates: list[float]) -> dict[str, int]:
    return {
        "thousand_words_per_second": round(statistics.median(rates)),
        "least": round(min(rates)),
        "most": round(max(rates)),
    }


def _ratios(found: dict[str, Any]) -> dict[str, float]:
    def rate(part: str, name: str) -> float:
        return float(found[part][name]["thousand_words_per_second"])

    told = {}
    for architecture in NAMES:
        two = rate("training", f"canon {architecture}, {THREADS} threads")
        told[f"{architecture}, training: canon / fasttext"] = two / rate(
            "training", f"fasttext {architecture}, {THREADS} threads"
        )
        whole = rate("whole", f"canon {architecture}") / rate("whole", f"fasttext {architecture}")
        told[f"{architecture}, whole: canon / fasttext"] = whole
        told[f"{architecture}: {THREADS} threads / 1"] = two / rate("training", f"canon {architecture}, 1 thread")
    return {name: round(value, 2) for name, value in told.items()}


def judged(vectors: np.ndarray, words: list[str]) -> dict[str, float]:
    tests = read_tests(TESTS)
    found = {name: similarity_correlation(vectors, words, pairs).spearman for name, pairs in tests.pairs.items()}
    found |= {name: analogy_accuracy(vectors, words, asked).accuracy for name, asked in tests.analogies.items()}
    return {name: round(value, 4) for name, value in found.items()}


def quality(path: Path, cache: Path, seeds: int, epochs: int, dim: int) -> dict[str, Any]:
    lines = path.read_text().splitlines(keepends=True)
    texts = {seed: path.with_name(f"words-{seed}.txt") for seed in range(1, seeds + 1)}
    for seed, text in texts.items():
        text.write_text("".join(random.Random(seed).sample(lines, len(lines))))
    corpora = {seed: read(text, cache) for seed, text in texts.items()}

    def of_fasttext(architecture: str, seed: int) -> tuple[np.ndarray, list[str]]:
        model = theirs(texts[seed], architecture, epochs, dim)
        words = [word for word in model.get_words() if word != "</s>"]
        return np.stack([model.get_word_vector(word) for word in words]), words

    def of_canon(architecture: str, seed: int) -> tuple[np.ndarray, list[str]]:
        corpus = corpora[seed]
        return Ours(corpus, architecture, THREADS, epochs, dim, seed).learner.vectors(), corpus.words.words

    found: dict[str, Any] = {}
    for architecture in NAMES:
        for name, make in (("fasttext", of_fasttext), ("canon", of_canon)):
            scores = [judged(*make(architecture, seed)) for seed in range(1, seeds + 1)]
            found[f"{name} {architecture}"] = {
                test: {"mean": round(statistics.mean(values), 4), "seeds": values}
                for test in TESTS
                if (values := [score[test] for score in scores])
            }
            print(f"{name} {architecture}", found[f"{name} {architecture}"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=0, help="of the text, from its beginning; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="of the trainings whose quality is judged")
    parser.add_argument("--dim", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # nothing of this text is kept
        cache, path = Path(folder) / "canon", lines_of(options.words, Path(folder))
        corpus = read(path, cache)
        print(f"{corpus.words.total:,} words, {corpus.words.size:,} of them different and kept")
        result: dict[str, Any] = {
            "words": corpus.words.total, "vocabulary": corpus.words.size, "dim": options.dim, "threads": THREADS,
            "epochs": options.epochs,
        }  # fmt: skip
        if options.rounds:
            result["speed"] = speed(path, cache, options.rounds, options.dim)
            for part, rows in result["speed"].items():
                for name, told in rows.items():
                    print(f"{part:9} {name:44} {told}", flush=True)
        if options.seeds:
            result["quality"] = quality(path, cache, options.seeds, options.epochs, options.dim)
    if options.words:
        print("Not the whole text: nothing is written.")
        return
    command = f"python benchmarks/fasttext_vectors.py --rounds {options.rounds} --seeds {options.seeds}"
    write_result("fasttext_vectors", result, command=command, packages=("numba", "fasttext-wheel", "numpy"))


if __name__ == "__main__":
    main()
