"""Weights of classes against torch's weighted cross-entropy and scikit-learn; one process, two, and micro-batches."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight

from canon.data.encodings.features import FeatureSchema
from canon.data.targets import Class
from canon.errors import CanonError
from canon.objectives.classes import ClassLoss, class_weights
from canon.registry import find
from canon.tasks import table as tasks
from canon.training.run import Run
from canon.training.trainer import train
from canon.use.model import load
from tests.objectives.choices import choice

ROOT = Path(__file__).parents[2]
CLASSES, COUNTS = ("a", "b", "c"), (60, 30, 10)
LABELS = np.repeat(np.arange(3), COUNTS)


def logits(K: int = 3) -> torch.Tensor:
    return torch.randn(len(LABELS), K, generator=torch.Generator().manual_seed(0), requires_grad=True)


def loss_of(asked: object, name: str = "cross-entropy", counts: tuple[int, ...] = COUNTS, **more: object) -> ClassLoss:
    chosen = choice(name, "classification", class_weights=asked, **more)
    schema = FeatureSchema(Class(CLASSES[: len(counts)], counts=counts), (3,))
    task = tasks.create(find("mlp")[0], None, schema, chosen)
    return task.objective  # type: ignore[attr-defined, no-any-return]


def test_balanced_weights_are_scikit_learns() -> None:
    actual = class_weights("balanced", CLASSES, COUNTS)
    wanted = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    np.testing.assert_allclose(actual, wanted, rtol=1e-6)  # type: ignore[arg-type]
    assert class_weights("none", CLASSES, COUNTS) is None


@pytest.mark.parametrize("asked", ["balanced", {"b": 5.0, "c": 0.5}], ids=str)
def test_over_the_training_set_the_loss_is_torchs_weighted_mean(asked) -> None:
    """Σ w ℓ / n with weights of mean 1 is Σ w ℓ / Σ w, with the same gradient; also scikit-learn's log loss."""
    own, given, label = loss_of(asked), logits(), torch.from_numpy(LABELS)
    if asked == "balanced":
        weights = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    else:
        weights = np.array([1.0, 5.0, 0.5])
    theirs = F.cross_entropy(given, label, torch.tensor(weights, dtype=torch.float32))
    ours = own.total(given, label) / len(label)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert own.losses(given, label).mean().item() == pytest.approx(theirs.item(), rel=1e-6)
    (gradient,), (wanted,) = torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given)
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-8)
    predicted = given.detach().double().softmax(1).numpy()
    assert ours.item() == pytest.approx(log_loss(LABELS, predicted, sample_weight=weights[LABELS]), rel=1e-5)


@pytest.mark.parametrize("name", ["cross-entropy", "logistic", "hinge", "exponential"])
def test_every_objective_weights_an_examples_whole_loss(name: str) -> None:
    more = {"label_smoothing": 0.1} if name == "cross-entropy" else {}
    own, plain = loss_of({"a": 4.0}, name, **more), loss_of("none", name, **more)
    label = torch.from_numpy(LABELS)
    scale = 100 / (60 * 4 + 40)
    weights = torch.where(label == 0, 4.0 * scale, scale)
    torch.testing.assert_close(own.losses(logits(), label), weights * plain.losses(logits(), label))
    assert own.total(logits(), label).item() == pytest.approx(own.losses(logits(), label).sum().item(), rel=1e-6)


def test_what_constant_guesses_cost() -> None:
    """The best constant under weights, by brute force; of balanced classes it is the uniform guess."""
    result = loss_of({"c": 12.0}).floors(LABELS, 3)
    weights = class_weights({"c": 12.0}, CLASSES, COUNTS)
    assert weights is not None
    shares = np.array(COUNTS) * weights.numpy() / 100
    assert result["uniform"] == math.log(3) and result["class shares"] == pytest.approx(
        -(shares * np.log(shares)).sum()
    )
    constant = torch.tensor(np.log(shares), dtype=torch.float32).expand(100, 3)
    assert loss_of({"c": 12.0}).losses(constant, torch.from_numpy(LABELS)).mean().item() == pytest.approx(
        result["class shares"], rel=1e-5
    )
    assert loss_of("balanced").floors(LABELS, 3)["class shares"] == pytest.approx(math.log(3))


def test_a_class_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(CanonError, match=r'No class \(objective\.class_weights\) "d"; there are: a, b, c'):
        loss_of({"d": 2.0})


# Whole runs, on two classes of which one is rare


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    label = np.repeat([0, 1], [270, 30])
    rows = chance.normal(size=(300, 2)) + 1.2 * label[:, None]
    lines = [f"{x:.6f},{y:.6f},{('usual', 'rare one')[k]}" for (x, y), k in zip(rows, label, strict=True)]
    chance.shuffle(lines)
    file = tmp_path / "rare.csv"
    file.write_text("\n".join(["x,y,label", *lines]) + "\n", encoding="utf-8")
    return file


CHANGES = {"train.batch": 0, "train.device": "cpu", "train.threads": 1, "train.monitor": "loss"}


def test_a_run_comes_to_scikit_learns_optimum(rare: Path, tmp_path: Path) -> None:
    """Full-batch training of balanced classes ends where LogisticRegression(class_weight="balanced") does."""
    changes = {
        **CHANGES,
        "objective.class_weights": "balanced",
        "train.epochs": 400,
        "train.evaluate_every": 400,
        "optimizer.name": "adam",
        "optimizer.lr": 0.1,
        "optimizer.schedule": {"name": "cosine"},
    }
    run = train("linear/cancer-logistic", str(rare), tmp_path / "run", changes=changes, quiet=True)
    plain = {key: value for key, value in changes.items() if not key.startswith("objective")}
    other = train("linear/cancer-logistic", str(rare), tmp_path / "plain", changes=plain, quiet=True)
    from canon.training.data import read_data

    columns = read_data(run.recipe, run.path).splits["train"]
    features, label = np.asarray(columns["input"]), np.asarray(columns["target"])
    assert run.schema.target.counts == tuple(np.bincount(label).tolist())
    for path, kind in ((run.path, "balanced"), (other.path, None)):
        oracle = LogisticRegression(C=np.inf, class_weight=kind, tol=1e-10, max_iter=10_000).fit(features, label)
        network = load(path).network  # type: ignore[union-attr]
        weights = [parameter.detach().numpy().ravel() for parameter in network.parameters()]
        np.testing.assert_allclose(weights[0], oracle.coef_[0], rtol=5e-3)
        np.testing.assert_allclose(weights[1], oracle.intercept_, rtol=5e-3)


def test_micro_batches_and_two_processes_are_as_one(rare: Path, tmp_path: Path) -> None:
    sets = {
        "objective.class_weights": {"rare one": 7.0},
        "train.batch": 48,
        "train.steps": 12,
        "train.log_every": 1,
        "train.device": "cpu",
        "train.threads": 1,
        "objective.label_smoothing": 0.05,
    }
    one = train("mlp:tiny", str(rare), tmp_path / "one", changes=sets, quiet=True)
    micro = train("mlp:tiny", str(rare), tmp_path / "micro", changes=sets | {"train.micro_batch": 7}, quiet=True)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "canon"]
    written = sets | {"objective.class_weights": '{ "rare one" = 7.0 }'}
    flags = [word for key, value in written.items() for word in ("--set", f"{key}={value}")]
    command = [*launch, "train", "mlp:tiny", "--data", str(rare), "--out", str(tmp_path / "two"), "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost"]["processes"] == 2
    for other in (micro, Run(tmp_path / "two")):
        for ours, theirs in zip(one.metrics(), other.metrics(), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    plain = train(
        "mlp:tiny", str(rare), tmp_path / "plain", changes=sets | {"objective.class_weights": "none"}, quiet=True
    )
    assert plain.metrics()[0]["train/loss"] != pytest.approx(one.metrics()[0]["train/loss"], rel=1e-2)
    assert 'class_weights = { "rare one" = 7.0 }  # --set' in (one.path / "recipe.toml").read_text(encoding="utf-8")
