"""Operations on vectors of floats: compiled by LLVM against NumPy's, lane by lane."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.kernels.cpu.compiler import njit
from tests.kernels.plain import compiled, plain

WIDTH = 8  # lanes that every processor has
EXACT = ["+", "-", "*", "/", "same", "everywhere", "greatest", "bounded", "nearest", "power_of_two", "mantissa"]
EXACT += ["exponent", "where_counted", "once", "twice", "put"]
ROUNDED = ["fused", "total", "totals", "exponential"]


def work_of(l: ModuleType) -> Any:  # noqa: E741
    """All operations on the lanes of `x` and `y`; row i of `out` has the result of operation i."""

    def work(x: Any, y: Any, out: Any, step: int) -> None:
        a, b = l.lanes(x, 0), l.lanes(y, 1)
        l.fetch(x, 0)
        l.fetch_to_read(x, 0)
        l.put(out, 0 * step, a + b)
        l.put(out, 1 * step, a - b)
        l.put(out, 2 * step, a * b)
        l.put(out, 3 * step, a / b)
        l.put(out, 4 * step, l.same(np.float32(0.3)))
        l.put(out, 5 * step, l.everywhere(y, 3))
        l.put(out, 6 * step, l.same(l.greatest(a)))
        l.put(out, 7 * step, l.bounded(a, l.same(-0.5), l.same(0.5)))
        l.put(out, 8 * step, l.nearest(a * l.same(7.0)))
        l.put(out, 9 * step, l.power_of_two(l.nearest(a * l.same(9.0))))
        l.put(out, 10 * step, l.mantissa(b))
        l.put(out, 11 * step, l.exponent(b))
        l.put(out, 12 * step, l.where_counted(a, l.nearest(a)))
        l.put(out, 13 * step, l.once(a))
        l.put(out, 14 * step, l.twice(a))
        l.put(out, 15 * step, a)
        l.put(out, 16 * step, l.fused(a, b, a))
        l.put(out, 17 * step, l.same(l.total(a)))
        c, d, e, f, g = a * a, a - b, b, a * b, a + a
        l.put(out, 18 * step, l.once(l.totals(a, b, c, d, e, f, a, g, e, d, c, b)))
        l.put(out, 19 * step, l.exponential(a * l.same(50.0)))

    return work


def test_compiled_and_plain_lanes() -> None:
    """x repeats itself after 8 numbers, so that sums over 8 lanes are in proportion to those over 16."""
    random, step = np.random.default_rng(0), 32
    x = np.tile(random.normal(size=WIDTH).astype(np.float32), 5)
    y = np.tile(np.abs(random.normal(size=WIDTH)).astype(np.float32) * np.float32(1e5), 5)
    results = []
    for module, compiler in ((compiled("lanes"), njit), (plain("lanes"), lambda work: work)):
        out = np.zeros(step * len(EXACT + ROUNDED), np.float32)
        compiler(work_of(module))(x, y, out, step)
        rows = out.reshape(-1, step)[:, :WIDTH]
        rows[[EXACT.index("put") + 2, EXACT.index("put") + 3]] /= module.LANES / WIDTH  # total, totals
        results.append(dict(zip(EXACT + ROUNDED, rows, strict=True)))
    one, other = results
    for name in EXACT:
        np.testing.assert_array_equal(other[name], one[name], err_msg=name)
    for name in ROUNDED:
        np.testing.assert_allclose(other[name], one[name], rtol=3e-6, atol=1e-6 * np.abs(one[name]).min(), err_msg=name)


def test_plain_lanes_stay_inside_an_array() -> None:
    """Rows of fastText's inputs end where the array does: what is read after it is 0, and nothing is written there."""
    module = plain("lanes")
    room = np.ones(module.LANES + 5, np.float32)
    inside = room[:5]
    assert module.lanes(inside, 2).tolist() == [1.0] * 3 + [0.0] * (module.LANES - 3)
    module.put(inside, 2, module.same(7.0))
    assert room.tolist() == [1.0, 1.0, 7.0, 7.0, 7.0] + [1.0] * module.LANES
