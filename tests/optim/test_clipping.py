"""Clipping against its closed form on the concatenated gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from canon.errors import CanonError
from canon.optim.clipping import clip_by_norm, clip_by_value


def parameters(scale: float = 1.0) -> list[Tensor]:
    torch.manual_seed(0)
    params = [
        torch.zeros(3, 4, requires_grad=True),
        torch.zeros(5, requires_grad=True),
        torch.zeros(2, requires_grad=True),
    ]
    for p in params[:2]:  # the last has no gradient
        p.grad = scale * torch.randn_like(p)
    return params


def joined(params: list[Tensor]) -> Tensor:
    return torch.cat([p.grad.flatten() for p in params if p.grad is not None])


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e4])
def test_norm_clipping_is_min_one_theta_over_norm(scale: float) -> None:
    params = parameters(scale)
    before = joined(params)
    norm = clip_by_norm(params, 0.5)
    torch.testing.assert_close(norm, before.norm())
    expected = before * min(1.0, 0.5 / max(before.norm().item(), 1e-30))
    torch.testing.assert_close(joined(params), expected, rtol=1e-6, atol=0)
    assert params[2].grad is None


def test_no_fudge_in_the_denominator() -> None:
    """torch's clip_grad_norm_ leaves ‖g‖ = 1e-6 / 2 when asked for 1e-6; ours leaves 1e-6."""
    p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    p.grad = torch.full_like(p, 1e-6 * (1 + 1e-9))
    clip_by_norm([p], 1e-6)
    assert p.grad.item() == pytest.approx(1e-6, rel=1e-12)


def test_a_nonfinite_norm_is_returned_and_not_hidden() -> None:
    params = parameters()
    params[0].grad[0, 0] = torch.nan
    assert clip_by_norm(params, 1.0).isnan()


def test_value_clipping_is_clamp() -> None:
    params = parameters()
    before = joined(params)
    clip_by_value(params, 0.3)
    assert torch.equal(joined(params), before.clamp(-0.3, 0.3))
    assert before.abs().max() > 0.3


def test_sharded_gradients_are_clipped_by_the_global_norm(tmp_path) -> None:
    """FSDP2's DTensor parameters, in a world of one, against the same network unsharded."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    plain = nn.Linear(4, 3)
    sharded = nn.Linear(4, 3)
    sharded.load_state_dict(plain.state_dict())
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        fully_shard(sharded, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
        x = torch.randn(8, 4)
        plain(x).square().sum().backward()
        sharded(x).square().sum().backward()
        norm = clip_by_norm(plain.parameters(), 0.5)
        torch.testing.assert_close(clip_by_norm(sharded.parameters(), 0.5), norm)
        for p, q in zip(plain.parameters(), sharded.parameters(), strict=True):
            torch.testing.assert_close(q.grad.full_tensor(), p.grad)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_threshold_must_be_positive(limit: float) -> None:
    for clip in (clip_by_norm, clip_by_value):
        with pytest.raises(CanonError, match="above 0"):
            clip(parameters(), limit)
