"""fastText's vectors against fasttext: words per second and quality on the same text with the same settings, in turn.

    CANON_DATA=… python benchmarks/fasttext_vectors.py [--words N] [--rounds 3] [--seeds 3] [--epochs 5] [--quick]

The text is wiki-words in lines of 1,000 words; both sides read that file. fastText's defaults: window 5, 5 negatives,
subsampling 1e-4, min count 5, rate 0.05, n-grams of 3 to 6 letters in 2,000,000 buckets; skip-gram and CBOW.
Speed: one epoch each, in turn, over `rounds` rounds, two threads, and canon with one too. "Whole" is from the text
file to the vectors. "Training" is without reading the text and making the matrices: of fasttext, its time for one epoch
less its time for none; of canon, the steps of a run. Words are counted as fasttext counts them, rare ones among them.
Quality: `epochs` epochs with two threads, `seeds` times, each time with the lines in another order, the same for both
(fasttext's Python takes no seed); Spearman's ρ on WordSim-353 and SimLex-999 and the share of analogies solved, by the
same code for both.
Target: skip-gram with n-grams 2 × fasttext with two threads each; quality equal within noise.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import installed, interleaved, rates, write_result
from wiki_words import THREADS, Learned, Text, learn, options_of, quality, write_text

from canon.data.config import DataConfig
from canon.data.corpus.corpus import build_parts
from canon.data.corpus.text_blocks import TextStream

NAMES = {"skip-gram": "skipgram", "cbow": "cbow"}


def theirs(text: Text, architecture: str, epochs: int, options: argparse.Namespace) -> Any:
    import fasttext

    sizes = {"dim": options.dim, "epoch": epochs, "bucket": options.buckets}
    return fasttext.train_unsupervised(str(text.path), model=NAMES[architecture], thread=THREADS, verbose=0, **sizes)


def ours(
    text: Text, architecture: str, threads: int, epochs: int, options: argparse.Namespace, seed: int = 1
) -> Learned:
    settings = {"architecture": architecture, "dim": options.dim, "buckets": options.buckets}
    changes = {f"system.{key}": value for key, value in settings.items()}
    return learn(text, "words/fasttext", epochs, threads, changes, seed)


def reading_seconds(text: Text) -> float:
    """Of the text into word numbers, from the file and nothing else."""
    shutil.rmtree(text.path.parent / "corpora", ignore_errors=True)
    begun = time.perf_counter()
    config = DataConfig(source=str(text.path), tokenizer="split", min_count=5)
    build_parts({"train": TextStream((text.path,))}, config, {}, threads=THREADS)
    return time.perf_counter() - begun


def speed(text: Text, options: argparse.Namespace, with_fasttext: bool) -> dict[str, Any]:
    """Words per second of training alone and from the file on, and the ratios of the medians."""
    training: dict[str, list[float]] = {}  # seconds
    whole: dict[str, list[float]] = {}

    def time_ours(architecture: str, threads: int) -> None:
        name = f"canon {architecture}, {threads} thread{'s' * (threads > 1)}"
        reading = reading_seconds(text)
        learning = ours(text, architecture, threads, 1, options).seconds
        training.setdefault(name, []).append(learning)
        whole.setdefault(name, []).append(reading + learning)

    calls: dict[str, Callable[[], Any]] = {}
    if with_fasttext:
        calls["none"] = partial(theirs, text, "skip-gram", 0, options)
        calls |= {name: partial(theirs, text, name, 1, options) for name in NAMES}
    for architecture in NAMES:
        for threads in (1, THREADS):
            calls[f"canon {architecture} {threads}"] = partial(time_ours, architecture, threads)
    warmup = 0 if options.quick else 1  # kernels are compiled, or read from the cache
    seconds = interleaved(calls, repeats=options.rounds, warmup=warmup)
    for clock in (training, whole):
        clock.update({name: values[warmup:] for name, values in clock.items()})
    for architecture in NAMES if with_fasttext else ():
        name = f"fasttext {architecture}, {THREADS} threads"
        whole[name] = seconds[architecture]
        pairs = zip(seconds[architecture], seconds["none"], strict=True)
        training[name] = [max(one - none, 1e-4) for one, none in pairs]
    measured: dict[str, Any] = {"training": rates(training, text.words), "whole": rates(whole, text.words)}
    measured["ratios"] = ratios(measured, with_fasttext)
    return measured


def ratios(measured: dict[str, Any], with_fasttext: bool) -> dict[str, float]:
    factors = {}
    for architecture in NAMES:
        mine = f"canon {architecture}, {THREADS} threads"
        for part in ("training", "whole") if with_fasttext else ():
            other = measured[part][f"fasttext {architecture}, {THREADS} threads"]["median"]
            factors[f"{architecture}, {part}: canon / fasttext"] = measured[part][mine]["median"] / other
        alone = measured["training"][f"canon {architecture}, 1 thread"]["median"]
        factors[f"{architecture}: {THREADS} threads / 1"] = measured["training"][mine]["median"] / alone
    return {name: round(value, 2) for name, value in factors.items()}


def main() -> None:
    options = options_of(__doc__)
    options.buckets = 2000 if options.quick else 2_000_000
    with_fasttext = installed("fasttext")
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(Path(folder), options)
        result: dict[str, Any] = {
            "words": text.words, "dim": options.dim, "threads": THREADS, "epochs": options.epochs,
        }  # fmt: skip
        if options.rounds:
            result["speed"] = speed(text, options, with_fasttext)
            for part, rows in result["speed"].items():
                for name, row in rows.items():
                    print(f"{part:9} {name:44} {row}", flush=True)
        if options.seeds:
            lines = text.path.read_text().splitlines(keepends=True)

            def shuffled(seed: int) -> Text:
                path = text.path.with_name(f"words-{seed}.txt")
                path.write_text("".join(random.Random(seed).sample(lines, len(lines))))
                return text._replace(path=path)

            def of_fasttext(seed: int, architecture: str) -> tuple[np.ndarray, list[str]]:
                model = theirs(shuffled(seed), architecture, options.epochs, options)
                words = [word for word in model.get_words() if word != "</s>"]
                return np.stack([model.get_word_vector(word) for word in words]), words

            def of_canon(seed: int, architecture: str) -> tuple[np.ndarray, list[str]]:
                learned = ours(shuffled(seed), architecture, THREADS, options.epochs, options, seed)
                return learned.matrix, learned.words

            sides = {**({"fasttext": of_fasttext} if with_fasttext else {}), "canon": of_canon}
            makers: dict[str, Callable[[int], tuple[np.ndarray, list[str]]]] = {
                f"{side} {name}": partial(make, architecture=name) for name in NAMES for side, make in sides.items()
            }
            result["quality"] = quality(makers, text.tests, options.seeds)
    if options.words:
        print("Not the whole text: nothing is written.")
    else:
        write_result("fasttext_vectors", result, options, packages=("numba", "fasttext-wheel", "numpy"))


if __name__ == "__main__":
    main()
