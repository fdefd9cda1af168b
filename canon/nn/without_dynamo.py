"""Lets parts of torch run without torch._dynamo, whose import takes as long as that of torch itself.

torch marks some functions as left out of compiled code by importing torch._dynamo at their first call. Nothing of ours
calls them from compiled code, so the mark can be the function itself. Where another torch keeps the mark elsewhere,
the import comes back and nothing else changes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import flop_counter

Call = TypeVar("Call", bound=Callable[..., Any])

_MARK = "__dynamo_disable"
_FIRST = {*filter(inspect.isfunction, vars(nn.init).values()), Tensor.normal_}  # they return the tensor that they fill


def leave_dynamo_out() -> None:
    """For torch's optimisers and its counter of operations."""
    for owner in (torch.optim.Optimizer, vars(flop_counter).get("_FlopCounterMode", object)):
        for function in vars(owner).values():
            if inspect.isfunction(function) and (inner := vars(function).get("__wrapped__")) is not None:
                vars(inner).setdefault(_MARK, inner)


def plain_step(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """The optimiser's step without torch's wrappers (a profiler's label, hooks, a break of compiled code); to be called
    without gradients."""
    return inspect.unwrap(type(optimizer).step).__get__(optimizer)


def uncompiled(function: Call) -> Call:
    """torch.compiler.disable, which loads torch._dynamo where it is written; this waits until something is compiled."""
    disabled = torch._disable_dynamo(function)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        return (disabled if "torch._dynamo" in sys.modules else function)(*given, **named)

    return call  # type: ignore[return-value]


class _NoNumbers(TorchFunctionMode):
    """First weights are not drawn and not scaled: on the meta device torch does so in Python, by torch._dynamo."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        scales = function is Tensor.mul and not isinstance(args[1], Tensor)
        if scales or function in _FIRST:
            return args[0] if args else kwargs["tensor"]
        return (torch.empty if function is torch.randn else function)(*args, **kwargs)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """What is built within has shapes and no numbers."""
    with torch.device("meta"), _NoNumbers():
        yield
