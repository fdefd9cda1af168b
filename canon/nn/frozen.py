"""Copies of weights in another order, for as long as the weights stay as they are.

A copy is never guessed to be fresh. It is made inside `with frozen(network):`, in which the caller promises to write to
no weight of that network, and is dropped at the end: one decoding, one pass of evaluation. Outside, every layer reads
its weights as they are. Copies lie in a variable of the context (of the thread), not on the modules, so that nothing of
them is saved, copied with a network, or seen by another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")

_made: ContextVar[Mapping[nn.Module, dict[Any, Any]]] = ContextVar("frozen", default=MappingProxyType({}))


@contextmanager
def frozen(network: Any) -> Iterator[None]:
    """Inside, nobody writes to the weights of `network`, so that its modules may keep copies of them.

    Entered again inside, it goes on with the same copies. Do not yield from inside: the caller would be inside too.
    """
    modules = network.modules() if isinstance(network, nn.Module) else ()
    token = _made.set({**{module: {} for module in modules}, **_made.get()})
    try:
        yield
    finally:
        _made.reset(token)


def is_frozen(module: nn.Module) -> bool:
    return not torch.compiler.is_compiling() and module in _made.get()


def once(make: Callable[[M], T], module: M) -> T:
    """make(module): where the module is frozen the same until the end, elsewhere made again by every call."""
    kept = _made.get().get(module)
    if kept is None:
        return make(module)
    if make not in kept:
        kept[make] = make(module)
    return kept[make]
