"""Dense layers that are faster on a CPU where nothing is learned: few rows, as in decoding, or many.

oneDNN multiplies by weights that were put in its own order before ("packed") in about half of the time that a plain
product takes for up to eight rows, and with all threads where a plain product of one row takes one; for hundreds of
rows a fifth is gained. The packed copy is made at the first use and again when the weights may have changed: when torch
has counted a write to them, or any optimiser has made a step (torch's fused ones write without being counted).
Only in float32, without gradients and autocast, and for weights of a megabyte or more; else this is F.linear.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

_LEAST = 1 << 18  # numbers in a weight: for fewer, calling oneDNN takes longer than the product
_AVAILABLE = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
_ROWS = 4  # the number of rows that oneDNN chooses its order for; it serves all others


_steps = 0  # of all optimisers in this process


def _count(*_: object) -> None:
    global _steps
    _steps += 1


register_optimizer_step_post_hook(_count)


class Packed:
    """F.linear for one weight, of which it keeps a packed copy where that helps."""

    def __init__(self) -> None:
        self._state = (-1, 0, 0)  # of the weight when it was packed: writes, address, steps
        self._copy: Tensor | None = None

    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if weight.numel() < _LEAST or not is_packed(x, weight):
            return F.linear(x, weight, bias)
        state = state_of(weight)
        if self._copy is None or self._state != state:
            self._copy, self._state = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS), state
        return torch.ops.mkldnn._linear_pointwise(x, self._copy, bias, "none", [], "")

    def __reduce__(self) -> tuple[type[Packed], tuple[()]]:
        return Packed, ()  # a copy packs for itself


def state_of(weight: Tensor) -> tuple[int, int, int]:
    """What changes when the weight may have: writes, address, steps of optimisers."""
    return weight._version, weight.data_ptr(), _steps


def is_packed(x: Tensor, weight: Tensor) -> bool:
    return (
        _AVAILABLE
        and weight.numel() >= _LEAST
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and is_plain(weight)
    )


def is_plain(weight: Tensor) -> bool:
    """Whether a copy may stand for it, or a kernel read it: nothing is learned; its numbers are its own, float32 and on
    the host."""
    return (
        not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and is_own(weight)
    )


def is_own(weight: Tensor) -> bool:
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and type(weight) in (nn.Parameter, Tensor)  # not a shard
        and not weight.is_inference()  # which counts no writes
    )


class Linear(nn.Linear):
    """nn.Linear, packed where that helps."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.packed = Packed()

    def forward(self, x: Tensor) -> Tensor:
        return self.packed(x, self.weight, self.bias)
