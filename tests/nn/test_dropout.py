"""Which numbers the compiled dropout keeps: the share, no two places or calls alike, and what comes out of it."""

from __future__ import annotations

import math

import pytest
import torch

from canon.nn.dropout import Dropout, keep

SIZE = 1 << 20


def seed(number: int) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.int32)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("number", [0, 7, -123456789, 2**31 - 1])
def test_the_share_that_is_kept(p: float, number: int) -> None:
    """Within five standard deviations of the binomial law."""
    share = keep(SIZE, p, seed(number)).float().mean().item()
    assert abs(share - (1 - p)) < 5 * math.sqrt(p * (1 - p) / SIZE)


def test_places_and_calls_are_independent() -> None:
    """Correlations of 2^20 places: within five standard deviations of 0, at neighbours, rows and other calls."""
    one, other = (keep(SIZE, 0.5, seed(number)).double() - 0.5 for number in (12345, 12346))
    limit = 5 * 0.25 / math.sqrt(SIZE)
    assert abs((one * other).mean()) < limit
    for gap in (1, 2, 7, 64, 768, 4096):
        assert abs((one[gap:] * one[:-gap]).mean()) < limit * 1.01


def test_what_is_kept_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.manual_seed(0)
    layer, x = Dropout(0.25), torch.ones(1000, 40, requires_grad=True)
    out = layer(x)
    out.sum().backward()
    assert out.detach().unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert torch.equal(x.grad, out.detach())
    assert not torch.equal(layer(x), out)  # another call, another seed
    assert torch.equal(layer.eval()(x), x)
