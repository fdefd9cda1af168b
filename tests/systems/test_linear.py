"""The linear systems, the perceptron and AdaBoost against closed forms, scikit-learn, plain torch and brute force.

Convex systems are trained to their optimum by their own recipes and compared with the exact one.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

import canon
from canon.data.encodings.features import FeatureSchema
from canon.data.targets import Class
from canon.objectives.margin import soft_margin
from canon.registry import find
from canon.tasks import table as tasks
from canon.tasks.base import Turn
from canon.training.data import read_data
from canon.training.run import Run
from canon.training.trainer import train
from tests.learners import data_of


def fitted(run: Run) -> tuple[Any, np.ndarray, np.ndarray]:
    """The trained model, and the features (float64) and targets that it was trained on."""
    columns = read_data(run.recipe).splits["train"]
    return canon.load(run.path), np.asarray(columns["input"], np.float64), np.asarray(columns["target"])


def weights(model: Any) -> np.ndarray:
    """One row per output: w, then b where there is one."""
    state = {name: tensor.double().numpy() for name, tensor in model.network.state_dict().items()}
    bias = [state["output.bias"][:, None]] if "output.bias" in state else []
    return np.hstack([state["output.weight"], *bias])


def with_ones(features: np.ndarray) -> np.ndarray:
    return np.hstack([features, np.ones((len(features), 1))])


def predictions(model: Any, features: np.ndarray) -> list[Any]:
    """Of rows that are encoded already."""
    columns = {"input": features}
    return [row["prediction"] for row in model.task.rows(model.learner.outputs(columns), columns, 1)]


def relative(actual: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(actual - wanted) / np.linalg.norm(wanted))


# Linear regression


def test_linear_regression_meets_the_closed_form(canon: Callable[..., Any]) -> None:
    """`canon train linear-regression` against least squares by numpy's SVD in float64 (measured: 3e-7 and 5e-8)."""
    assert canon("train", "linear-regression", "--out", "run", "--quiet").code == 0
    model, features, target = fitted(Run(Path("run")))
    mean, std = target.mean(dtype=np.float64), target.std(dtype=np.float64)
    best = np.linalg.lstsq(with_ones(features), (target - mean) / std, rcond=None)[0]
    assert relative(weights(model)[0], best) < 1e-4
    unseen = np.asarray(read_data(model.run.recipe).splits["test"]["input"])
    reported = np.array(predictions(model, unseen))
    assert relative(reported, with_ones(unseen) @ best * std + mean) < 1e-4
    # As scores, in the units of the data.
    wanted = np.mean((with_ones(features) @ best * std + mean - target) ** 2)
    assert math.isclose(model.evaluate(split="train")["mse"], wanted, rel_tol=1e-5)


# Softmax and logistic regression


def task_of(name: str, schema: FeatureSchema) -> Any:
    system, preset = find(name)
    return tasks.create(system, system.configure(preset, {"shape": list(schema.shape)}), schema)


def test_softmax_regression_by_hand() -> None:
    """Scores, loss and gradients against the equations in numpy: ∂L/∂W = (p − y)ᵀ x, ∂L/∂b = Σ (p − y)."""
    rng = np.random.default_rng(0)
    inputs, weight, bias = rng.normal(size=(7, 2, 3)), rng.normal(size=(4, 6)), rng.normal(size=4)
    target = rng.integers(0, 4, 7)
    network = canon.create("softmax-regression", shape=(2, 3), num_classes=4).double()
    network.load_state_dict({"output.weight": torch.tensor(weight), "output.bias": torch.tensor(bias)})
    task = task_of("softmax-regression", FeatureSchema(Class(tuple("abcd")), (2, 3)))
    batch = {"input": torch.tensor(inputs), "target": torch.tensor(target)}
    loss = task.loss(network, batch, "all", Turn())
    loss.backward()

    rows = inputs.reshape(7, 6)
    scores = rows @ weight.T + bias
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    error = probability - np.eye(4)[target]
    np.testing.assert_allclose(network(batch["input"]).detach(), scores, rtol=1e-12)
    assert math.isclose(loss.item(), -np.log(probability[np.arange(7), target]).sum(), rel_tol=1e-12)
    np.testing.assert_allclose(network.output.weight.grad, error.T @ rows, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(network.output.bias.grad, error.sum(axis=0), rtol=1e-10, atol=1e-12)
    reported = task.rows({"logits": np.array(scores)}, {}, top=4)
    for row, wanted in zip(reported, probability, strict=True):
        by_class = {choice["class"]: choice["probability"] for choice in row["top"]}
        np.testing.assert_allclose([by_class[name] for name in "abcd"], wanted, rtol=1e-5)


def clouds(path: Path, classes: int) -> Path:
    """Overlapping clouds, so that the unregularised optimum is finite."""
    rng = np.random.default_rng(classes)
    label = rng.integers(0, classes, 240)
    rows = rng.normal(size=(240, 3)) + rng.normal(size=(classes, 3))[label]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "label"])
        writer.writerows([*row, f"k{code}"] for row, code in zip(rows.tolist(), label, strict=True))
    return path


def log_loss(scores: np.ndarray, is_own: np.ndarray) -> float:
    return float(np.logaddexp(0, np.where(is_own, -scores, scores)).mean())


FULL_BATCH = {
    "train.steps": 1500,
    "train.batch": 0,
    "train.threads": 1,
    "data.valid": 0.0,
    "optimizer.name": "sgd",
    "optimizer.lr": 1.0,
    "optimizer.momentum": 0.9,
}


def test_logistic_regression_meets_the_optimum(tmp_path: Path) -> None:
    """Weights and mean loss against LogisticRegression without penalty (measured: 3e-6 and 1e-8)."""
    source = clouds(tmp_path / "two.csv", 2)
    run = train("logistic-regression", str(source), tmp_path / "run", changes=FULL_BATCH, quiet=True)
    model, features, target = fitted(run)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(features, target)
    best = np.hstack([oracle.coef_[0], oracle.intercept_])
    assert weights(model).shape == (1, 4), "two classes have one score"
    assert relative(weights(model)[0], best) < 1e-3
    loss, least = model.evaluate(split="train")["loss"], log_loss(with_ones(features) @ best, target == 1)
    assert math.isclose(loss, least, rel_tol=1e-4) and loss > least * (1 - 1e-6)


def test_logistic_regression_of_three_classes_is_one_against_the_rest(tmp_path: Path) -> None:
    """Each class's weights, and the sum of the three losses, against OneVsRestClassifier (measured: 8e-8 and 1e-9)."""
    source = clouds(tmp_path / "three.csv", 3)
    run = train("logistic-regression", str(source), tmp_path / "run", changes=FULL_BATCH, quiet=True)
    model, features, target = fitted(run)
    oracle = OneVsRestClassifier(LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)).fit(features, target)
    best = np.array([np.hstack([part.coef_[0], part.intercept_]) for part in oracle.estimators_])
    assert relative(weights(model), best) < 1e-3
    least = sum(log_loss(with_ones(features) @ best[k], target == k) for k in range(3))
    assert math.isclose(model.evaluate(split="train")["loss"], least, rel_tol=1e-4)
    reported = predictions(model, features.astype(np.float32))
    assert reported == [f"k{code}" for code in oracle.predict(features)]


# The support vector machine


def primal(weight: np.ndarray, bias: float, features: np.ndarray, sign: np.ndarray, C: float) -> float:
    """½‖w‖² + C Σ max(0, 1 − y (w·x + b)), in numpy."""
    return float(0.5 * weight @ weight + C * np.maximum(0, 1 - sign * (features @ weight + bias)).sum())


@pytest.mark.parametrize(
    ("changes", "C"), [({}, 1.0), ({"system.bias": False}, 1.0), ({"system.C": 0.1}, 0.1)], ids=str
)
def test_the_linear_svm_meets_the_soft_margin_optimum(changes: dict[str, Any], C: float, tmp_path: Path) -> None:
    """The whole objective at our weights against libsvm's (with b) and liblinear's (without) at theirs.

    Measured: 1.1e-4 above the optimum with b, 7.9e-5 without, 1.0e-5 at C = 0.1.
    """
    run = train("linear/cancer-svm", out=tmp_path / "run", changes={"train.threads": 1, **changes}, quiet=True)
    model, features, target = fitted(run)
    sign = np.where(target == 1, 1.0, -1.0)
    actual = weights(model)[0]
    if len(actual) == features.shape[1]:
        oracle = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(features, sign)
        least = primal(oracle.coef_[0], 0.0, features, sign, C)
        weight, bias = actual, 0.0
    else:
        oracle = SVC(kernel="linear", C=C, tol=1e-8).fit(features, sign)
        least = primal(oracle.coef_[0], oracle.intercept_[0], features, sign, C)
        weight, bias = actual[:-1], actual[-1]
    ours = soft_margin(torch.tensor(weight), torch.tensor(features @ weight + bias), torch.tensor(sign), C).item()
    assert math.isclose(ours, primal(weight, bias, features, sign, C), rel_tol=1e-9)
    assert least * (1 - 1e-6) < ours < least * (1 + 1e-3)
    # The run reports the same objective, divided by C n, as its structural risk.
    assert run.result is not None
    assert math.isclose(run.result["risk"]["structural"], ours / (C * len(sign)), rel_tol=1e-4)


# The multilayer perceptron

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "tanh": torch.tanh,
    "relu": lambda x: x.clamp(min=0),
    "leaky-relu": lambda x: torch.where(x > 0, x, 0.01 * x),
    "elu": lambda x: torch.where(x > 0, x, torch.expm1(x)),
    "selu": F.selu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu-sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "softmax": lambda x: torch.softmax(x, dim=-1),
}
NORMS = {"none": lambda units: [], "batch": lambda units: [nn.BatchNorm1d(units)], "layer": lambda u: [nn.LayerNorm(u)]}


class Applied(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = function  # type: ignore[method-assign]


def plain_mlp(activation: str, norm: str, dropout: float) -> nn.Sequential:
    """12 → 9 → 8 → 5, written out in torch: linear, norm, φ, dropout."""
    dropped = nn.AlphaDropout if activation == "selu" else nn.Dropout
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, units in ((12, 9), (9, 8)):
        layers += [nn.Linear(inputs, units), *NORMS[norm](units), Applied(ACTIVATIONS[activation])]
        layers += [dropped(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(8, 5))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mlp_is_the_plain_sequence(activation: str, norm: str, dropout: float) -> None:
    """Outputs and gradients with copied weights, in training (same seed, same masks) and in evaluation."""
    torch.manual_seed(1)
    config = {"hidden": (9, 8), "activation": activation, "norm": norm, "dropout": dropout}
    ours = canon.create("mlp", shape=(3, 4), num_classes=5, **config).double()
    plain = plain_mlp(activation, norm, dropout).double()
    parameters = list(zip(ours.parameters(), plain.parameters(), strict=True))
    with torch.no_grad():
        for own, other in parameters:
            own.add_(0.1 * torch.randn_like(own))
            other.copy_(own)
    inputs, target = torch.randn(6, 3, 4, dtype=torch.float64), torch.randint(0, 5, (6,))
    for training in (True, False):
        results = []
        for network in (ours.train(training), plain.train(training)):
            network.zero_grad()
            torch.manual_seed(2)
            outputs = network(inputs)
            F.cross_entropy(outputs, target).backward()
            results.append(outputs)
        torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)
        for own, other in parameters:
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-8, atol=1e-12)


def test_the_first_weights_suit_the_activation() -> None:
    """SELU: LeCun's standard deviation 1/√fan_in; otherwise He's √(2/fan_in); biases zero."""
    torch.manual_seed(0)
    for activation, variance in (("selu", 1.0), ("relu", 2.0)):
        network = canon.create("mlp", shape=(400,), hidden=(500, 300), activation=activation)
        for layer in (module for module in network.modules() if isinstance(module, nn.Linear)):
            wanted = math.sqrt(variance / layer.in_features)
            # The standard error of a standard deviation over n weights is about 1/√(2n).
            assert math.isclose(layer.weight.std().item(), wanted, rel_tol=4 / math.sqrt(2 * layer.weight.numel()))
            assert layer.bias.abs().max() == 0


def test_selu_with_alpha_dropout_normalises_itself() -> None:
    """Mean 0 and variance 1 after ten layers in training (Klambauer et al. 2017); ReLU with dropout has neither."""
    torch.manual_seed(0)
    moments = {}
    for activation in ("selu", "relu"):
        network = canon.create("mlp", shape=(256,), hidden=(256,) * 10, activation=activation, dropout=0.1)
        kinds = {type(module) for module in network.modules() if "Dropout" in type(module).__name__}
        assert kinds == {nn.AlphaDropout if activation == "selu" else nn.Dropout}
        with torch.no_grad():
            hidden = network.train().layers(torch.randn(4096, 256))
        moments[activation] = hidden.mean().item(), hidden.var().item()
    assert abs(moments["selu"][0]) < 0.1 and 0.8 < moments["selu"][1] < 1.2
    assert abs(moments["relu"][0]) > 0.2


# AdaBoost


def boost(rows: np.ndarray, target: np.ndarray, classes: int) -> Any:
    model = canon.create("adaboost", shape=rows.shape[1:], num_classes=classes)
    model.begin(data_of({"input": rows, "target": target}), len(rows), 1)
    return model


def vote(stump: tuple[int, float, int, int], rows: np.ndarray) -> np.ndarray:
    feature, threshold, below, above = stump
    return np.array([below if row[feature] <= threshold else above for row in rows])


def least_error(rows: np.ndarray, target: np.ndarray, weight: np.ndarray, classes: int) -> float:
    """Over all features, all thresholds between values (and none), all pairs of classes."""
    least = math.inf
    for feature in range(rows.shape[1]):
        values = np.unique(rows[:, feature]).astype(np.float64)
        for threshold in [*(values[1:] + values[:-1]) / 2, math.inf]:
            for pair in itertools.product(range(classes), repeat=2):
                wrong = vote((feature, threshold, *pair), rows.astype(np.float64)) != target
                least = min(least, weight[wrong].sum())
    return least


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("decimals", [0, 6], ids=["many ties", "no ties"])
@pytest.mark.parametrize("seed", range(3))
def test_the_stump_is_the_best_of_all(classes: int, decimals: int, seed: int) -> None:
    """The weighted error of the chosen stump against brute force, under random weights."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 3)).round(decimals).astype(np.float32)
    target, weight = rng.integers(0, classes, 12), rng.dirichlet(np.ones(12))
    model = boost(rows, target, classes)
    model.weights_N = weight.copy()
    model.step(1)
    wanted = least_error(rows, target, weight, classes)
    assert math.isclose(weight[vote(model.stumps[0], rows) != target].sum(), wanted, rel_tol=1e-9)
    assert math.isclose(model.logs()["weighted_error"], wanted, rel_tol=1e-9)


def test_a_threshold_parts_neighbouring_floats() -> None:
    """Two values with no float between them: the stump must still vote as it was chosen to."""
    low = np.nextafter(np.float32(1), np.float32(2))
    rows = np.array([[low], [np.nextafter(low, np.float32(2))]], dtype=np.float32)
    model = boost(rows, np.array([0, 1]), 2)
    model.step(1)
    assert model.outputs({"input": rows})["logits"].argmax(1).tolist() == [0, 1]


@pytest.mark.parametrize("classes", [2, 4])
def test_rounds_follow_the_equations(classes: int) -> None:
    """Weights, votes, scores and losses of 15 rounds against SAMME written out (Zhu et al. 2009, algorithm 2)."""
    K, M = classes, 15
    rng = np.random.default_rng(K)
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    target = (np.digitize(rows[:, 0] + rows[:, 1], np.linspace(-1, 1, K - 1)) + (rng.random(60) < 0.1)) % K
    model = boost(rows, target, K)
    weight = np.full(60, 1 / 60)
    scores, product, total = np.zeros((60, K)), 1.0, 0.0
    for number in range(1, M + 1):
        assert model.step(number)
        reported = vote(model.stumps[-1], rows)
        wrong = reported != target
        error = weight[wrong].sum() / weight.sum()
        alpha = math.log((1 - error) / error) + math.log(K - 1)
        assert math.isclose(model.votes[-1], alpha, rel_tol=1e-9)
        assert math.isclose(model.logs()["weighted_error"], error, rel_tol=1e-9)
        # g is 1 for the class voted for and −1/(K−1) for the others; β = α (K−1)²/K.
        code = np.where(np.arange(K) == reported[:, None], 1.0, -1 / (K - 1))
        scores += alpha * (K - 1) ** 2 / K * code
        product *= (1 - error) + error * math.exp(alpha)  # by what this round's weights grow before normalising
        total += alpha
        weight = weight * np.exp(alpha * wrong)
        weight /= weight.sum()
        np.testing.assert_allclose(model.weights_N, weight, rtol=1e-8)
    outputs = model.outputs({"input": rows})
    np.testing.assert_allclose(outputs["logits"], scores, rtol=1e-9, atol=1e-12)
    task = task_of("adaboost", FeatureSchema(Class(tuple("abcd"[:K])), (4,)))
    losses = task.losses(outputs["logits"], target)
    # The identities of boosting: losses are the weights without their normalisers, and their mean is a product.
    np.testing.assert_allclose(losses / losses.sum(), weight, rtol=1e-8)
    assert math.isclose(losses.mean(), product * math.exp(-total * (K - 1) / K), rel_tol=1e-9)
    if K == 2:
        np.testing.assert_allclose(losses, np.exp(-np.where(target == 1, 1, -1) * scores[:, 1]), rtol=1e-9)
    counted = np.zeros((60, K))
    for stump, alpha in zip(model.stumps, model.votes, strict=True):
        counted[np.arange(60), vote(stump, rows)] += alpha
    assert (task.scores(outputs).argmax(1) == counted.argmax(1)).all(), "the class of most votes"


def test_boosting_stops_when_nothing_is_left_to_learn() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
    perfect = boost(rows, np.array([0, 0, 1, 1]), 2)
    assert not perfect.step(1), "one stump is right everywhere"
    assert len(perfect.votes) == 1
    hopeless = boost(np.zeros((4, 1), np.float32), np.array([0, 0, 1, 1]), 2)
    assert not hopeless.step(1), "no stump is better than chance"
    assert not hopeless.votes


def test_adaboost_is_as_accurate_as_scikit_learns(tmp_path: Path) -> None:
    """100 rounds on breast-cancer: test accuracy within 0.03 (measured: both 0.9649)."""
    changes = {"data.valid": 0.0, "train.threads": 1}
    run = train("linear/cancer-adaboost", out=tmp_path / "run", changes=changes, quiet=True)
    model, features, target = fitted(run)
    assert len(model.learner.votes) == 100
    oracle = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=100, random_state=0)
    test = read_data(run.recipe).splits["test"]
    wanted = oracle.fit(features, target).score(test["input"], test["target"])
    assert abs(model.evaluate()["accuracy"] - wanted) <= 0.03
    assert wanted > 0.93
