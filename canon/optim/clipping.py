"""Gradient clipping, by the norm of all gradients together or value by value.

Paper: Pascanu, Mikolov & Bengio 2013 (arXiv:1211.5063), algorithm 1 → `clip_by_norm`.
Deviations: none; torch's own divides by ‖g‖ + 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from canon.errors import CanonError


def _gradients(parameters: Iterable[Tensor], limit: float) -> list[Tensor]:
    if not limit > 0:
        raise CanonError(f"The clipping threshold must be a number above 0, got {limit}.")
    grads = (p.grad for p in parameters if p.grad is not None)
    return [grad.values() if grad.is_sparse else grad for grad in grads]  # those of rows are coalesced


@torch.no_grad()
def clip_by_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """g ← min(1, θ/‖g‖) · g in place, θ = `max_norm`, ‖g‖ over all parameters; returns ‖g‖ before clipping.

    Never waits for the device. A norm that is not finite comes back as it is: the caller decides.
    """
    grads = _gradients(parameters, max_norm)
    norm = torch.nn.utils.get_total_norm(grads)
    if hasattr(norm, "full_tensor"):  # of shards (FSDP2)
        norm, grads = norm.full_tensor(), [grad.to_local() for grad in grads]  # type: ignore[attr-defined]
    scale = (max_norm / norm).clamp(max=1.0)
    for device in {grad.device for grad in grads}:
        torch._foreach_mul_([grad for grad in grads if grad.device == device], scale.to(device))
    return norm


@torch.no_grad()
def clip_by_value(parameters: Iterable[Tensor], max_value: float) -> None:
    """g ← min(max(g, −θ), θ) in place, value by value, θ = `max_value`."""
    if grads := _gradients(parameters, max_value):
        torch._foreach_clamp_min_(grads, -max_value)
        torch._foreach_clamp_max_(grads, max_value)


def local_part(tensor: Tensor) -> Tensor:
    """Of a tensor that is sharded (FSDP2) what this process has."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
