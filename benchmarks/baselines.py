"""What ten lines of scikit-learn reach on the rows that canon is trained and tested on.

Texts: TF-IDF of words and pairs of words (for Chinese, of characters) in logistic or ridge regression; for two texts
both, their product and their difference; for words to tag, each word's most frequent tag in training; for choices, a
logistic regression that separates right from wrong ones. Tables: gradient boosting. Word vectors: singular vectors of
the words' shifted mutual information. Translation: the word that goes with each word most, by Dice's coefficient.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import common  # noqa: F401  makes canon importable
import numpy as np

from canon import metrics
from canon.data.config import DataConfig
from canon.data.encodings import Ask
from canon.data.encodings.framed import FRAMED, Divided, codes_of, divide, numbers_of
from canon.data.formats.rows import ChoiceRows, TagRows, TextRows
from canon.data.kinds import open_for
from canon.data.kinds.examples import ExampleSource
from canon.data.targets import Number, Span
from canon.tasks.records import TASK_RECORDS


def split(name: str, limit: int = 0) -> Divided:
    """The rows that a run is trained and tested on, and their target."""
    config, ask = DataConfig(source=name, limit=limit), Ask(TASK_RECORDS["fine-tuning"].targets)
    source = open_for(FRAMED.kinds(ask), config)
    assert isinstance(source, ExampleSource)
    return divide(source, config, ask)


def of_text(name: str, metric: str, limit: int = 0) -> float | None:
    """The metric of the baseline on the test part of a set of labelled texts; None for spans, which have none."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge

    _, target, parts, _ = split(name, limit)
    fitted, tested = parts["train"], parts["test"]
    if isinstance(fitted, TagRows) and isinstance(tested, TagRows):
        return _most_frequent_tags(fitted, tested, metric)
    if isinstance(target, Span):
        return None
    chinese = any("一" <= character <= "鿿" for character in "".join(fitted.texts()[:100]))
    maker = TfidfVectorizer(analyzer="char" if chinese else "word", ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    maker.fit(fitted.texts())

    def features(first: Any, second: Any) -> Any:
        if second is None:
            return maker.transform(first)
        one, two = maker.transform(first), maker.transform(second)
        product = one.multiply(two)
        return hstack([one, two, product, abs(one - two), product.sum(1)]).tocsr()

    if isinstance(fitted, ChoiceRows) and isinstance(tested, ChoiceRows):
        return _choices(fitted, tested, features)
    assert isinstance(fitted, TextRows) and isinstance(tested, TextRows)
    x, z = features(fitted.first, fitted.second), features(tested.first, tested.second)
    if isinstance(target, Number):
        predicted = Ridge(alpha=1.0).fit(x, numbers_of(fitted)).predict(z)
        return metrics.spearman(numbers_of(tested), predicted)
    predicted = LogisticRegression(max_iter=1000, C=4.0).fit(x, codes_of(fitted, target.classes)).predict(z)
    right = codes_of(tested, target.classes)
    return metrics.matthews(right, predicted) if metric == "matthews" else metrics.accuracy(right, predicted)


def _choices(fitted: ChoiceRows, tested: ChoiceRows, features: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    def pairs(rows: ChoiceRows) -> Any:
        counts = [len(choices) for choices in rows.choices]
        asked = [question for question, count in zip(rows.questions, counts, strict=True) for _ in range(count)]
        right = [int(k == answer) for answer, n in zip(rows.answers or (), counts, strict=True) for k in range(n)]
        return features(asked, [choice for choices in rows.choices for choice in choices]), np.array(right), counts

    x, y, _ = pairs(fitted)
    z, _, counts = pairs(tested)
    scores = LogisticRegression(max_iter=1000).fit(x, y).decision_function(z)
    predicted = [int(part.argmax()) for part in np.split(scores, np.cumsum(counts)[:-1])]
    return float(np.mean(np.array(predicted) == np.array(tested.answers)))


def _most_frequent_tags(fitted: TagRows, tested: TagRows, metric: str) -> float:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    overall: Counter[str] = Counter()
    for words, tags in zip(fitted.words, fitted.tags or (), strict=True):
        overall.update(tags)
        for word, tag in zip(words, tags, strict=True):
            counts[word][tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    usual = overall.most_common(1)[0][0]
    predicted = [[best.get(word, usual) for word in words] for words in tested.words]
    right = [list(tags) for tags in tested.tags or ()]
    if metric == "entity_f1":
        return metrics.entity_scores(right, predicted).micro.f1
    return metrics.accuracy([tag for row in right for tag in row], [tag for row in predicted for tag in row])


def of_table(train: tuple[Any, Any], test: tuple[Any, Any], numbers: bool) -> float:
    """R² of a number, or accuracy of classes, by gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    boosting = HistGradientBoostingRegressor() if numbers else HistGradientBoostingClassifier()
    return float(boosting.fit(*train).score(*test))


def of_vectors(text: str, pairs: Sequence[tuple[str, str, float]], dim: int = 100, window: int = 5) -> float:
    """Spearman's correlation of the cosines of singular vectors with how similar people find the words."""
    import re

    from scipy.sparse import coo_matrix
    from sklearn.decomposition import TruncatedSVD

    words = re.findall(r"\w+", text.lower())
    known = {word: place for place, (word, _) in enumerate(Counter(words).most_common(10_000))}
    ids = np.array([known[word] for word in words if word in known])
    both = [(ids[:-shift], ids[shift:]) for shift in range(1, window + 1)]
    rows, columns = (np.concatenate(side) for side in zip(*(*both, *((b, a) for a, b in both)), strict=True))
    counts = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(known),) * 2).tocsr().tocoo()
    totals = np.asarray(counts.sum(1))[:, 0]
    shared = np.log(counts.data * totals.sum() / (totals[counts.row] * totals[counts.col]))
    kept = shared > 0
    matrix = coo_matrix((shared[kept], (counts.row[kept], counts.col[kept])), shape=counts.shape)
    vectors = TruncatedSVD(dim, random_state=0).fit_transform(matrix.tocsr())
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    asked = [pair for pair in pairs if pair[0].lower() in known and pair[1].lower() in known]
    cosines = [float(vectors[known[a.lower()]] @ vectors[known[b.lower()]]) for a, b, _ in asked]
    return metrics.spearman([score for _, _, score in asked], cosines)


def of_pairs(train: Sequence[tuple[str, str]], test: Sequence[tuple[str, str]]) -> float:
    """BLEU of a word-by-word translation."""
    from sacrebleu import corpus_bleu

    left: Counter[str] = Counter()
    right: Counter[str] = Counter()
    together: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for source, target in train:
        ours, theirs = set(source.split()), set(target.split())
        left.update(ours)
        right.update(theirs)
        for word in ours:
            together[word].update(theirs)

    def partner(word: str) -> str:
        return max(together[word], key=lambda other: 2 * together[word][other] / (left[word] + right[other]))

    best = {word: partner(word) for word in together}
    translated = [" ".join(best.get(word, word) for word in source.split()) for source, _ in test]
    return float(corpus_bleu(translated, [[target for _, target in test]]).score)
