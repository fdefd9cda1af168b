"""word2vec by gensim: skip-gram with negative sampling on a text file, vectors written as text."""

# mypy: ignore-errors

from __future__ import annotations

import argparse

from gensim.models import Word2Vec


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus")
    parser.add_argument("out")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    model = Word2Vec(
        corpus_file=options.corpus,
        sg=1,
        vector_size=options.dim,
        window=5,
        negative=5,
        sample=1e-3,
        min_count=5,
        epochs=options.epochs,
        workers=options.threads,
    )
    model.wv.save_word2vec_format(options.out)


if __name__ == "__main__":
    main()
