"""fastText's own Python package: skip-gram with subwords on a text file, the model written as its binary does it."""

# mypy: ignore-errors

from __future__ import annotations

import argparse

import fasttext


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("out")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--buckets", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    model = fasttext.train_unsupervised(
        options.corpus,
        model="skipgram",
        dim=options.dim,
        epoch=options.epochs,
        bucket=options.buckets,
        minCount=5,
        thread=options.threads,
        verbose=0,
    )
    model.save_model(options.out)


if __name__ == "__main__":
    main()
