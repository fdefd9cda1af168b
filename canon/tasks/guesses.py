"""Whether predictions are any better than those of a guess that looks at no input: the majority class, the mean, the
usual place of the right choice, a random order, or how often each token comes; of tags, each word's most frequent one.

By the usual test of independence: predictions that have nothing to do with the truth have a correlation within
1.64 / √n of 0 in 95 of 100 cases (Matthews' correlation of classes, Pearson's of numbers).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from canon import metrics

_FEW = 10  # examples by which a model that beats the guess is not judged any further
_SIDE = 1.64  # standard errors: the one-sided 5 % point of the normal distribution


def of_classes(true: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...], counts: tuple[int, ...]) -> str:
    """counts: training examples of each class."""
    if not len(true) or not counts:
        return ""
    most = int(np.argmax(counts))
    floor, reached = float((true == most).mean()), metrics.accuracy(true, predicted)
    if metrics.matthews(true, predicted) > _SIDE / np.sqrt(len(true)) or floor == reached == 1:
        return ""
    better = "no" if reached <= floor else "not clearly"
    if reached > floor and len(true) < _FEW:
        return ""
    return (
        f'{better} better than always saying "{classes[most]}": accuracy {reached:.3f} against {floor:.3f} on '
        f"{len(true):,} examples"
    )


def of_numbers(true: np.ndarray, predicted: np.ndarray, mean: float) -> str:
    """mean: of the training examples."""
    if len(true) < 3 or not np.std(true) > 0:
        return ""
    floor, reached = float(np.mean((true - mean) ** 2)), metrics.mean_squared_error(true, predicted)
    related = metrics.pearson(true, predicted) if np.std(predicted) > 0 else 0.0
    if reached < floor and related > _SIDE / np.sqrt(len(true)):
        return ""
    better = "no" if reached >= floor else "not clearly"
    return (
        f"{better} better than always saying the mean, {mean:.4g}: mse {reached:.4g} against {floor:.4g} on "
        f"{len(true):,} examples"
    )


def of_choices(true: np.ndarray, predicted: np.ndarray, sizes: np.ndarray, places: np.ndarray) -> str:
    """sizes: choices of each example. places: of the right choices in training, from 0."""
    if not len(true) or not len(places):
        return ""
    place = int(np.bincount(places).argmax())
    chance, always = float((1 / sizes).mean()), float((true == place).mean())
    floor, reached = max(chance, always), metrics.accuracy(true, predicted)
    if reached > floor + _SIDE * np.sqrt(floor * (1 - floor) / len(true)) or (reached > floor and len(true) < _FEW):
        return ""
    better = "no" if reached <= floor else "not clearly"
    guess = "a guess" if chance >= always else f"always saying choice {place + 1}"
    return f"{better} better than {guess}: accuracy {reached:.3f} against {floor:.3f} on {len(true):,} examples"


Sentences = Sequence[Sequence[str]]


def most_frequent_tags(words: Sentences, tags: Sentences, asked: Sentences) -> list[list[str]]:
    """Of each word its most frequent tag in training; of an unknown word that of all words."""
    by_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence, own in zip(words, tags, strict=True):
        for word, tag in zip(sentence, own, strict=True):
            by_word[word][tag] += 1
    usual = Counter(tag for own in tags for tag in own).most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    return [[best.get(word, usual) for word in sentence] for sentence in asked]


def of_order(reached_Q: np.ndarray, chance_Q: np.ndarray, metric: str) -> str:
    """The metric of each query, and what a random order has on average."""
    reached, floor = float(reached_Q.mean()), float(chance_Q.mean())
    error = float((reached_Q - chance_Q).std()) / np.sqrt(len(reached_Q))
    if reached > floor + (_SIDE * error if len(reached_Q) >= _FEW else 0) or floor == reached == 1:
        return ""
    better = "no" if reached <= floor else "not clearly"
    return (
        f"{better} better than a random order: {metric} {reached:.4f} against {floor:.4f} on {len(reached_Q):,} queries"
    )
