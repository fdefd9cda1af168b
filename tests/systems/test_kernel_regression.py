"""Nadaraya–Watson regression against its closed form, scikit-learn's kernel, and a loop that leaves one out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import rbf_kernel
from torch import Tensor

from canon.data.encodings.features import FeatureSchema
from canon.data.targets import Number
from canon.systems.sequence.kernel_regression import Config, KernelRegression

SCHEMA = FeatureSchema(Number(mean=5.0, std=2.0), (3,))


def build(rows: int = 20, features: int = 3, **changes: Any) -> tuple[KernelRegression, Tensor, Tensor]:
    """The network with its training rows, which are returned too: x [N, F] and y [N] in the network's unit."""
    torch.manual_seed(0)
    network = KernelRegression(Config(shape=(features,), num_examples=rows, **changes))
    x, y = torch.randn(rows, features), torch.randn(rows)
    network.take({"input": x, "target": y * 2 + 5}, SCHEMA)
    torch.testing.assert_close(network.values, y)
    return network.eval(), x, y


@pytest.mark.parametrize("width", [0.1, 1.0, 4.0])
def test_closed_form(width: float) -> None:
    network, x, y = build(width=width)
    queries = torch.randn(5, 3)
    actual = network(queries)
    assert actual.shape == (5, 1)
    for query, reported in zip(queries.double(), actual[:, 0].tolist(), strict=True):
        kernel = [math.exp(-0.5 * float(((query - row) ** 2).sum()) * width**2) for row in x.double()]
        wanted = sum(k * float(value) for k, value in zip(kernel, y, strict=True)) / sum(kernel)
        assert reported == pytest.approx(wanted, abs=1e-5)


def test_scikit_learns_kernel() -> None:
    network, x, y = build(width=1.5)
    queries = torch.randn(30, 3)
    kernel = rbf_kernel(queries.numpy().astype(float), x.numpy().astype(float), gamma=1.5**2 / 2)
    wanted = kernel @ y.numpy() / kernel.sum(axis=1)
    np.testing.assert_allclose(network(queries)[:, 0].detach().numpy(), wanted, atol=1e-5)
    np.testing.assert_allclose(network.weights(queries).detach(), kernel / kernel.sum(1, keepdims=True), atol=1e-5)


def test_far_queries_and_extreme_widths() -> None:
    """Far from all rows the kernel underflows, the softmax does not: the nearest row decides; w → 0 is the mean."""
    network, _, y = build(width=100.0)
    far = torch.tensor([[1e3, 0.0, 0.0]])
    assert network(far).item() == pytest.approx(y[network.keys[:, 0].argmax()].item(), abs=1e-4)
    network, x, y = build(width=1e-4)
    torch.testing.assert_close(network(x), y.mean().expand(20, 1), rtol=1e-3, atol=1e-4)


def test_while_training_a_row_does_not_see_itself() -> None:
    network, x, y = build(width=0.7)
    result = network.train()(x)[:, 0]
    for i in range(20):
        others = [j for j in range(20) if j != i]
        scores = -0.5 * ((x[i] - x[others]) ** 2).sum(1) * 0.7**2
        torch.testing.assert_close(result[i], scores.softmax(0) @ y[others], rtol=1e-4, atol=1e-5)
    sharp, x, y = build(width=50.0)
    torch.testing.assert_close(sharp(x)[:, 0], y)  # in use it does


def test_equal_rows_hide_each_other() -> None:
    network = KernelRegression(Config(shape=(1,), num_examples=2))
    network.take({"input": torch.ones(2, 1), "target": torch.tensor([3.0, 4.0])}, SCHEMA)
    assert network.train()(torch.ones(2, 1)).tolist() == [[0.0], [0.0]]  # nothing is left: the mean of all targets


def left_out(width: float, x: Tensor, y: Tensor) -> float:
    """Mean squared error of each row predicted by the others."""
    scores = -0.5 * torch.cdist(x, x).square() * width**2
    return (scores.fill_diagonal_(-math.inf).softmax(1) @ y - y).square().mean().item()


def test_learned_width_is_the_best_of_a_grid() -> None:
    """Gradient descent on the leave-one-out error of a sine with noise finds what trying widths finds."""
    torch.manual_seed(0)
    x = torch.rand(60, 1) * 5
    y = 2 * torch.sin(x[:, 0]) + x[:, 0] ** 0.8 + 0.5 * torch.randn(60)
    y = (y - y.mean()) / y.std()
    network = KernelRegression(Config(shape=(1,), num_examples=60))
    network.take({"input": x, "target": y * 2 + 5}, SCHEMA)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    losses = []
    for _ in range(300):
        loss = (network(x)[:, 0] - y).square().mean()
        assert loss.item() == pytest.approx(left_out(network.width.item(), x, y), abs=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    grid = {width / 20: left_out(width / 20, x, y) for width in range(1, 200)}
    assert losses[-1] < 0.9 * losses[0] and losses[-1] < 1.01 * min(grid.values())
    assert network.width.item() == pytest.approx(min(grid, key=grid.__getitem__), abs=0.2)  # it is flat there


def test_a_fixed_width_stays() -> None:
    network, x, y = build(width=2.0, learn_width=False)
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.5)
    before = network(x).detach()
    for _ in range(3):
        loss = (network(x)[:, 0] - y).square().sum()
        loss.backward()
        assert network.width.grad is not None and network.width.grad.item() == 0
        optimizer.step()
    assert torch.equal(network(x), before)


def test_training_rows_are_stored_with_the_weights() -> None:
    network, x, _ = build()
    assert set(network.state_dict()) == {"width", "keys", "values"}
    other = KernelRegression(Config(shape=(3,), num_examples=20)).eval()
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(x), network(x))
