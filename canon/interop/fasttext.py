"""What a fastText file answers, as fasttext itself would (vectors of any word, labels of a line), and runs made of it.

A vector is the mean of the rows of a word and its n-grams; that of an unknown word, of its n-grams. A line of a
classifier is the mean of the rows of its words, their letter n-grams and its word n-grams, the line's end being a word
too. fastText's numbers have their ways, which are kept: 1e-5 is added to every probability that a logarithm is taken
of, and the logistic function of one-vs-all and negative sampling is read from a table of 512 steps from −8 to 8.
`read` and `write` are the files themselves (canon.interop.fasttext_format); `to_run_parts` and `from_run_parts` go to
canon's systems fasttext and fasttext-classifier and back.
Shapes: V words, B buckets of n-grams, K labels, D dimensions.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from canon.config import Table
from canon.contracts import Context
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop.fasttext_format import LABEL, Model, Settings, in_memory, is_fasttext, read, write
from canon.interop.vectors import VectorFile, not_finite
from canon.interop.word_list import WordList
from canon.kernels.cpu.subwords import mean_rows
from canon.systems.words.subwords import (
    LINE_END,
    hash_word,
    output_tree,
    subword_ids,
    subword_table,
    to_bytes,
    word_ngram_ids,
)

__all__ = [
    "LABEL",
    "Model",
    "Settings",
    "from_run_parts",
    "in_memory",
    "is_fasttext",
    "predict",
    "probabilities",
    "read",
    "read_vectors",
    "to_run_parts",
    "vector",
    "vectors",
    "write",
]

_ADDED = 1e-5
_STEPS, _BOUND = 512, 8
_GAPS = re.compile("[ \\n\\r\\t\\v\\f\\0]+")


def vector(model: Model, word: str) -> np.ndarray:
    """[D]; zeros for an unknown word without n-grams."""
    return _mean(model, _word_rows(model, word))


def vectors(model: Model) -> np.ndarray:
    """[V, D] of all words, row i for word i."""
    own = model.settings
    if model.pruned is not None:
        return np.stack([vector(model, word) for word in model.words.words])
    starts, rows = subword_table(model.words.words, own.minn, own.maxn, own.buckets)
    found = np.empty((model.words.size, own.dim), np.float32)
    mean_rows(_plain(model.input), starts, rows, 0, model.words.size, found)
    return found


def read_vectors(path: Path) -> VectorFile:
    """The vectors of all words of a .bin or .ftz, and those of any other word by its n-grams."""
    model = read(path)
    subwords = partial(vector, model) if model.settings.maxn > 0 else None
    return VectorFile(str(path), "fasttext", WordList.of(model.words.words), vectors(model), subwords=subwords)


def line_rows(model: Model, text: str) -> np.ndarray:
    """Rows of the input matrix of one line, its end among them."""
    own = model.settings
    rows, hashes = [], []
    labels = set(model.labels)
    # A line ends at the first </s>, where the text holds one too.
    words = [*filter(None, _GAPS.split(text)), LINE_END.decode()]
    for word in words[: words.index(LINE_END.decode()) + 1]:
        known = word in model.words.index
        if word in labels or (not known and word.startswith(LABEL)):
            continue
        rows.append(_word_rows(model, word))
        hashes.append(hash_word(to_bytes(word)))
    grams = word_ngram_ids(hashes, own.word_ngrams, own.buckets)
    return np.concatenate([*rows, model.words.size + _left(model, grams)]).astype(np.int64)


def probabilities(model: Model, text: str) -> np.ndarray:
    """[K] of all labels, in the file's order; none at all, [0], for a line of which nothing is known."""
    if not model.is_classifier:
        raise CanonError("These are word vectors, not a classifier: there are no labels to tell.")
    rows = line_rows(model, text)
    if not len(rows):
        return np.zeros(0)
    hidden_D = _mean(model, rows)
    if not model.is_finite or not np.isfinite(hidden_D).all():
        raise CanonError("This classifier has NaN or infinite numbers, so it is of no use.")
    if model.settings.loss == "hierarchical-softmax":
        return _down_the_tree(model, hidden_D)
    scores_K = (model.output @ hidden_D).astype(np.float32)
    if model.settings.loss == "softmax":
        raised_K = np.exp(scores_K - scores_K.max())
        return raised_K / raised_K.sum(dtype=np.float32) + _ADDED
    return _tabled(scores_K) + _ADDED


def predict(model: Model, text: str, top: int = 1, threshold: float = 0.0) -> list[tuple[str, float]]:
    """The most likely labels, with their prefix, and their probabilities; those under `threshold` are left out."""
    found_K = probabilities(model, text)
    # The table's and softmax's values are held against the threshold itself, products down the tree with 1e-5 added.
    added = 0.0 if model.settings.loss == "hierarchical-softmax" else _ADDED
    least = threshold + (_ADDED if model.settings.loss == "hierarchical-softmax" else 0.0)
    order = np.argsort(-found_K, kind="stable")[:top]
    return [(model.labels[label], float(found_K[label])) for label in order if found_K[label] - added >= least]


def to_run_parts(model: Model) -> tuple[str, Table, dict[str, np.ndarray], Words, tuple[str, ...]]:
    """A model as canon has it: system, settings, tensors in memory, words, and a classifier's labels, without prefix.

    Words whose bytes are no UTF-8 are told by their codes, as \\xff."""
    own = model.settings
    words = Words(
        [word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for word in model.words.words],
        model.words.counts,
        model.words.total,
    )
    output = _finite(in_memory(model.output), "output")
    if own.loss == "hierarchical-softmax":
        output = output[: len(output) - 1]
    tensors = {"input": _finite(in_memory(model.input), "input"), "output": output}
    changes: Table = {"vocab_size": words.size, "dim": own.dim, "loss": own.loss, "negatives": own.negatives}
    changes |= {"minn": own.minn, "maxn": own.maxn, "buckets": max(1, own.buckets)}
    if not model.is_classifier:
        changes |= {"architecture": own.model, "window": own.window, "subsample": own.subsample}
        return "fasttext", changes, tensors, words, ()
    # Another prefix is not in the file, so that it stays a part of the labels.
    prefix = LABEL if all(label.startswith(LABEL) for label in model.labels) else ""
    changes |= {"num_classes": len(model.labels), "word_ngrams": own.word_ngrams, "label_prefix": prefix}
    tensors["label_counts"] = np.array(model.label_counts)
    if model.pruned is not None:  # a bucket that is not named does not count, which seed −1 says
        by_row = model.pruned[np.argsort(model.pruned[:, 1])]
        tensors |= {"buckets": by_row[:, 0].astype(np.int64), "seed": np.array([-1], np.int64)}
    labels = tuple(label.removeprefix(prefix) for label in model.labels)
    return "fasttext-classifier", changes, tensors, words, labels


def from_run_parts(
    system: str,
    config: Any,
    tensors: dict[str, np.ndarray],
    words: Words,
    labels: tuple[str, ...] = (),
    epochs: int = 5,
    min_count: int = 1,
) -> Model:
    """What a run of `system` has learned, ready to be written; `config` is the system's record of settings."""
    classifier = system == "fasttext-classifier"
    input_matrix, output = tensors["input"], tensors["output"]
    label_counts = np.zeros(0, np.int64)
    if classifier:
        label_counts = np.asarray(tensors["label_counts"], np.int64)
        if "buckets" in tensors:
            input_matrix = _whole_input(config, tensors)
    if config.loss == "hierarchical-softmax":  # fastText has a row more than the tree has nodes
        output = np.concatenate([output, np.zeros((1, config.dim), np.float32)])
    own = Settings(
        dim=config.dim,
        window=5 if classifier else config.window,
        epochs=epochs,
        min_count=min_count,
        negatives=config.negatives,
        word_ngrams=config.word_ngrams if classifier else 1,
        loss=config.loss,
        model="classifier" if classifier else config.architecture,
        buckets=len(input_matrix) - words.size,
        minn=config.minn,
        maxn=config.maxn,
        subsample=1e-4 if classifier else config.subsample,
    )
    prefix = config.label_prefix if classifier else ""
    return Model(own, words, input_matrix, output, tuple(prefix + label for label in labels), label_counts)


def _finite(matrix: np.ndarray, name: str) -> np.ndarray:
    if len(odd := not_finite(matrix)):
        raise CanonError(f"Row {int(odd[0]):,} of the {name} vectors has NaN or infinite numbers: they are of no use.")
    return matrix


def _whole_input(config: Any, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """All rows of a classifier that stores those which training touched."""
    import torch

    from canon.systems.words.classifier import Classifier

    if int(tensors["seed"][0]) < 0:
        raise CanonError("This classifier came from a pruned .ftz file, which a .bin cannot hold; keep the .ftz.")
    classifier = Classifier(config, Context())
    classifier.restore({"model": {name: torch.as_tensor(array) for name, array in tensors.items()}}, {})
    return classifier.whole_input()


def _word_rows(model: Model, word: str) -> np.ndarray:
    own, size = model.settings, model.words.size
    grams = size + _left(model, subword_ids(word, own.minn, own.maxn, own.buckets))
    row = model.words.index.get(word)
    return grams if row is None else np.concatenate([[row], grams])


def _left(model: Model, buckets: np.ndarray) -> np.ndarray:
    """Rows of n-grams, counted from behind the words; those that were pruned are left out."""
    if model.pruned_rows is None:
        return buckets.astype(np.int64)
    kept = [model.pruned_rows[bucket] for bucket in buckets.tolist() if bucket in model.pruned_rows]
    return np.array(kept, np.int64)


def _mean(model: Model, rows: np.ndarray) -> np.ndarray:
    if not len(rows):
        return np.zeros(model.settings.dim, np.float32)
    return np.asarray(model.input[rows].sum(axis=0) * np.float32(1 / len(rows)), np.float32)


def _plain(matrix: np.ndarray) -> np.ndarray:
    """Without numpy's class of mapped arrays, which kernels know as another kind."""
    view = matrix.view(np.ndarray)
    view.flags.writeable = False
    return view


def _tabled(scores_K: np.ndarray) -> np.ndarray:
    """The logistic function, rounded down to the last step of fastText's table."""
    steps_K = ((np.clip(scores_K, -_BOUND, _BOUND) + _BOUND) * _STEPS / _BOUND / 2).astype(np.int64)
    table_K = 1 / (1 + np.exp(-(steps_K * 2 * _BOUND / _STEPS - _BOUND)))
    return np.where(scores_K < -_BOUND, 0.0, np.where(scores_K > _BOUND, 1.0, table_K))


def _down_the_tree(model: Model, hidden_D: np.ndarray) -> np.ndarray:
    """Π over the way to a label of σ(o·h) where it turns right, 1 − σ(o·h) where left."""
    tree = output_tree(model.label_counts)
    right_L = 1 / (1 + np.exp(-(model.output[:-1] @ hidden_D)[tree.nodes_L].astype(np.float64)))
    taken_L = np.log(np.where(tree.turns_L == 1, right_L, 1 - right_L) + _ADDED)
    label_L = np.repeat(np.arange(len(model.labels)), tree.lengths_V)
    return np.exp(np.bincount(label_L, taken_L, len(model.labels)))
