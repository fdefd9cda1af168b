"""The mistakes that broadcasting would hide."""

from __future__ import annotations

from torch import Tensor

from canon.errors import CanonError


def require_same_shape(**tensors: Tensor) -> None:
    """All of one shape: [B] against [B, 1] would otherwise become [B, B] in silence."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise CanonError(f"These must have one shape, got {listed}.")


def require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise CanonError(f"The {name} must be above 0, got {value}.")
