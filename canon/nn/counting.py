"""Parameter and multiply-add counts of any module. In large ones nothing is computed: shapes flow on the meta device.

A convolution has in·out·k² + out parameters; a linear layer in·out + out. Multiply-adds are those of matrix products,
convolutions and attention (torch's FLOP counter, halved); norms, activations and look-ups count as 0.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from canon.nn.ragged import Layout
from canon.nn.without_dynamo import leave_dynamo_out

_FEW = 1 << 20  # parameters, up to which an example is computed: sooner than torch has loaded what meta tensors need


class Row(NamedTuple):
    """One layer, or what a larger module owns itself."""

    name: str
    kind: str
    output_shape: tuple[int, ...] | None  # None: not run for these inputs, or not a layer
    parameters: int
    multiply_adds: int


class Summary(NamedTuple):
    """Rows in the order of definition; the totals are the sums of the rows."""

    rows: list[Row]
    parameters: int
    multiply_adds: int


def count_parameters(module: nn.Module, trainable_only: bool = False) -> int:
    """How many numbers a module learns; shared ones count once."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable_only)


def summarize(module: nn.Module, *example_inputs: Any, run: Callable[..., Any] = nn.Module.__call__) -> Summary:
    """Runs a copy of `module` on the inputs in evaluation mode and reports layer by layer.

    `run` is given the copy and the inputs.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    flops: dict[str, int] = {}
    begun: dict[str, int] = {}
    leave_dynamo_out()
    counter = FlopCounterMode(display=False)

    def watch(name: str, layer: nn.Module) -> None:
        def before(*_: Any) -> None:
            begun[name] = counter.get_total_flops()

        def after(_layer: nn.Module, _inputs: Any, output: Any) -> None:
            flops[name] = flops.get(name, 0) + counter.get_total_flops() - begun[name]
            if (tensor := _first_tensor(output)) is not None:
                shapes[name] = tuple(tensor.shape)

        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after)

    # A copy whose numbers were swapped for meta ones beforehand: the original is not touched, nothing large is copied.
    real = not any(numbers.is_meta for numbers in (*module.parameters(), *module.buffers()))
    place = "cpu" if real and count_parameters(module) <= _FEW else "meta"
    swapped: dict[int, Any] = {id(p): nn.Parameter(p.detach().to(place), p.requires_grad) for p in module.parameters()}
    swapped |= {id(buffer): buffer.to(place) for buffer in module.buffers()}
    inputs = tree_map_only(Tensor, lambda tensor: tensor.to(place), example_inputs)
    inputs = tree_map_only(Layout, lambda layout: Layout(layout.lengths, place), inputs)
    module = copy.deepcopy(module, swapped).eval()
    for name, layer in module.named_modules():
        if _is_leaf(layer):
            watch(name, layer)
    with torch.no_grad(), _products_in_sight(), counter:
        run(module, *inputs)

    rows: list[Row] = []
    seen: set[Tensor] = set()
    inside: set[nn.Module] = set()
    for name, layer in module.named_modules():
        if layer in inside:
            continue
        leaf = _is_leaf(layer)
        inside.update(layer.modules() if leaf else ())
        parameters = [p for p in layer.parameters(recurse=leaf) if p not in seen]
        seen.update(parameters)
        if leaf or parameters:
            numbers = sum(p.numel() for p in parameters)
            rows.append(Row(name, type(layer).__name__, shapes.get(name), numbers, flops.get(name, 0) // 2))
    total = counter.get_total_flops() // 2
    if rest := total - sum(row.multiply_adds for row in rows):  # attention and products written as functions
        own_numbers = sum(row.parameters for row in rows if not row.name)  # parameters of the network itself
        rows = [*(row for row in rows if row.name), Row("", "between layers", None, own_numbers, rest)]
    return Summary(rows, sum(row.parameters for row in rows), total)


@contextmanager
def _products_in_sight() -> Iterator[None]:
    """Turns off the whole-layer kernels (oneDNN, cuDNN, fused attention) that hide their products from the counter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN")  # said on leaving, whatever was set
        plain = torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False)
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with plain[0], plain[1], sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


def _is_leaf(module: nn.Module) -> bool:
    """No children, or children that it never calls as modules."""
    return isinstance(module, nn.MultiheadAttention) or not any(True for _ in module.children())


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    values: Iterable[Any] = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else ()
    return next((tensor for tensor in map(_first_tensor, values) if tensor is not None), None)
