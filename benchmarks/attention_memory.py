"""Peak memory of attention against the length of a sequence: `python benchmarks/attention_memory.py`.

Work: causal attention with a window of 256 over one sequence, 8 heads of 64, float32 on the CPU, forward and backward.
Kernels: banded (canon.nn.attention.banded, block by block), the same window as a mask for torch's fused kernel, and all
weights held at once. Each runs in a process of its own; counted is what its resident memory rose by above its inputs.
Lengths stop where a kernel would take many gigabytes. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from common import RESULTS, arguments, write_result

WINDOW, HEADS, WIDTH = 256, 8, 64
LENGTHS: dict[str, tuple[int, ...]] = {
    "banded": (1024, 2048, 4096, 8192, 16384, 32768, 65536),
    "fused, with a mask": (1024, 2048, 4096, 8192, 16384),
    "all weights": (1024, 2048, 4096),
}


def memory(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"This system does not report {key}; the benchmark needs Linux.")


def measure(kernel: str, length: int) -> None:
    """Prints the bytes that one forward and backward pass took at most."""
    import torch
    from torch import Tensor

    from canon.nn.attention import attend, weights
    from canon.nn.attention.dense import pattern, product

    def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen = pattern(query.shape[2], key.shape[2], True, WINDOW, query.device)
        return product(query, key, value, mask=seen, may_be_blind=False)

    kernels: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
        "banded": lambda query, key, value: attend(query, key, value, causal=True, window=WINDOW),
        "fused, with a mask": masked,
        "all weights": lambda query, key, value: weights(query, key, causal=True, window=WINDOW) @ value,
    }

    def once(size: int) -> None:
        query, key, value = (torch.randn(1, HEADS, size, WIDTH, requires_grad=True) for _ in range(3))
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = memory("VmRSS")
        kernels[kernel](query, key, value).sum().backward()
        print(memory("VmHWM") - before)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    once(2 * WINDOW)  # libraries are loaded and threads made at the first call
    once(length)


def plot(peaks: dict[str, dict[int, int]], path: Path) -> None:
    from canon import figures

    figure, axes = figures.new_figure(size=(6.4, 4.2))
    with figures.style():
        for name, row in peaks.items():
            axes[0, 0].plot(
                list(row), [value / 2**20 for value in row.values()], marker="o", markersize=3.5, label=name
            )
        axes[0, 0].set(
            xscale="log",
            yscale="log",
            xlabel="length, tokens",
            ylabel="peak memory, MiB",
            title=f"Attention with a window of {WINDOW}, forward and backward",
        )
        axes[0, 0].set_xticks(LENGTHS["banded"], [f"{length:,}" for length in LENGTHS["banded"]])
        axes[0, 0].minorticks_off()
        axes[0, 0].legend()
    figures.save(figure, path)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--one", nargs=2, metavar=("KERNEL", "LENGTH"), help="print the peak of one case alone")
    options = parser.parse_args()
    if options.one:
        return measure(options.one[0], int(options.one[1]))
    peaks: dict[str, dict[int, int]] = {}
    for kernel, lengths in LENGTHS.items():
        for length in lengths[:2] if options.quick else lengths:
            command = [sys.executable, __file__, "--one", kernel, str(length)]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            peaks.setdefault(kernel, {})[length] = int(printed.split()[-1])
            print(f"{kernel:20s} {length:7,d} tokens {peaks[kernel][length] / 2**20:10.1f} MiB")
    growth = {}  # by which factor memory grows when the length doubles, at the end of each row
    for kernel, row in peaks.items():
        *_, second, last = row.values()
        growth[kernel] = round(last / second, 2)
        print(f"{kernel:20s} twice the length takes {growth[kernel]:.2f}× the memory")
    result = {
        "work": {"window": WINDOW, "heads": HEADS, "head_dim": WIDTH, "dtype": "float32", "pass": "forward, backward"},
        "peak_bytes": peaks,
        "growth_when_length_doubles": growth,
    }
    write_result("attention_memory", result, options, packages=("torch",))
    if not options.quick:
        plot(peaks, RESULTS / "attention_memory.png")


if __name__ == "__main__":
    main()
