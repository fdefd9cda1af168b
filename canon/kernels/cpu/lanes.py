"""Vectors of floats as values in kernels: one register of the processor each, eight or sixteen numbers.

numba's own vectoriser gives up on loops that write to rows of the arrays they read, because two rows might overlap;
here a kernel says itself what is done to many numbers at once, by LLVM (lanes_llvm.py) or, with CANON_KERNELS=off, by
NumPy (lanes_numpy.py). + − × ÷ go lane by lane, and:

| operation | result |
| --- | --- |
| lanes(array, index), put(array, index, value) | array[index : index + LANES] read; written |
| same(number), everywhere(array, index) | a number, array[index], in all lanes |
| fused(a, b, c) | a·b + c, rounded once where the processor can |
| total(value), greatest(value) | the sum, the greatest of all lanes |
| totals(a0 … a5, b0 … b5) | the sums of a in lanes 0 … 5, of b from lane 8 on if there is one; others hold anything |
| once(value), twice(value) | lanes 0 … 5, also repeated from lane 8 on; 0 elsewhere |
| mantissa(value), exponent(value) | m and e of value = m · 2^e, 1 ≤ m < 2, for positive values |
| where_counted(value, sign) | value where sign is not 0, else 1 |
| bounded(value, least, most), nearest(value), power_of_two(value) | parts of `exponential` |
| fetch(array, index), fetch_to_read(array, index) | asks for a cache line, to write to or not; waits for nothing |

Arrays are flat float32; nothing checks that LANES numbers follow `index`.
"""

from __future__ import annotations

from canon.kernels import LINE as LINE
from canon.kernels import enabled
from canon.kernels.cpu.compiler import njit

if enabled():
    from canon.kernels.cpu import lanes_llvm as operations
else:
    from canon.kernels.cpu import lanes_numpy as operations  # type: ignore[no-redef]

LANES = operations.LANES

lanes, put, fetch, fetch_to_read = operations.lanes, operations.put, operations.fetch, operations.fetch_to_read
same, everywhere, fused = operations.same, operations.everywhere, operations.fused
total, totals, greatest = operations.total, operations.totals, operations.greatest
once, twice, where_counted = operations.once, operations.twice, operations.where_counted
mantissa, exponent = operations.mantissa, operations.exponent
bounded, nearest, power_of_two = operations.bounded, operations.nearest, operations.power_of_two


@njit(inline="always")
def exponential(x):
    """e^x for −80 ≤ x ≤ 80, beyond which it is that of the bound; wrong by 2e-8 |x| of itself, 2e-7 at least.

    e^x = 2^k e^r with k the whole number nearest to x / ln 2; of e^r, |r| ≤ ½ ln 2, the polynomial of degree 5 whose
    greatest relative error is least (by Remez's exchange)."""
    x = bounded(x, same(-80.0), same(80.0))
    k = nearest(x * same(1.4426950408889634))
    r = fused(k, same(-0.6931471805599453), x)
    series = fused(same(0.00829761958), r, same(0.0419156292))
    series = fused(series, r, same(0.166675765))
    series = fused(series, r, same(0.499988927))
    series = fused(series, r, same(0.999999691))
    series = fused(series, r, same(1.00000007))
    return series * power_of_two(k)
