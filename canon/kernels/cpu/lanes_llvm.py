"""The operations of canon/kernels/cpu/lanes.py as LLVM's vectors: one register of the processor each.

LLVM makes AVX-512, AVX2 or NEON of them. Plain version: canon/kernels/cpu/lanes_numpy.py, equal in
tests/kernels/test_lanes.py to the last bit, but for `fused`, `total` and `totals`, which round otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, overload, register_model

# AVX-512 has registers of sixteen floats; elsewhere two of four or one of eight.
LANES = 16 if llvm.get_host_cpu_features().get("avx512f") else 8

# Its first argument is the compiler's, which callers do not give.
intrinsic: Any = _intrinsic
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


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _call(builder: Any, name: str, result: Any, arguments: list[Any], **more: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, arguments, **more)


@intrinsic
def lanes(typing: Any, array: Any, index: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(builder.bitcast(address, _FLOATS.as_pointer()), align=4)

    return lanes_type(array, types.int64), build


@intrinsic
def put(typing: Any, array: Any, index: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], builder.bitcast(address, _FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, lanes_type), build


def _fetching(for_writing: int) -> Any:
    """Asks for the cache line at `index`, to be read, or to be written to as well; waits for nothing."""

    @intrinsic
    def work(typing: Any, array: Any, index: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address = _address(context, builder, signature.args[0], *arguments)
            keep_in_all_levels, data = _INT(3), _INT(1)
            given = [builder.bitcast(address, ir.IntType(8).as_pointer()), _INT(for_writing), keep_in_all_levels, data]
            _call(builder, "llvm.prefetch.p0", ir.VoidType(), given)
            return context.get_dummy_value()

        return types.void(array, types.int64), build

    return work


fetch_to_read, fetch = _fetching(0), _fetching(1)


@intrinsic
def same(typing: Any, value: Any) -> Any:
    """`value` in all lanes."""
    return lanes_type(types.float32), lambda context, builder, signature, arguments: _same(
        builder, arguments[0], _FLOATS
    )


@intrinsic
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, f"llvm.fmuladd.v{LANES}f32", _FLOATS, list(arguments))

    return lanes_type(lanes_type, lanes_type, lanes_type), build


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """The sum of all lanes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_FLOAT, [_FLOAT, arguments[0].type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return builder.call(function, [ir.Constant(_FLOAT, -0.0), arguments[0]], fastmath=["reassoc"])

    return types.float32(lanes_type), build


@intrinsic
def totals(
    typing: Any, a0: Any, a1: Any, a2: Any, a3: Any, a4: Any, a5: Any, b0: Any, b1: Any, b2: Any, b3: Any, b4: Any,
    b5: Any,
) -> Any:  # fmt: skip
    """The sums of twelve: those of a in lanes 0 … 5, those of b in lanes 8 … 13 where there are so many; others hold
    anything. Halves of two vectors are brought together and added: no step works on fewer lanes than there are."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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
        a, b = arguments[:6], arguments[6:]
        halves = [(four(*six[:4]), four(six[4], six[5], six[4], six[5])) for six in (a, b)]
        if LANES == 8:
            return fold(*halves[0], quarter[0] + quarter[2], quarter[1] + quarter[3])
        even, odd = ([lane for four_lanes in quarter[start::2] for lane in four_lanes] for start in (0, 1))
        return fold(fold(*halves[0], even, odd), fold(*halves[1], even, odd), even, odd)

    return lanes_type(*[lanes_type] * 12), build


@intrinsic
def everywhere(typing: Any, array: Any, index: Any) -> Any:
    """The number at `index` in all lanes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _same(builder, builder.load(_address(context, builder, signature.args[0], *arguments), align=4), _FLOATS)

    return lanes_type(array, types.int64), build


def _pairwise(name: str) -> Callable[..., Any]:
    @intrinsic
    def work(typing: Any, a: Any, b: Any) -> Any:
        return lanes_type(lanes_type, lanes_type), lambda context, builder, signature, arguments: getattr(
            builder, name
        )(*arguments)

    return work


_add, _subtract, _multiply, _divide = (_pairwise(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


def _operator(symbol: Callable[..., Any], work: Callable[..., Any]) -> None:
    @overload(symbol)
    def typed(a: Any, b: Any) -> Any:
        def both(a: Any, b: Any) -> Any:
            return work(a, b)

        return both if isinstance(a, _Lanes) and isinstance(b, _Lanes) else None


_operator(operator.add, _add)
_operator(operator.sub, _subtract)
_operator(operator.mul, _multiply)
_operator(operator.truediv, _divide)


@intrinsic
def bounded(typing: Any, value: Any, least: Any, most: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, least, most = arguments
        value = builder.select(builder.fcmp_ordered("<", value, least), least, value)
        return builder.select(builder.fcmp_ordered(">", value, most), most, value)

    return lanes_type(lanes_type, lanes_type, lanes_type), build


@intrinsic
def greatest(typing: Any, value: Any) -> Any:
    """The greatest of all lanes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", _FLOAT, [arguments[0]])

    return types.float32(lanes_type), build


@intrinsic
def nearest(typing: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, f"llvm.rint.v{LANES}f32", _FLOATS, [arguments[0]])

    return lanes_type(lanes_type), build


@intrinsic
def power_of_two(typing: Any, value: Any) -> Any:
    """2 to a whole number, made from the bits of its exponent."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = builder.add(builder.fptosi(arguments[0], _INTS), _same(builder, 127))
        return builder.bitcast(builder.shl(whole, _same(builder, 23)), _FLOATS)

    return lanes_type(lanes_type), build


@intrinsic
def exponent(typing: Any, value: Any) -> Any:
    """The whole number e of value = m · 2^e with 1 ≤ m < 2, for positive values."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.lshr(builder.bitcast(arguments[0], _INTS), _same(builder, 23))
        return builder.sitofp(builder.sub(bits, _same(builder, 127)), _FLOATS)

    return lanes_type(lanes_type), build


@intrinsic
def mantissa(typing: Any, value: Any) -> Any:
    """The m of value = m · 2^e with 1 ≤ m < 2, for positive values."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.and_(builder.bitcast(arguments[0], _INTS), _same(builder, (1 << 23) - 1))
        return builder.bitcast(builder.or_(bits, _same(builder, 127 << 23)), _FLOATS)

    return lanes_type(lanes_type), build


@intrinsic
def where_counted(typing: Any, value: Any, sign: Any) -> Any:
    """`value` where `sign` is not 0, else 1."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, sign = arguments
        counted = builder.fcmp_ordered("!=", sign, _same(builder, 0.0, _FLOATS))
        return builder.select(counted, value, _same(builder, 1.0, _FLOATS))

    return lanes_type(lanes_type, lanes_type), build


def _six(times: int) -> Any:
    @intrinsic
    def work(typing: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kept = [lane % 8 if lane % 8 < 6 and lane < 8 * times else LANES for lane in range(LANES)]
            nothing = _same(builder, 0.0, _FLOATS)
            return builder.shuffle_vector(arguments[0], nothing, ir.Constant(_INTS, kept))

        return lanes_type(lanes_type), build

    return work


# The first six lanes where `totals` has the sums of a, or those of a and of b; 0 elsewhere.
once, twice = _six(1), _six(2)
