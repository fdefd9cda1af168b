"""Are two samples from one distribution? Train a classifier to tell them apart and look at held-out accuracy.

Paper: Lopez-Paz and Oquab (2017), Revisiting Classifier Two-Sample Tests. `classifier_two_sample_test` splits the
pooled sample, trains on one part, and takes the accuracy on the other as the statistic (section 3, steps 1–5).
Deviations: the default p-value is exact instead of the paper's normal limit N(½, 1/(4n)). Given the classifier's
calls on the held-out points, under the null every assignment of the held-out labels is equally likely, so the number
of points of the second sample that were called second is hypergeometric; no equal sample sizes are needed.
p_value="normal" is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import choice, number, numbers


@dataclass(frozen=True)
class TwoSampleResult:
    """Held-out accuracy, the probability of at least that accuracy under the null, and what they rest on.

    labels, predictions: truth and calls of the held-out points (0 for the first sample, 1 for the second).
    """

    accuracy: float
    p_value: float
    held_out: int
    labels: np.ndarray
    predictions: np.ndarray


def _classifier(name: str, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    models = {
        "logistic": LogisticRegression(max_iter=1000, random_state=seed),
        # One hidden layer of 20 units, as in the paper.
        "mlp": MLPClassifier(hidden_layer_sizes=(20,), max_iter=300, random_state=seed, tol=1e-3),
    }
    return make_pipeline(StandardScaler(), models[choice("classifier", name, tuple(models))])


def _sample(name: str, values: ArrayLike) -> np.ndarray:
    rows = numbers(name, values, None, finite=True).astype(np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise CanonError(f"{name} must be a vector or an n × features matrix, got shape {rows.shape}.")
    if len(rows) < 4:
        raise CanonError(f"{name} has {len(rows)} points; at least 4 are needed to train and to test.")
    return rows


def classifier_two_sample_test(
    first: ArrayLike,
    second: ArrayLike,
    *,
    classifier: str | Any = "logistic",
    test_share: float = 0.5,
    p_value: str = "exact",
    seed: int = 0,
) -> TwoSampleResult:
    """Train on part of both samples, test on the rest; a small p-value says the distributions differ.

    classifier: "logistic" (default; sees shifts of the mean), "mlp" (20 hidden units; also sees shape), or any
    object with scikit-learn's fit and predict. test_share: the held-out share of each sample (default ½).
    p_value: "exact" (default, see the top of this file) or "normal", the paper's limit, which needs equal sizes. seed
    fixes the split and the classifier.
    """
    choice("p_value", p_value, ("exact", "normal"))
    if not 0 < number("test_share", test_share) < 1:
        raise CanonError(f"test_share must lie between 0 and 1, got {test_share}.")
    samples = [_sample("first", first), _sample("second", second)]
    if samples[0].shape[1] != samples[1].shape[1]:
        raise CanonError(
            f"first and second must have the same number of features, "
            f"got {samples[0].shape[1]} and {samples[1].shape[1]}."
        )
    if p_value == "normal" and len(samples[0]) != len(samples[1]):
        raise CanonError(
            f'p_value="normal" assumes samples of equal size, got {len(samples[0])} and {len(samples[1])}; use "exact".'
        )
    model = _classifier(classifier, seed) if isinstance(classifier, str) else classifier
    rng = np.random.default_rng(seed)
    parts: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    for sample in samples:
        order = rng.permutation(len(sample))
        held = min(max(round(test_share * len(sample)), 1), len(sample) - 1)
        parts["test"].append(sample[order[:held]])
        parts["train"].append(sample[order[held:]])
    model.fit(np.concatenate(parts["train"]), np.repeat([0, 1], [len(x) for x in parts["train"]]))
    truth = np.repeat([0, 1], [len(x) for x in parts["test"]])
    calls = np.asarray(model.predict(np.concatenate(parts["test"]))).astype(np.int64)
    n = len(truth)
    right = int(np.count_nonzero(truth == calls))
    if p_value == "normal":
        p = erfc((right / n - 0.5) * 2 * sqrt(n) / sqrt(2)) / 2
    else:
        from scipy.stats import hypergeom

        # With both margins fixed, accuracy rises by 2/n with each point of the second sample that is called second.
        both = int(np.count_nonzero(truth & calls))
        p = float(hypergeom.sf(both - 1, n, int(truth.sum()), int(calls.sum())))
    return TwoSampleResult(accuracy=right / n, p_value=min(1.0, p), held_out=n, labels=truth, predictions=calls)
