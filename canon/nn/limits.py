"""Numbers that cannot work, refused in a sentence before work begins: out of range, or more than the memory holds."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from canon.errors import CanonError

_GROUPS = Path("/proc/self/cgroup")
_SEEDS = 1 << 63  # that give torch different numbers


def whole(name: str, value: object, least: int = 1, most: int = 1_000_000) -> int:
    """The value, if it is a whole number in range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise CanonError(f"{name} must be a whole number from {least:,} to {most:,}, got {_short(value)}.")
    return value


def seeded(seed: object) -> torch.Generator:
    """A generator of the host that the seed decides."""
    return torch.Generator().manual_seed(whole("seed", seed, 0, _SEEDS - 1))


def real(name: str, value: object, least: float, most: float) -> float:
    """The value, if it is a number in range."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise CanonError(f"{name} must be a number from {least:,} to {most:,}, got {_short(value)}.")
    return value


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**18:
        return f"one of {int(math.log10(abs(value))) + 1} digits"
    return repr(value)


def require_memory(needed: int, what: str, hint: str, device: torch.device | None = None) -> None:
    """Refuses what needs more bytes than the device has."""
    there = memory(device)
    if needed > there:
        raise CanonError(f"{what} needs {gigabytes(needed)} of memory, and there are {gigabytes(there)}; {hint}.")


def memory(device: torch.device | None = None) -> int:
    """Bytes of the device, or of the machine, where a container or a process may have fewer."""
    if device is not None and device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    known = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    known.append(address_space())
    for path in _limits():
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(known)


def _limits() -> Iterator[Path]:
    """The files with the limits of this process's control groups, of both versions, and of those around them; inside a
    container its own group may be at the root."""
    lines = _GROUPS.read_text().splitlines() if _GROUPS.exists() else []
    for line in lines:
        _, kinds, name = line.split(":", 2)
        if kinds in ("", "memory"):
            root = Path("/sys/fs/cgroup", kinds)
            inner = root / name.lstrip("/")
            for folder in (inner, *(above for above in inner.parents if above.is_relative_to(root))):
                yield folder / ("memory.limit_in_bytes" if kinds else "memory.max")


def address_space() -> int:
    """Bytes that a process may reserve: `ulimit -v`."""
    if sys.platform == "win32":
        return 1 << 63
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return 1 << 63 if limit == resource.RLIM_INFINITY else limit


def gigabytes(size: int) -> str:
    """For a sentence."""
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size / 1e9:.1e} GB"
