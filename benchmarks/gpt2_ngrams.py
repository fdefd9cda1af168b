"""GPT-2 beside n-gram models on the same tokens of Python's source: `python benchmarks/gpt2_ngrams.py [--run RUN]`.

The recipe pretrained/gpt2 is trained (or a finished run of it taken), then n-gram models count its training sequences
and all are measured on its test sequences: the mean −log p of the same tokens, which are all but the first of each
sequence. An n-gram model also sees the sequence before, where there is one; GPT-2 does not.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import SMALL, arguments, write_result

import canon
from canon import recipe as recipes
from canon.data.batching.sequences import Windows
from canon.data.encodings.windows import WindowSchema
from canon.data.schema import Data
from canon.data.text.framing import frame
from canon.training.data import read_data
from canon.training.run import Run
from canon.training.trainer import train

MODELS: dict[str, dict[str, Any]] = {
    "bigram, interpolated": {"order": 2},
    "trigram, interpolated": {"order": 3},
    "5-gram, Kneser–Ney": {"order": 5, "smoothing": "kneser-ney"},
}
TINY: dict[str, Any] = {
    **{f"system.{key}": value for key, value in {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32}.items()},
    **{"data.tokenizer": "word", "data.vocab_size": 0, "data.max_length": 32, "train.steps": 2, "train.batch": 8},
}


def sequences(passages: Any) -> tuple[np.ndarray, np.ndarray]:
    """All tokens end to end, and whether each is one that is predicted."""
    framed = frame("gpt", passages.specials, passages.sequence(np.arange(len(passages))))
    predicted_N = np.ones(len(framed.tokens_N), bool)
    predicted_N[framed.first_starts_B] = False
    return framed.tokens_N, predicted_N


def loss_of(settings: dict[str, Any], train_N: np.ndarray, test_N: np.ndarray, predicted_N: np.ndarray) -> float:
    learner = canon.create("ngram", **settings)
    text = {"input": Windows(train_N, len(train_N))}
    learner.begin(Data("the same tokens", WindowSchema(), {"train": text}), batch=1, steps=0)
    step = 1
    while learner.step(step):
        step += 1
    p_N, _ = learner.probabilities(test_N)
    return float(-np.log(p_N[predicted_N]).mean())


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--run", type=Path, help="a finished run of pretrained/gpt2")
    options = parser.parse_args()
    data_path, changes = ("", {}) if not options.quick else (str(SMALL / "documents.txt"), TINY)
    recipe = recipes.load("pretrained/gpt2", data_path, changes)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        run = Run(options.run) if options.run else train("pretrained/gpt2", data_path, out, changes=changes)
        assert run.result is not None
        losses = {"gpt2": float(run.result["scores"]["test"]["loss"])}
    data = read_data(recipe)
    train_N, _ = sequences(data.splits["train"]["input"])
    test_N, predicted_N = sequences(data.splits["test"]["input"])
    vocab_size = data.schema.tokenizers["text"].size
    print(f"{len(train_N):,} tokens to learn from, {predicted_N.sum():,} to predict")
    for name, settings in MODELS.items():
        losses[name] = loss_of({"vocab_size": vocab_size, **settings}, train_N, test_N, predicted_N)
    for name, loss in losses.items():
        print(f"{name:24} loss {loss:.3f}  perplexity {math.exp(loss):.1f}")
    result = {"tokens": len(train_N), "predicted": int(predicted_N.sum()), "test_loss": losses}
    write_result("gpt2-ngrams", result, options)


if __name__ == "__main__":
    main()
