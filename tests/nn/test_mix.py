"""The mix of layers against its formula, and that its weights learn."""

from __future__ import annotations

import pytest
import torch

from canon.nn.mix import ScalarMix


@pytest.mark.parametrize("norm", [False, True])
def test_by_the_formula(norm: bool) -> None:
    mix = ScalarMix(3, norm)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.scale.fill_(1.7)
    layers = [torch.randn(4, 6) for _ in range(3)]
    shares = torch.tensor([0.3, -1.0, 2.0]).exp()
    shares /= shares.sum()
    used = layers
    if norm:
        used = [(x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt() for x in layers]
    expected = 1.7 * sum(share * layer for share, layer in zip(shares, used, strict=True))
    torch.testing.assert_close(mix(layers), expected)
    torch.testing.assert_close(mix.shares, shares)


def test_begins_as_the_mean() -> None:
    layers = [torch.randn(4, 6) for _ in range(3)]
    torch.testing.assert_close(ScalarMix(3)(layers), torch.stack(layers).mean(0))


def test_weights_find_the_layer_that_is_asked_for() -> None:
    """Trained towards 2 × the second of three layers: its share goes to 1 and the scale to 2."""
    torch.manual_seed(0)
    mix = ScalarMix(3)
    optimizer = torch.optim.Adam(mix.parameters(), lr=0.05)
    for _ in range(300):
        layers = [torch.randn(32, 8) for _ in range(3)]
        loss = (mix(layers) - 2 * layers[1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert mix.shares.argmax() == 1 and mix.shares[1] > 0.95
    assert mix.scale.item() == pytest.approx(2.0, abs=0.1)
