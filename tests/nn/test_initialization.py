"""Initialisers against the variances of their papers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from canon.errors import CanonError
from canon.nn.activations import ACTIVATIONS
from canon.nn.initialization import INITIALIZERS, initialization_for, initialize

VARIANCE = {
    "xavier-uniform": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
    "xavier-normal": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
    "he-uniform": lambda fan_in, fan_out: 2 / fan_in,
    "he-normal": lambda fan_in, fan_out: 2 / fan_in,
    "lecun-normal": lambda fan_in, fan_out: 1 / fan_in,
}


@pytest.mark.parametrize("scheme", INITIALIZERS)
def test_variance_shape_and_bias(scheme: str) -> None:
    torch.manual_seed(0)
    net = initialize(nn.Sequential(nn.Linear(300, 500), nn.BatchNorm1d(500), nn.Conv2d(40, 80, 3)), scheme)
    for layer, fan_in, fan_out in ((net[0], 300, 500), (net[2], 360, 720)):
        variance = VARIANCE[scheme](fan_in, fan_out)
        assert layer.weight.var().item() == pytest.approx(variance, rel=0.02)
        assert layer.weight.mean().abs() < 0.02 * math.sqrt(variance)
        peak = layer.weight.abs().max() / math.sqrt(variance)
        assert (peak <= math.sqrt(3) + 1e-6) == scheme.endswith("uniform")  # a normal draw of 10⁴ reaches beyond
        assert torch.equal(layer.bias, torch.zeros_like(layer.bias))
    assert torch.equal(net[1].weight, torch.ones(500))  # norms are left alone


def test_every_activation_has_a_scheme() -> None:
    schemes = {name: initialization_for(name) for name in ACTIVATIONS}
    assert set(schemes.values()) <= set(INITIALIZERS)
    assert (schemes["selu"], schemes["relu"], schemes["tanh"]) == ("lecun-normal", "he-normal", "xavier-uniform")


def test_bad_names_are_one_sentence() -> None:
    with pytest.raises(CanonError, match="did you mean he-normal"):
        initialize(nn.Linear(2, 2), "he-norm")
    with pytest.raises(CanonError, match="did you mean relu"):
        initialization_for("rellu")
