"""Lets parts of torch run without torch._dynamo, whose import takes as long as that of torch itself.

torch marks some functions as left out of compiled code by importing torch._dynamo at their first call. Nothing of ours
calls them from compiled code, so the mark can be the function itself. Where another torch keeps the mark elsewhere,
the import comes back and nothing else changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import flop_counter

_MARK = "__dynamo_disable"


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
