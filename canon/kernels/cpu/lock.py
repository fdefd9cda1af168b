"""A lock that kernels take without waiting: an int32 [1], 0 where it is free.

Plain version: `_take` and `_give_back`, tested with the classifier of two threads in tests/kernels/test_learners.py.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from canon.kernels import enabled

_guard = Lock()


def _take(lock: Any) -> bool:
    """Takes the lock if it is free; whether it was."""
    with _guard:
        free = bool(lock[0] == 0)
        lock[0] = 1
    return free


def _give_back(lock: Any) -> None:
    lock[0] = 0


def _atomic() -> tuple[Any, Any]:
    """Both as instructions of the processor."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def take(typing: Any, lock: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            before = builder.atomic_rmw("xchg", address, ir.IntType(32)(1), "acquire")
            return builder.icmp_signed("==", before, ir.IntType(32)(0))

        return types.boolean(lock), build

    @intrinsic
    def give_back(typing: Any, lock: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            builder.store_atomic(ir.IntType(32)(0), address, "release", 4)
            return context.get_dummy_value()

        return types.void(lock), build

    return take, give_back


take, give_back = _atomic() if enabled() else (_take, _give_back)
