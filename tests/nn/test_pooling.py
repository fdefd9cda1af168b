"""Pooling against torch's, loops over windows, and sampling frequencies."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.nn.pooling import GlobalMeanPool, StochasticPool2d, pooling, stochastic_pool


def windows(x: Tensor, size: int, stride: int) -> list[tuple[tuple[int, ...], Tensor]]:
    rows, columns = (range(0, side - size + 1, stride) for side in x.shape[2:])
    return [
        ((b, c, i, j), x[b, c, top : top + size, left : left + size].flatten())
        for b in range(x.shape[0])
        for c in range(x.shape[1])
        for i, top in enumerate(rows)
        for j, left in enumerate(columns)
    ]


def sample(size: int = 7) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(2, 3, size, size, dtype=torch.float64).relu()
    x[0, 0, :3, :3] = 0
    return x


@pytest.mark.parametrize(("size", "stride"), [(2, None), (3, 2), (3, 1)])
def test_stochastic_evaluation_is_the_probability_weighted_sum(size: int, stride: int | None) -> None:
    x = sample()
    out = stochastic_pool(x, size, stride, training=False)
    for place, a in windows(x, size, stride or size):
        expected = sum(a_i * a_i / a.sum() for a_i in a) if a.sum() > 0 else 0.0
        assert out[place].item() == pytest.approx(float(expected))


def test_stochastic_training_samples_by_activation() -> None:
    """Over 20,000 draws of one window the shares are a/Σa; the value is always one of the window's."""
    torch.manual_seed(0)
    a = torch.tensor([1.0, 2.0, 0.0, 5.0])
    out = stochastic_pool(a.view(1, 1, 2, 2).expand(20000, 1, 2, 2), 2).flatten()
    shares = torch.stack([(out == value).double().mean() for value in a])
    torch.testing.assert_close(shares, (a / a.sum()).double(), atol=0.012, rtol=0)
    assert shares[2] == 0 and shares.sum() == 1


def test_stochastic_gradient_goes_to_the_chosen_place_only() -> None:
    x = (sample(6) + torch.rand(2, 3, 6, 6)).requires_grad_()  # all values distinct
    torch.manual_seed(3)
    out = stochastic_pool(x, 2)
    out.sum().backward()
    for place, window in windows(x.grad, 2, 2):
        b, c, i, j = place
        values = x[b, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].flatten()
        assert torch.equal(window, (values == out[place]).double())
    torch.manual_seed(3)
    assert torch.equal(out, stochastic_pool(x, 2))  # the global generator decides


def test_stochastic_evaluation_gradient_and_empty_windows() -> None:
    x = (sample() + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: stochastic_pool(x, 3, 2, training=False), x)
    for training in (True, False):
        zeros = torch.zeros(1, 1, 4, 4, requires_grad=True)
        out = StochasticPool2d(2).train(training)(zeros)
        out.sum().backward()
        assert out.eq(0).all() and zeros.grad.eq(0).all()


def test_negative_activations_are_never_chosen() -> None:
    x = torch.tensor([[[[-5.0, 1.0], [-2.0, 1.0]]]])
    assert all(stochastic_pool(x, 2).item() == 1.0 for _ in range(20))
    assert stochastic_pool(x, 2, training=False).item() == 1.0


def test_max_mean_and_global_mean() -> None:
    x = sample()
    assert torch.equal(pooling("max", 3, 2)(x), F.max_pool2d(x, 3, 2))
    for place, window in windows(x, 2, 2):
        assert pooling("mean", 2)(x)[place].item() == pytest.approx(window.mean().item())
    torch.testing.assert_close(GlobalMeanPool()(x), F.adaptive_avg_pool2d(x, 1).flatten(1))


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(CanonError, match="there are: max, mean, stochastic"):
        pooling("l2", 2)
    with pytest.raises(CanonError, match="does not fit"):
        stochastic_pool(torch.ones(1, 1, 2, 2), 3)
