"""Margin losses against closed forms, torch and scikit-learn's LinearSVC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.svm import LinearSVC
from torch import Tensor

from canon.errors import CanonError
from canon.objectives import classification, margin

FORMULAS = {
    margin.logistic: lambda f, y: torch.log(1 + torch.exp(-y * f)),
    margin.hinge: lambda f, y: torch.maximum(torch.zeros_like(f), 1 - y * f),
    margin.exponential: lambda f, y: torch.exp(-y * f),
}


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("loss", FORMULAS)
def test_equals_its_formula_and_numerical_gradient(loss: Callable[..., Tensor]) -> None:
    f, y = data(9), torch.tensor([1.0, -1, 1, -1, 1, -1, 1, -1, 1])
    torch.testing.assert_close(loss(f, y), FORMULAS[loss](f, y))
    assert torch.autograd.gradcheck(lambda f: loss(f, y), f)


def test_logistic_is_binary_cross_entropy_and_hinge_is_torchs() -> None:
    f, label = data(6), torch.tensor([0, 1, 1, 0, 1, 0])
    torch.testing.assert_close(margin.logistic(f, 2 * label - 1), classification.binary_cross_entropy(f, label))
    scores, target = data(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    sign = F.one_hot(target, 4) * 2.0 - 1
    # HingeEmbeddingLoss takes the distance x and gives max(0, 1 − x) for label −1: here x = y f.
    theirs = F.hinge_embedding_loss(sign * scores, -torch.ones_like(scores), reduction="none").sum(1)
    torch.testing.assert_close(margin.one_vs_rest(scores, target, margin.hinge), theirs)


@pytest.mark.parametrize("loss", FORMULAS)
def test_one_vs_rest_equals_a_loop(loss: Callable[..., Tensor]) -> None:
    scores, label = data(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    losses = margin.one_vs_rest(scores, label, loss)
    for b in range(6):
        parts = [FORMULAS[loss](scores[b, k], torch.tensor(1.0 if k == label[b] else -1.0)) for k in range(4)]
        torch.testing.assert_close(losses[b], sum(parts))
    assert torch.autograd.gradcheck(lambda f: margin.one_vs_rest(f, label, loss), scores)
    single = data(5, 1)
    torch.testing.assert_close(
        margin.one_vs_rest(single, torch.tensor([0, 1, 1, 0, 1]), loss),
        FORMULAS[loss](single[:, 0], torch.tensor([-1.0, 1, 1, -1, 1])),
    )


def test_multiclass_exponential_equals_a_loop_and_is_the_binary_loss_for_two_classes() -> None:
    scores, label = data(6, 4), torch.tensor([0, 3, 1, 2, 2, 0])
    losses = margin.multiclass_exponential(scores, label)
    for b in range(6):
        y = torch.tensor([1.0 if k == label[b] else -1 / 3 for k in range(4)], dtype=torch.float64)
        torch.testing.assert_close(losses[b], torch.exp(-(y @ scores[b]) / 4))
    assert torch.autograd.gradcheck(lambda f: margin.multiclass_exponential(f, label), scores)
    s, sign = data(5), torch.tensor([-1.0, 1, 1, -1, 1])
    two = margin.multiclass_exponential(torch.stack([-s, s], 1), (sign > 0).long())
    torch.testing.assert_close(two, margin.exponential(s, sign))


def test_soft_margin_is_least_where_linear_svc_stops() -> None:
    """scikit-learn's dual solver and subgradient descent on our objective reach one optimum."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0.7, 1, (40, 3)), rng.normal(-0.7, 1, (40, 3))])
    y = np.repeat([1.0, -1.0], 40)
    svc = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0).fit(x, y)
    X, Y = torch.tensor(x), torch.tensor(y)

    def objective(w: Tensor) -> Tensor:
        return margin.soft_margin(w, X @ w, Y, C=0.5)

    theirs = objective(torch.tensor(svc.coef_[0]))
    by_hand = 0.5 * (svc.coef_**2).sum() + 0.5 * np.maximum(0, 1 - y * (x @ svc.coef_[0])).sum()
    assert theirs.item() == pytest.approx(by_hand)
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    best = torch.inf
    for step in range(1, 4001):
        value = objective(w)
        best = min(best, value.item())
        (grad,) = torch.autograd.grad(value, w)
        with torch.no_grad():
            w -= grad / step  # the objective is 1-strongly convex: this rate converges
    assert best >= theirs.item() - 1e-6  # nothing lies below the optimum
    assert best == pytest.approx(theirs.item(), rel=1e-3)
    np.testing.assert_allclose(w.detach().numpy(), svc.coef_[0], atol=0.02)


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(CanonError, match="one shape"):
        margin.hinge(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(CanonError, match="One against the rest"):
        margin.one_vs_rest(torch.zeros(3), torch.zeros(3), margin.hinge)
    with pytest.raises(CanonError, match="price C"):
        margin.soft_margin(torch.zeros(3), torch.zeros(3), torch.ones(3), C=0)
