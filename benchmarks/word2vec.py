"""word2vec against gensim: words per second and quality on the same text with the same settings, side by side.

    CANON_DATA=… python benchmarks/word2vec.py [--words N] [--rounds 3] [--seeds 3] [--epochs 5] [--dim 100] [--quick]

The text is wiki-words in lines of 1,000 words, so that gensim's corpus_file has lines to share out; both sides read
that file. Window 5, 5 negatives, subsampling 1e-3, min count 5; skip-gram begins at a rate of 0.025, CBOW at 0.05;
vectors begin even in ± 1/dim, as gensim's do.
Speed: one epoch each, in turn, over `rounds` rounds; words counted as gensim counts them, those left out among them.
Timed is learning alone: of canon the steps of a run, of gensim `train` after its vocabulary is built. Quality: `epochs`
epochs with two threads over `seeds` seeds, gensim by LineSentence (with corpus_file and W workers its rate falls by 1/W
of what it should within an epoch, then jumps); Spearman's ρ on WordSim-353 and SimLex-999 and the share of analogies
solved, measured by the same code for both.
Targets, two threads each: skip-gram 8 ×, pair by pair 3 ×, CBOW 2.5 × gensim; two threads 1.8 × one; quality equal
within noise. --seeds 0 leaves quality out, --rounds 0 speed.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from common import installed, interleaved, rates, write_result
from wiki_words import THREADS, Learned, Text, learn, options_of, quality, write_text

RATES = {"skip-gram": 0.025, "cbow": 0.05}
WAYS = {
    "window": {"architecture": "skip-gram", "update": "window"},
    "pair": {"architecture": "skip-gram", "update": "pair"},
    "cbow": {"architecture": "cbow"},
}


def learned(text: Text, way: str, threads: int, epochs: int, dim: int, seed: int = 1) -> Learned:
    rate = RATES[WAYS[way]["architecture"]]
    settings = {f"system.{key}": value for key, value in {**WAYS[way], "dim": dim, "lr": rate, "start": 1.0}.items()}
    return learn(text, "words/word2vec", epochs, threads, settings, seed)


def gensims(text: Text, architecture: str, by_lines: bool, epochs: int, dim: int, seed: int = 1) -> Any:
    """A model of gensim with its vocabulary built, and a call that trains it."""
    from gensim.models import Word2Vec as Gensim
    from gensim.models.word2vec import LineSentence

    rate = RATES[architecture]
    model = Gensim(
        vector_size=dim, window=5, min_count=5, sg=int(architecture == "skip-gram"), negative=5, sample=1e-3,
        alpha=rate, min_alpha=rate * 1e-4, workers=THREADS, seed=seed, epochs=epochs,
    )  # fmt: skip
    path = str(text.path)
    given: dict[str, Any] = {"corpus_iterable": LineSentence(path)} if by_lines else {"corpus_file": path}
    model.build_vocab(**given)
    sizes = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words}
    return model, lambda: model.train(**given, **sizes, epochs=epochs)


def speed(text: Text, options: argparse.Namespace, with_gensim: bool) -> dict[str, Any]:
    """Words per second of each."""
    calls: dict[str, Callable[[], Any]] = {}
    clocks: dict[str, list[float]] = {}  # of canon, whose runs are also read, scored and written

    def ours(name: str, way: str, threads: int) -> None:
        clocks.setdefault(name, []).append(learned(text, way, threads, 1, options.dim).seconds)

    for architecture in RATES if with_gensim else ():
        for form, by_lines in (("corpus_file", False), ("LineSentence", True)):
            calls[f"gensim {architecture}, {form}"] = gensims(text, architecture, by_lines, 1, options.dim)[1]
    for way in WAYS:
        for threads in (1, THREADS):
            name = f"canon {way}, {threads} thread{'s' * (threads > 1)}"
            calls[name] = partial(ours, name, way, threads)
    warmup = 0 if options.quick else 1  # kernels are compiled, or read from the cache
    seconds = interleaved(calls, repeats=options.rounds, warmup=warmup)
    seconds |= {name: spent[warmup:] for name, spent in clocks.items()}
    measured = rates(seconds, text.words)
    for name, row in measured.items():
        print(f"{name:34} {row['median']:>11,} words/s ({row['min']:,}–{row['max']:,})")
    return measured


def ratios(measured: dict[str, Any]) -> dict[str, float]:
    """Medians against gensim's faster way, and two threads against one."""
    factors = {}
    for way, settings in WAYS.items():
        two, one = measured[f"canon {way}, {THREADS} threads"]["median"], measured[f"canon {way}, 1 thread"]["median"]
        factors[f"{way}: {THREADS} threads / 1"] = round(two / one, 2)
        theirs = [
            row["median"] for name, row in measured.items() if name.startswith(f"gensim {settings['architecture']}")
        ]
        if theirs:
            factors[f"{way} / gensim {settings['architecture']}"] = round(two / max(theirs), 2)
    for name, value in factors.items():
        print(f"{name:34} {value:>7.2f} ×")
    return factors


def main() -> None:
    options = options_of(__doc__)
    logging.disable(logging.WARNING)
    with_gensim = installed("gensim")
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(Path(folder), options)
        result: dict[str, Any] = {
            "words": text.words, "dim": options.dim, "threads": THREADS, "epochs": options.epochs,
        }  # fmt: skip
        if options.rounds:
            result["speed"] = speed(text, options, with_gensim)
            result["ratios"] = ratios(result["speed"])
        if options.seeds:

            def of_gensim(seed: int, architecture: str) -> Any:
                model, train = gensims(text, architecture, True, options.epochs, options.dim, seed)
                train()
                return model.wv.vectors, model.wv.index_to_key

            def of_canon(seed: int, way: str) -> Any:
                return learned(text, way, THREADS, options.epochs, options.dim, seed)[:2]

            makers: dict[str, Callable[[int], Any]] = {
                f"gensim {name}": partial(of_gensim, architecture=name) for name in (RATES if with_gensim else ())
            }
            makers |= {f"canon {way}": partial(of_canon, way=way) for way in WAYS}
            result["quality"] = quality(makers, text.tests, options.seeds)
    if options.words:
        print("Not the whole text: nothing is written.")
    else:
        write_result("word2vec", result, options, packages=("numba", "gensim", "numpy"))


if __name__ == "__main__":
    main()
