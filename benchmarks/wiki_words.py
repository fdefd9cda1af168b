"""The text of the benchmarks of word vectors, training on it, and the tests that vectors are judged by."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import arguments, own_cache, trained

from canon.data.config import DataConfig
from canon.data.formats.files import read_text
from canon.data.formats.word_tests import Tests, read_tests
from canon.data.kinds.text import TEXT
from canon.metrics.vectors import analogy_accuracy, similarity_correlation
from canon.use.vectors import Vectors

LINE = 1000  # words
STEP = 200_000  # places that canon learns from at a time
THREADS = 2


class Text(NamedTuple):
    path: Path
    words: int  # rare ones among them
    tests: Tests


def options_of(text: str | None) -> argparse.Namespace:
    """The arguments of a benchmark that measures speed over rounds, and quality over seeds and epochs."""
    parser = arguments(text)
    parser.add_argument("--words", type=int, default=0, help="of the text, from its beginning; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="of the trainings whose quality is judged")
    parser.add_argument("--dim", type=int, default=100)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seeds, options.epochs, options.dim = 1, 1, 1, 8
    return options


def write_text(folder: Path, options: argparse.Namespace) -> Text:
    """wiki-words, or its first so many words, in lines of a thousand; for --quick, words drawn by Zipf's law."""
    if options.quick:
        draws = np.random.default_rng(0).zipf(1.3, 4000)
        words = [f"w{number}" for number in draws[draws < 200]]
        pairs = [(f"w{number}", f"w{number + 1}", float(number)) for number in range(1, 10)]  # which mean nothing
        tests = Tests({"pairs": pairs}, {})
    else:
        source = TEXT.source(DataConfig(source="wiki-words"))
        words = " ".join(read_text(path) for path in source.parts["train"].files).split()
        words = words[: options.words or None]
        tests = read_tests(("wordsim353", "simlex999", "questions-words"))
    path = folder / "words.txt"
    path.write_text("\n".join(" ".join(words[i : i + LINE]) for i in range(0, len(words), LINE)) + "\n")
    os.environ |= own_cache(folder)  # what canon counts of this text is not kept
    return Text(path, len(words), tests)


class Learned(NamedTuple):
    matrix: np.ndarray
    words: list[str]
    seconds: float  # of the steps


def learn(text: Text, recipe: str, epochs: int, threads: int, changes: dict[str, Any], seed: int = 1) -> Learned:
    """The vectors of a run that has read the text `epochs` times; the run is removed."""
    settings = {
        "data.tokenizer": "split", "data.lowercase": False, "data.min_count": 5, "data.test": 0.0,
        "train.epochs": epochs, "train.batch": min(STEP, text.words), "train.threads": threads, "train.seed": seed,
    }  # fmt: skip
    run, seconds = trained(text.path.parent, recipe, text.path, {**settings, **changes})
    vectors = Vectors.open(run.path)
    learned = Learned(np.array(vectors.matrix), list(vectors.words), seconds)
    shutil.rmtree(run.path)
    return learned


def judged(matrix: np.ndarray, words: list[str], tests: Tests) -> dict[str, float]:
    """Spearman's ρ of each test of pairs, and the share of analogies solved."""
    scores = {name: similarity_correlation(matrix, words, pairs).spearman for name, pairs in tests.pairs.items()}
    scores |= {name: analogy_accuracy(matrix, words, asked).accuracy for name, asked in tests.analogies.items()}
    return {name: round(value, 4) for name, value in scores.items()}


def quality(
    makers: dict[str, Callable[[int], tuple[np.ndarray, list[str]]]], tests: Tests, seeds: int
) -> dict[str, Any]:
    """The scores of what each maker makes with each seed."""
    results: dict[str, Any] = {}
    for name, make in makers.items():
        scores = [judged(*make(seed), tests) for seed in range(1, seeds + 1)]
        results[name] = {
            test: {"mean": round(statistics.mean(values), 4), "seeds": values}
            for test in scores[0]
            if (values := [score[test] for score in scores])
        }
        line = "  ".join(f"{test} {row['mean']:.4f} {row['seeds']}" for test, row in results[name].items())
        print(f"{name:18} {line}", flush=True)
    return results
