"""Activations against torch's functionals, closed forms and numerical differentiation."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn.activations import ACTIVATIONS, ReLU, activation, dropout_for, gelu_sigmoid, masked_softmax, relu

X = torch.linspace(-4, 4, 41, dtype=torch.float64) + 0.01  # no kink at a sampled place
FORMULAS = {
    "identity": lambda x: x,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "tanh": lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
    "relu": lambda x: torch.where(x > 0, x, 0 * x),
    "leaky-relu": lambda x: torch.where(x > 0, x, 0.01 * x),
    "elu": lambda x: torch.where(x > 0, x, torch.exp(x) - 1),
    "selu": lambda x: 1.0507009873554805 * torch.where(x > 0, x, 1.6732632423543772 * (torch.exp(x) - 1)),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu-sigmoid": lambda x: x / (1 + torch.exp(-1.702 * x)),
    "softmax": lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_value_and_derivative_equal_the_formula(name: str) -> None:
    ours, formula = X.clone().requires_grad_(), X.clone().requires_grad_()
    weights = torch.linspace(1, 2, len(X), dtype=torch.float64)
    out, expected = activation(name)(ours), FORMULAS[name](formula)
    torch.testing.assert_close(out, expected)
    (out * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(ours.grad, formula.grad)
    assert torch.autograd.gradcheck(activation(name), X.clone().requires_grad_())


@pytest.mark.parametrize(("name", "alpha"), [("leaky-relu", 0.3), ("elu", 0.5)])
def test_alpha_is_the_papers(name: str, alpha: float) -> None:
    negative = {"leaky-relu": lambda x: alpha * x, "elu": lambda x: alpha * (torch.exp(x) - 1)}[name]
    torch.testing.assert_close(activation(name, alpha=alpha)(X), torch.where(X > 0, X, negative(X)))


@pytest.mark.parametrize("subgradient", [0.0, 0.5, 1.0])
def test_relu_takes_the_given_derivative_at_zero(subgradient: float) -> None:
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    out = activation("relu", subgradient=subgradient)(x)
    out.backward(torch.full((3,), 3.0))
    assert out.tolist() == [0.0, 0.0, 2.0]
    assert x.grad.tolist() == [0.0, 3.0 * subgradient, 3.0]


def test_relu_with_a_subgradient_equals_torch_away_from_zero() -> None:
    assert torch.equal(relu(X, 0.5), F.relu(X))
    assert torch.autograd.gradcheck(ReLU(0.5), X.clone().requires_grad_())


def test_gelu_forms_stay_within_their_known_distance() -> None:
    """The tanh form is within 1e-3 of the exact one, the sigmoid form within 0.021."""
    assert (F.gelu(X, approximate="tanh") - F.gelu(X)).abs().max() < 1e-3
    assert 0.01 < (gelu_sigmoid(X) - F.gelu(X)).abs().max() < 0.021


def brute_force_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    out = torch.zeros_like(scores)
    for row in range(len(scores)):
        places = [column for column in range(scores.shape[1]) if allowed[row, column]]
        total = sum(math.exp(scores[row, column]) for column in places)
        for column in places:
            out[row, column] = math.exp(scores[row, column]) / total
    return out


def test_masked_softmax_equals_a_loop_and_is_zero_where_nothing_is_allowed() -> None:
    torch.manual_seed(0)
    scores = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    allowed = torch.rand(5, 6) > 0.4
    allowed[2] = False
    out = masked_softmax(scores, allowed)
    torch.testing.assert_close(out, brute_force_softmax(scores.detach(), allowed))
    assert torch.equal(out[2], torch.zeros(6, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, allowed), scores)
    assert torch.autograd.gradcheck(lambda s: masked_softmax(s, allowed.T, dim=0), scores.detach().T.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_masked_softmax_has_no_nan_forward_or_backward(dtype: torch.dtype) -> None:
    scores = torch.tensor(
        [[1.0, float("nan"), -math.inf], [2.0, 3.0, 4.0], [5.0, 6.0, 7.0]], dtype=dtype
    ).requires_grad_()
    allowed = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    out = masked_softmax(scores, allowed)
    (out * torch.arange(9.0).view(3, 3)).sum().backward()
    assert out.isfinite().all() and scores.grad.isfinite().all()
    assert scores.grad[~allowed].eq(0).all() and scores.grad[1, :2].ne(0).all()


def test_selu_with_its_initialisation_and_dropout_keeps_mean_zero_variance_one() -> None:
    """Klambauer's fixed point after 30 layers of 512 units; ReLU with plain dropout and the same weights leaves it."""
    from canon.nn.initialization import initialization_for, initialize

    def network(name: str, scheme: str) -> nn.Module:
        torch.manual_seed(0)
        layers = [
            layer for _ in range(30) for layer in (nn.Linear(512, 512), activation(name), dropout_for(name, 0.05))
        ]
        return initialize(nn.Sequential(*layers), scheme)

    x = torch.randn(512, 512)
    with torch.no_grad():
        out = network("selu", initialization_for("selu"))(x)
        other = network("relu", "lecun-normal")(x)
    assert abs(out.mean()) < 0.1 and abs(out.var() - 1) < 0.3
    assert other.var() < 0.01


def test_dropout_for_pairs_selu_with_alpha_dropout_only() -> None:
    assert {name for name in ACTIVATIONS if isinstance(dropout_for(name, 0.1), nn.AlphaDropout)} == {"selu"}


def test_bad_names_and_settings_are_one_sentence() -> None:
    with pytest.raises(CanonError, match="did you mean gelu"):
        activation("gellu")
    with pytest.raises(CanonError, match="tanh does not take alpha"):
        activation("tanh", alpha=0.1)
    with pytest.raises(CanonError, match="between 0 and 1"):
        activation("relu", subgradient=2.0)(X)
    with pytest.raises(CanonError, match="got 1"):
        dropout_for("relu", 1.0)


def test_the_docs_table_names_every_activation() -> None:
    page = (Path(__file__).parents[2] / "docs/activations.md").read_text(encoding="utf-8")
    assert {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")} == set(ACTIVATIONS)
