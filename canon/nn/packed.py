"""Dense layers that are faster on a CPU where nothing is learned: few rows, as in decoding, or many.

oneDNN multiplies by weights that were put in its own order before ("packed") in about half of the time that a plain
product takes for up to eight rows, and with all threads where a plain product of one row takes one; for hundreds of
rows a fifth is gained. The packed copy is made at the first use and again when the weights have changed.
Only in float32, without gradients and autocast, and for weights of a megabyte or more; else this is F.linear.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEAST = 1 << 18  # numbers in a weight: for fewer, calling oneDNN takes longer than the product
_AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_ROWS = 4  # the number of rows that oneDNN chooses its order for; it serves all others


class Packed:
    """F.linear for one weight, of which it keeps a packed copy where that helps."""

    def __init__(self) -> None:
        self._writes, self._address = -1, 0  # of the weight when it was packed
        self._copy: Tensor | None = None

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if weight.numel() < _LEAST or not is_packed(x, weight):
            return F.linear(x, weight, bias)
        if self._copy is None or self._writes != weight._version or self._address != weight.data_ptr():
            self._copy = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)
            self._writes, self._address = weight._version, weight.data_ptr()
        return torch.ops.mkldnn._linear_pointwise(x, self._copy, bias, "none", [], "")

    def __reduce__(self) -> tuple[type[Packed], tuple[()]]:
        return Packed, ()  # a copy packs for itself


def is_packed(x: Tensor, weight: Tensor) -> bool:
    return (
        _AVAILABLE
        and not torch.is_grad_enabled()
        and weight.numel() >= _LEAST
        and x.device.type == weight.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and type(weight) in (nn.Parameter, Tensor)  # not a shard
        and not weight.is_inference()  # which counts no writes
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class Linear(nn.Linear):
    """nn.Linear, packed where that helps."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.packed = Packed()

    def forward(self, x: Tensor) -> Tensor:
        return self.packed(x, self.weight, self.bias)
