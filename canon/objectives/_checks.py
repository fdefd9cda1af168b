"""The mistakes that broadcasting would hide."""

from __future__ import annotations

from torch import Tensor

from canon.errors import CanonError


def require_tensors(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CanonError(f"The {name} must be a tensor, got {type(tensor).__name__}.")


def require_same_shape(**tensors: Tensor) -> None:
    """All tensors, and of one shape: [B] against [B, 1] would otherwise become [B, B] in silence."""
    require_tensors(**tensors)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise CanonError(f"These must have one shape, got {listed}.")


def require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise CanonError(f"The {name} must be above 0, got {value}.")
