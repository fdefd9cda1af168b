"""Dense layers that are faster on a CPU where nothing is learned: few rows, as in decoding, or many.

oneDNN multiplies by weights that were put in its own order before ("packed") in about half of the time that a plain
product takes for up to eight rows, and with all threads where a plain product of one row takes one; for hundreds of
rows a fifth is gained. Layers are packed where they are frozen (canon/nn/frozen.py), in float32, without gradients and
autocast, and for weights of a megabyte or more; else, and with CANON_KERNELS=off, this is F.linear: equal in
tests/nn/test_packed.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.kernels import enabled
from canon.nn.frozen import is_frozen, once

_LEAST = 1 << 18  # numbers in a weight: for fewer, calling oneDNN takes longer than the product
_AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_ROWS = 4  # the number of rows that oneDNN chooses its order for; it serves all others

Product = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # of rows, weight and bias


class Packed:
    """F.linear for the weight of one layer, as it was when this was made."""

    def __init__(self, layer: nn.Module) -> None:
        weight: Tensor = layer.weight  # type: ignore[assignment]
        packs = enabled() and _AVAILABLE and weight.numel() >= _LEAST and is_plain(weight)
        self._copy = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS) if packs else None

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self._copy is None or not is_plain(x):
            return F.linear(x, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(x, self._copy, bias, "none", [], "")


def product(layer: nn.Module) -> Product:
    """What multiplies by the layer's weight."""
    return once(Packed, layer) if is_frozen(layer) else F.linear


def is_plain(x: Tensor) -> bool:
    """Whether a kernel may read it: nothing is learned; its numbers are its own, float32 and on the host."""
    return (
        not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and type(x) in (nn.Parameter, Tensor)  # not a shard
    )


class Linear(nn.Linear):
    """nn.Linear, packed where that helps."""

    def forward(self, x: Tensor) -> Tensor:
        return product(self)(x, self.weight, self.bias)
