"""What a fastText file answers, as fasttext itself would (vectors of any word, labels of a line), and runs made of it.

A vector is the mean of the rows of a word and its n-grams; that of an unknown word, of its n-grams. A line of a
classifier is the mean of the rows of its words, their letter n-grams and its word n-grams, the line's end being a word
too. fastText's numbers have their ways, which are kept: 1e-5 is added to every probability that a logarithm is taken
of, and the logistic function of one-vs-all and negative sampling is read from a table of 512 steps from −8 to 8.
`read` and `write` (canon.interop.fasttext_format) are the files themselves; `to_run_parts` and `from_run_parts` go to
canon's systems fasttext and fasttext-classifier and back.
Shapes: V words, B buckets of n-grams, K labels, D dimensions.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.config import Table
from canon.contracts import Context
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop.fasttext_format import LABEL as LABEL
from canon.interop.fasttext_format import MAGIC, FastTextModel, FastTextSettings, in_memory
from canon.interop.fasttext_format import read as read
from canon.interop.fasttext_format import write as write
from canon.interop.formats import Candidate, FileChoices, Format, GivesVectors, Written
from canon.interop.vectors import VectorFile, VectorOptions, chosen, not_finite
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

if TYPE_CHECKING:
    from canon.interop.network import Network

_SYSTEMS = ("fasttext", "fasttext-classifier")  # of canon, whose runs hold what a .bin does
_ADDED = 1e-5
_STEPS, _BOUND = 512, 8
_GAPS = re.compile("[ \\n\\r\\t\\v\\f\\0]+")


class FastTextFile(GivesVectors):
    """A .bin or .ftz: vectors of its words, and of any other word by its n-grams."""

    kind = "fasttext"

    @cached_property
    def model(self) -> FastTextModel:
        return read(self.path)

    @property
    def system(self) -> str:
        return "fasttext-classifier" if self.model.is_classifier else "fasttext"

    @property
    def sizes(self) -> Table:
        return {"words": self.model.words.size, "dim": self.model.settings.dim, "labels": len(self.model.labels)}

    def vectors(self, options: VectorOptions) -> VectorFile:
        model = self.model
        subwords = partial(vector, model) if model.settings.maxn > 0 else None
        words = WordList.of(model.words.words)
        return chosen(VectorFile(str(self.path), self.kind, words, vectors(model), subwords=subwords), options)

    def network(self, choices: FileChoices) -> Network:
        """All of it; of some words or another precision, their vectors alone."""
        from canon.interop.word_weights import network_of, network_of_parts

        if choices.vectors not in (None, VectorOptions()):
            return network_of(self.vectors(choices.vectors))
        return network_of_parts(str(self.path), *to_run_parts(self.model))


def recognise(candidate: Candidate) -> FastTextFile | None:
    with candidate.path.open("rb") as file:
        is_fasttext = file.read(4) == MAGIC.to_bytes(4, "little")
    return FastTextFile(candidate.path, "fasttext-bin") if is_fasttext else None


def write_as(format: Format, origin: GivesVectors, target: Path, options: VectorOptions) -> Written:
    """A .bin with the n-grams and labels that fastText's files and runs have; of other vectors, the words alone."""
    from canon.interop.runs import RunSource
    from canon.interop.word_weights import NO_COUNTS, counted_once

    is_whole = options == VectorOptions()
    words = origin.schema.words if isinstance(origin, RunSource) else None
    notes: tuple[str, ...] = ()
    if is_whole and isinstance(origin, FastTextFile):
        model = origin.model
    elif is_whole and isinstance(origin, RunSource) and origin.system in _SYSTEMS and words is not None:
        tensors = {name: tensor.numpy() for name, tensor in origin.weights.tensors.items()}
        model = from_run_parts(origin.system, origin.recipe.config, tensors, words, origin.schema.classes)
    else:
        file = origin.vectors(options)
        matrix_VD = np.array(file.matrix, np.float32)
        settings = FastTextSettings(dim=file.dim, buckets=0, minn=0, maxn=0)
        model = FastTextModel(settings, counted_once(file.words), matrix_VD, np.zeros_like(matrix_VD))
        notes = (*file.notes, NO_COUNTS, "It has no n-grams, so unknown words have no vectors.")
    write(target, model)
    return Written(kind=origin.kind, words=model.words.size, dim=model.settings.dim, notes=notes)


def vector(model: FastTextModel, word: str) -> np.ndarray:
    """[D]; zeros for an unknown word without n-grams."""
    return _mean(model, _word_rows(model, word))


def vectors(model: FastTextModel) -> np.ndarray:
    """[V, D] of all words, row i for word i."""
    settings = model.settings
    if model.pruned is not None:
        return np.stack([vector(model, word) for word in model.words.words])
    starts, rows = subword_table(model.words.words, settings.minn, settings.maxn, settings.buckets)
    matrix_VD = np.empty((model.words.size, settings.dim), np.float32)
    mean_rows(_plain(model.input), starts, rows, 0, model.words.size, matrix_VD)
    return matrix_VD


def line_rows(model: FastTextModel, text: str) -> np.ndarray:
    """Rows of the input matrix of one line, its end among them."""
    settings = model.settings
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
    grams = word_ngram_ids(hashes, settings.word_ngrams, settings.buckets)
    return np.concatenate([*rows, model.words.size + _left(model, grams)]).astype(np.int64)


def probabilities(model: FastTextModel, text: str) -> np.ndarray:
    """[K] of all labels, in the file's order; none at all, [0], for a line of which nothing is known."""
    if not model.is_classifier:
        raise CanonError("These are word vectors, not a classifier: there are no labels to predict.")
    rows = line_rows(model, text)
    if not len(rows):
        return np.zeros(0)
    hidden_D = _mean(model, rows)
    if not model.is_finite or not np.isfinite(hidden_D).all():
        raise CanonError("This classifier has NaN or infinite numbers, so it cannot be used.")
    if model.settings.loss == "hierarchical-softmax":
        return _down_the_tree(model, hidden_D)
    scores_K = (model.output @ hidden_D).astype(np.float32)
    if model.settings.loss == "softmax":
        raised_K = np.exp(scores_K - scores_K.max())
        return raised_K / raised_K.sum(dtype=np.float32) + _ADDED
    return _tabled(scores_K) + _ADDED


def predict(model: FastTextModel, text: str, top: int = 1, threshold: float = 0.0) -> list[tuple[str, float]]:
    """The most likely labels, with their prefix, and their probabilities; those under `threshold` are left out."""
    probability_K = probabilities(model, text)
    # The table's and softmax's values are held against the threshold itself, products down the tree with 1e-5 added.
    added = 0.0 if model.settings.loss == "hierarchical-softmax" else _ADDED
    least = threshold + (_ADDED if model.settings.loss == "hierarchical-softmax" else 0.0)
    order = np.argsort(-probability_K, kind="stable")[:top]
    return [
        (model.labels[label], float(probability_K[label])) for label in order if probability_K[label] - added >= least
    ]


def to_run_parts(model: FastTextModel) -> tuple[str, Table, dict[str, np.ndarray], Words, tuple[str, ...]]:
    """A model as canon has it: system, settings, tensors in memory, words, and a classifier's labels, without prefix.

    Bytes of words that are not UTF-8 become their codes, as \\xff."""
    settings = model.settings
    words = Words(
        [word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for word in model.words.words],
        model.words.counts,
        model.words.total,
    )
    output = _finite(in_memory(model.output), "output")
    if settings.loss == "hierarchical-softmax":
        output = output[: len(output) - 1]
    tensors = {"input": _finite(in_memory(model.input), "input"), "output": output}
    changes: Table = {name: getattr(settings, name) for name in ("dim", "loss", "negatives", "minn", "maxn")}
    changes |= {"vocab_size": words.size, "buckets": max(1, settings.buckets)}
    if not model.is_classifier:
        changes |= {"architecture": settings.model, "window": settings.window, "subsample": settings.subsample}
        return "fasttext", changes, tensors, words, ()
    # Another prefix is not in the file, so that it stays a part of the labels.
    prefix = LABEL if all(label.startswith(LABEL) for label in model.labels) else ""
    changes |= {"num_classes": len(model.labels), "word_ngrams": settings.word_ngrams, "label_prefix": prefix}
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
) -> FastTextModel:
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
    settings = FastTextSettings(
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
    return FastTextModel(settings, words, input_matrix, output, tuple(prefix + label for label in labels), label_counts)


def _finite(matrix: np.ndarray, name: str) -> np.ndarray:
    if len(odd := not_finite(matrix)):
        raise CanonError(
            f"Row {int(odd[0]):,} of the {name} vectors has NaN or infinite numbers, so they cannot be used."
        )
    return matrix


def _whole_input(config: Any, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """All rows of a classifier that stores those which training touched."""
    from canon.systems.words.classifier import Classifier

    if int(tensors["seed"][0]) < 0:
        raise CanonError("This classifier came from a pruned .ftz file, which a .bin cannot hold; keep the .ftz.")
    classifier = Classifier(config, Context())
    classifier.restore({"model": tensors}, {})
    return classifier.whole_input()


def _word_rows(model: FastTextModel, word: str) -> np.ndarray:
    settings, size = model.settings, model.words.size
    grams = size + _left(model, subword_ids(word, settings.minn, settings.maxn, settings.buckets))
    row = model.words.index.get(word)
    return grams if row is None else np.concatenate([[row], grams])


def _left(model: FastTextModel, buckets: np.ndarray) -> np.ndarray:
    """Rows of n-grams, counted from the last word's; those that were pruned are left out."""
    if model.pruned_rows is None:
        return buckets.astype(np.int64)
    kept = [model.pruned_rows[bucket] for bucket in buckets.tolist() if bucket in model.pruned_rows]
    return np.array(kept, np.int64)


def _mean(model: FastTextModel, rows: np.ndarray) -> np.ndarray:
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


def _down_the_tree(model: FastTextModel, hidden_D: np.ndarray) -> np.ndarray:
    """Π over the way to a label of σ(o·h) where it turns right, 1 − σ(o·h) where left."""
    tree = output_tree(model.label_counts)
    right_L = 1 / (1 + np.exp(-(model.output[:-1] @ hidden_D)[tree.nodes_L].astype(np.float64)))
    taken_L = np.log(np.where(tree.turns_L == 1, right_L, 1 - right_L) + _ADDED)
    label_L = np.repeat(np.arange(len(model.labels)), tree.lengths_V)
    return np.exp(np.bincount(label_L, taken_L, len(model.labels)))
