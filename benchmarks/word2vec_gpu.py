"""Skip-gram on a GPU against canon's CPU path beside it: `python benchmarks/word2vec_gpu.py` (needs CUDA and triton).

Same text (wiki-words in CANON_DATA), vocabulary, settings and steps; all threads of the CPU. Speed in words of the text
per second over all epochs, after one epoch that compiles; quality by three tests of word vectors over the seeds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import write_result
from word2vec import STEP, judged, lines_of

from canon.contracts import Context, World
from canon.data.config import DataConfig
from canon.data.corpus.corpus import Corpus, build
from canon.systems.words.word2vec import Config, Word2Vec
from tests.learners import data_of


def learned(corpus: Corpus, device: str, epochs: int, seed: int) -> tuple[Word2Vec, float]:
    """The learner at its end, and its seconds."""
    learner = Word2Vec(Config(vocab_size=corpus.words.size), Context(world=World(torch.device(device)), seed=seed))
    steps = -(-epochs * len(corpus) // STEP)
    learner.begin(data_of({"input": corpus}), STEP, steps)
    begun = time.perf_counter()
    for step in range(1, steps + 1):
        learner.step(step)
    learner.tensors()  # on the host
    return learner, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    found: dict[str, Any] = {device: {"words_per_second": [], "tests": []} for device in ("cuda", "cpu")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        path = lines_of(0, Path(folder))
        words, corpus = build(path, DataConfig(source=str(path), tokenizer="split", min_count=5))
        for device, told in found.items():
            learned(corpus, device, 1, 0)
            for seed in range(1, arguments.seeds + 1):
                learner, seconds = learned(corpus, device, arguments.epochs, seed)
                told["words_per_second"].append(round(arguments.epochs * words.total / seconds))
                told["tests"].append(judged(learner.vectors(), corpus.words.words))
                print(device, seed, f"{told['words_per_second'][-1]:,} words/s", told["tests"][-1], flush=True)
    medians = {device: statistics.median(told["words_per_second"]) for device, told in found.items()}
    ratio = round(medians["cuda"] / medians["cpu"], 2)
    print(f"ratio {ratio} ×")
    result = {**found, "device": torch.cuda.get_device_name(), "threads": torch.get_num_threads(), "ratio": ratio}
    write_result("word2vec_gpu", result, command="python benchmarks/word2vec_gpu.py", packages=("torch", "triton"))


if __name__ == "__main__":
    main()
