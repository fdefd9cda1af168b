"""The operations of canon/kernels/cpu/lanes.py as LLVM's vectors: one register of the processor each.

LLVM makes AVX-512, AVX2 or NEON of them. Plain version: canon/kernels/cpu/lanes_numpy.py, equal in
tests/kernels/test_lanes.py to the last bit, but for `fused`, `total` and `totals`, which round otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

# AVX-512 has registers of sixteen floats; elsewhere two of four or one of eight.
LANES = 16 if llvm.get_host_cpu_features().get("avx512f") else 8

_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Lanes{LANES}")


lanes_type = _Lanes()


@register_model(_Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def _same(builder: Any, value: Any, kind: Any = _INTS) -> Any:
    """One number in all lanes."""
    scalar = kind.element(value) if isinstance(value, int | float) else value
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, _INT(0))
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), ir.Constant(_INTS, [0] * LANES))


def _call(builder: Any, name: str, result: Any, arguments: list[Any], **more: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, arguments, **more)


def _operation(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """An intrinsic of values of these kinds (None: a flat array), made by `build(builder, *values)`; arrays come as the
    function of an index to its address."""

    def typed(build: Callable[..., Any]) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def address(kind: Any, array: Any) -> Callable[[Any], Any]:
                return lambda index: builder.gep(context.make_array(kind)(context, builder, array).data, [index])

            given = [
                value if wanted is not None else address(kind, value)
                for wanted, kind, value in zip(kinds, signature.args, values, strict=True)
            ]
            made = build(builder, *given)
            return context.get_dummy_value() if made is None else made

        def work(typing: Any, *given: Any) -> Any:
            return result(*(own if kind is None else kind for own, kind in zip(given, kinds, strict=True))), generate

        names = ["typing", *(f"value{i}" for i in range(len(kinds)))]  # numba would make a tuple of *given
        work.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in names])  # type: ignore[attr-defined]
        return intrinsic(work)

    return typed


_ONE, _TWO, _THREE = (lanes_type,), (lanes_type,) * 2, (lanes_type,) * 3
_AT = (None, types.int64)  # an array, and where in it


@_operation(lanes_type, *_AT)
def lanes(builder: Any, array: Any, index: Any) -> Any:
    return builder.load(builder.bitcast(array(index), _FLOATS.as_pointer()), align=4)


@_operation(types.void, *_AT, lanes_type)
def put(builder: Any, array: Any, index: Any, value: Any) -> None:
    builder.store(value, builder.bitcast(array(index), _FLOATS.as_pointer()), align=4)


def _fetching(for_writing: int) -> Any:
    @_operation(types.void, *_AT)
    def work(builder: Any, array: Any, index: Any) -> None:
        keep_in_all_levels, data = _INT(3), _INT(1)
        line = builder.bitcast(array(index), ir.IntType(8).as_pointer())
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [line, _INT(for_writing), keep_in_all_levels, data])

    return work


fetch_to_read, fetch = _fetching(0), _fetching(1)


@_operation(lanes_type, types.float32)
def same(builder: Any, value: Any) -> Any:
    return _same(builder, value, _FLOATS)


@_operation(lanes_type, *_AT)
def everywhere(builder: Any, array: Any, index: Any) -> Any:
    return _same(builder, builder.load(array(index), align=4), _FLOATS)


@_operation(lanes_type, *_THREE)
def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return _call(builder, f"llvm.fmuladd.v{LANES}f32", _FLOATS, [a, b, c])


@_operation(types.float32, *_ONE)
def total(builder: Any, value: Any) -> Any:
    zero = ir.Constant(_FLOAT, -0.0)
    return _call(builder, f"llvm.vector.reduce.fadd.v{LANES}f32", _FLOAT, [zero, value], fastmath=["reassoc"])


@_operation(lanes_type, *[lanes_type] * 12)
def totals(builder: Any, *twelve: Any) -> Any:
    """Halves of two vectors are brought together and added: no step works on fewer lanes than there are."""

    def fold(u: Any, v: Any, low: list[int], high: list[int]) -> Any:
        """`low` and `high` number the lanes of u, then those of v, in a group of lanes that repeats."""
        size = len(low)

        def across(pattern: list[int]) -> Any:
            lane = [start + p if p < size else LANES + start + p - size for start in groups for p in pattern]
            return builder.shuffle_vector(u, v, ir.Constant(_INTS, lane))

        groups = range(0, LANES, size)
        return builder.fadd(across(low), across(high))

    def four(p: Any, q: Any, r: Any, s: Any) -> Any:
        """In every four lanes the sums over them of p, q, r and s."""
        pq, rs = (fold(u, v, [0, 4, 1, 5], [2, 6, 3, 7]) for u, v in ((p, q), (r, s)))
        return fold(pq, rs, [0, 1, 4, 5], [2, 3, 6, 7])

    quarter = [list(range(start, start + 4)) for start in range(0, 2 * LANES, 4)]
    halves = [(four(*six[:4]), four(six[4], six[5], six[4], six[5])) for six in (twelve[:6], twelve[6:])]
    if LANES == 8:
        return fold(*halves[0], quarter[0] + quarter[2], quarter[1] + quarter[3])
    even, odd = ([lane for four_lanes in quarter[start::2] for lane in four_lanes] for start in (0, 1))
    return fold(fold(*halves[0], even, odd), fold(*halves[1], even, odd), even, odd)


def _operator(symbol: Callable[..., Any], name: str) -> None:
    @_operation(lanes_type, *_TWO)
    def work(builder: Any, a: Any, b: Any) -> Any:
        return getattr(builder, name)(a, b)

    @overload(symbol)
    def typed(a: Any, b: Any) -> Any:
        def both(a: Any, b: Any) -> Any:
            return work(a, b)

        return both if isinstance(a, _Lanes) and isinstance(b, _Lanes) else None


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


@_operation(lanes_type, *_THREE)
def bounded(builder: Any, value: Any, least: Any, most: Any) -> Any:
    value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
    return builder.select(builder.fcmp_ordered(">", value, most), most, value)


@_operation(types.float32, *_ONE)
def greatest(builder: Any, value: Any) -> Any:
    return _call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", _FLOAT, [value])


@_operation(lanes_type, *_ONE)
def nearest(builder: Any, value: Any) -> Any:
    return _call(builder, f"llvm.rint.v{LANES}f32", _FLOATS, [value])


@_operation(lanes_type, *_ONE)
def power_of_two(builder: Any, value: Any) -> Any:
    """Made from the bits of its exponent."""
    whole = builder.add(builder.fptosi(value, _INTS), _same(builder, 127))
    return builder.bitcast(builder.shl(whole, _same(builder, 23)), _FLOATS)


@_operation(lanes_type, *_ONE)
def exponent(builder: Any, value: Any) -> Any:
    bits = builder.lshr(builder.bitcast(value, _INTS), _same(builder, 23))
    return builder.sitofp(builder.sub(bits, _same(builder, 127)), _FLOATS)


@_operation(lanes_type, *_ONE)
def mantissa(builder: Any, value: Any) -> Any:
    bits = builder.and_(builder.bitcast(value, _INTS), _same(builder, (1 << 23) - 1))
    return builder.bitcast(builder.or_(bits, _same(builder, 127 << 23)), _FLOATS)


@_operation(lanes_type, *_TWO)
def where_counted(builder: Any, value: Any, sign: Any) -> Any:
    counted = builder.fcmp_ordered("!=", sign, _same(builder, 0.0, _FLOATS))
    return builder.select(counted, value, _same(builder, 1.0, _FLOATS))


def _six(times: int) -> Any:
    @_operation(lanes_type, *_ONE)
    def work(builder: Any, value: Any) -> Any:
        kept = [lane % 8 if lane % 8 < 6 and lane < 8 * times else LANES for lane in range(LANES)]
        return builder.shuffle_vector(value, _same(builder, 0.0, _FLOATS), ir.Constant(_INTS, kept))

    return work


once, twice = _six(1), _six(2)
