"""word2vec against gensim: words per second and quality on the same text with the same settings, side by side.

    CANON_DATA=… python benchmarks/word2vec.py [--words N] [--rounds 3] [--seeds 3] [--epochs 5] [--dim 100]

The text is wiki-words in lines of 1,000 words, so that gensim's corpus_file has lines to share out; both sides read
that file. Window 5, 5 negatives, subsampling 1e-3, min count 5; skip-gram begins at a rate of 0.025, CBOW at 0.05;
vectors begin even in ± 1/dim, as gensim's do.
Speed: one epoch each, in turn, over `rounds` rounds; words counted as gensim counts them, those left out among them.
Building the vocabulary is timed apart. Quality: `epochs` epochs with two threads over `seeds` seeds, gensim by
LineSentence (with corpus_file and W workers its rate falls by 1/W of what it should within an epoch, then jumps);
Spearman's ρ on WordSim-353 and SimLex-999 and the share of analogies solved, measured by the same code for both.
Targets, two threads each: skip-gram 8 ×, pair by pair 3 ×, CBOW 2.5 × gensim; two threads 1.8 × one; quality equal
within noise. --seeds 0 leaves quality out, --rounds 0 speed.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import interleaved, write_result

from canon.contracts import Context
from canon.data.config import DataConfig
from canon.data.corpus.corpus import Corpus, build
from canon.data.formats.files import read_text
from canon.data.formats.word_tests import read_tests
from canon.data.read_corpus import open_corpus
from canon.metrics.vectors import analogy_accuracy, similarity_correlation
from canon.systems.words.word2vec import Config, Word2Vec
from tests.learners import data_of

LINE = 1000  # words
STEP = 200_000  # places that canon learns from at a time
THREADS = 2
RATES = {"skip-gram": 0.025, "cbow": 0.05}
TESTS = ("wordsim353", "simlex999", "questions-words")
CANON = {
    "window": {"architecture": "skip-gram", "update": "window"},
    "pair": {"architecture": "skip-gram", "update": "pair"},
    "cbow": {"architecture": "cbow"},
}


def lines_of(words: int, folder: Path) -> Path:
    """wiki-words, or its first so many words, in lines of a thousand."""
    source = open_corpus(DataConfig(source="wiki-words"))
    text = " ".join(read_text(path) for path in source.parts["train"].inputs.files).split()
    text = text[: words or None]
    path = folder / "words.txt"
    path.write_text("\n".join(" ".join(text[i : i + LINE]) for i in range(0, len(text), LINE)) + "\n")
    return path


def learned(corpus: Corpus, way: str, threads: int, epochs: int, dim: int, seed: int = 1) -> Word2Vec:
    config: dict[str, Any] = dict(CANON[way])
    config |= {"dim": dim, "lr": RATES[config["architecture"]], "start": 1.0, "vocab_size": corpus.words.size}
    torch.set_num_threads(threads)
    learner = Word2Vec(Config(**config), Context(seed=seed))
    steps = -(-epochs * len(corpus) // STEP)
    learner.begin(data_of({"input": corpus}), min(STEP, epochs * len(corpus)), steps)
    for step in range(1, steps + 1):
        learner.step(step)
    return learner


def gensims(path: Path, architecture: str, by_lines: bool, epochs: int, dim: int, seed: int = 1) -> Any:
    """A model of gensim with its vocabulary built, and a call that trains it."""
    from gensim.models import Word2Vec as Gensim
    from gensim.models.word2vec import LineSentence

    rate = RATES[architecture]
    model = Gensim(
        vector_size=dim, window=5, min_count=5, sg=int(architecture == "skip-gram"), negative=5, sample=1e-3,
        alpha=rate, min_alpha=rate * 1e-4, workers=THREADS, seed=seed, epochs=epochs,
    )  # fmt: skip
    text: dict[str, Any] = {"corpus_iterable": LineSentence(str(path))} if by_lines else {"corpus_file": str(path)}
    start = time.perf_counter()
    model.build_vocab(**text)
    model.seconds_to_build = time.perf_counter() - start
    sizes = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
    return model, lambda: model.train(**text, **sizes, epochs=epochs)


def speed(path: Path, corpus: Corpus, rounds: int, dim: int) -> dict[str, Any]:
    calls: dict[str, Callable[[], Any]] = {}
    for architecture in RATES:
        for name, by_lines in (("corpus_file", False), ("LineSentence", True)):
            model, calls[f"gensim {architecture}, {name}"] = gensims(path, architecture, by_lines, 1, dim)
            print(f"gensim reads the text by {name} in {model.seconds_to_build:.1f} s")
    for way in CANON:
        learned(corpus.part(0, min(len(corpus), 2000)), way, 1, 1, dim)  # compiled, or read from the cache
        for threads in (1, THREADS):
            calls[f"canon {way}, {threads} thread{'s' * (threads > 1)}"] = lambda way=way, threads=threads: learned(
                corpus, way, threads, 1, dim
            )
    seconds = interleaved(calls, repeats=rounds, warmup=0)
    words = corpus.words.total
    found: dict[str, Any] = {}
    for name, times in seconds.items():
        rates = sorted(words / 1000 / value for value in times)
        found[name] = {
            "thousand_words_per_second": round(statistics.median(rates)),
            "least": round(rates[0]),
            "most": round(rates[-1]),
        }
        told = found[name]
        print(f"{name:34} {told['thousand_words_per_second']:>7,} ({told['least']:,}–{told['most']:,})")
    return found


def ratios(rates: dict[str, Any]) -> dict[str, float]:
    """Medians against gensim's faster way, and two threads against one."""

    def rate(name: str) -> float:
        return float(rates[name]["thousand_words_per_second"])

    def gensim(architecture: str) -> float:
        return max(rate(name) for name in rates if name.startswith(f"gensim {architecture}"))

    found = {}
    for way in CANON:
        architecture = "cbow" if way == "cbow" else "skip-gram"
        two, one = rate(f"canon {way}, {THREADS} threads"), rate(f"canon {way}, 1 thread")
        found[f"{way} / gensim {architecture}"] = round(two / gensim(architecture), 2)
        found[f"{way}: {THREADS} threads / 1"] = round(two / one, 2)
    for name, value in found.items():
        print(f"{name:34} {value:>7.2f} ×")
    return found


def judged(vectors: Any, words: list[str]) -> dict[str, float]:
    tests = read_tests(TESTS)
    found = {name: similarity_correlation(vectors, words, pairs).spearman for name, pairs in tests.pairs.items()}
    found |= {name: analogy_accuracy(vectors, words, asked).accuracy for name, asked in tests.analogies.items()}
    return {name: round(value, 4) for name, value in found.items()}


def quality(path: Path, corpus: Corpus, seeds: int, epochs: int, dim: int, without_gensim: bool) -> dict[str, Any]:
    makers: dict[str, Callable[[int], Any]] = {}
    for architecture in () if without_gensim else RATES:

        def of_gensim(seed: int, architecture: str = architecture) -> Any:
            model, train = gensims(path, architecture, True, epochs, dim, seed)
            train()
            return model.wv.vectors, model.wv.index_to_key

        makers[f"gensim {architecture}"] = of_gensim
    for way in CANON:
        makers[f"canon {way}"] = lambda seed, way=way: (
            learned(corpus, way, THREADS, epochs, dim, seed).vectors(),
            corpus.words.words,
        )
    found: dict[str, Any] = {}
    for name, make in makers.items():
        scores = [judged(*make(seed)) for seed in range(1, seeds + 1)]
        found[name] = {
            test: {"mean": round(statistics.mean(values), 4), "seeds": values}
            for test in TESTS
            if (values := [score[test] for score in scores])
        }
        told = "  ".join(f"{test} {found[name][test]['mean']:.4f} {found[name][test]['seeds']}" for test in TESTS)
        print(f"{name:18} {told}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=0, help="of the text, from its beginning; 0: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="of the trainings whose quality is judged")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--without-gensim", action="store_true", help="judge canon's vectors alone")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # nothing of this text is kept
        path = lines_of(options.words, Path(folder))
        start = time.perf_counter()
        words, corpus = build(path, DataConfig(source=str(path), tokenizer="split", min_count=5), threads=THREADS)
        built = time.perf_counter() - start
        print(f"{words.total:,} words, {words.size:,} of them different and kept; read in {built:.1f} s")
        result: dict[str, Any] = {
            "words": words.total, "vocabulary": words.size, "dim": options.dim, "threads": THREADS,
            "build_seconds": round(built, 2), "epochs": options.epochs,
        }  # fmt: skip
        if options.rounds:
            result["speed"] = speed(path, corpus, options.rounds, options.dim)
            result["ratios"] = ratios(result["speed"])
        if options.seeds:
            result["quality"] = quality(
                path, corpus, options.seeds, options.epochs, options.dim, options.without_gensim
            )
    if options.words or options.without_gensim:
        print("Not the whole benchmark: nothing is written.")
        return
    command = f"python benchmarks/word2vec.py --rounds {options.rounds} --seeds {options.seeds}"
    write_result("word2vec", result, command=command, packages=("numba", "gensim", "numpy"))


if __name__ == "__main__":
    main()
