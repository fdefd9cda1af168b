"""What a foreign tensor must be to be taken over as a weight: real numbers, all of them finite."""

from __future__ import annotations

import torch
from torch import Tensor

from canon.errors import CanonError


def weight(tensor: Tensor, name: str, source: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of the file `source` in the network's precision; a sentence where it cannot be a weight."""
    if dtype.is_floating_point and not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CanonError(f"{source}: {name} is of type {kind}; a weight is of float32, float16, bfloat16 or float64.")
    converted = tensor.to(dtype)
    if dtype.is_floating_point and not converted.is_meta and not torch.isfinite(converted).all():
        raise CanonError(f"{source}: {name} has NaN or infinite numbers, so these weights are of no use.")
    return converted
