"""Where a run is trained, without torch where its system needs none: canon.training.devices has the rest."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

from canon.contracts import World
from canon.kernels import number
from canon.registry import System
from canon.train_config import TrainConfig

_DRIVERS = {"win32": "nvcuda.dll"}


def enter_world(train: TrainConfig, system: System | None = None) -> World:
    """The device that a recipe asks for, and the other processes if torchrun started several. system: None of one
    that needs torch."""
    if system and int(os.environ.get("WORLD_SIZE", "1")) == 1 and _is_plain(system, train.device):
        number.set_threads(train.threads)
        return World()
    from canon.training import devices

    return devices.enter_world(train)


def leave_world(world: World) -> None:
    if world.size > 1:
        from canon.training import devices

        devices.leave_world()


def world_to_use(system: System) -> World:
    """Where a trained run is used: by this process alone."""
    if _is_plain(system, "auto"):
        return World()
    import torch

    return World("cuda" if torch.cuda.is_available() else "cpu")


def _is_plain(system: System, device: str) -> bool:
    """Whether a system works here without torch."""
    if device not in ("auto", "cpu"):
        return False  # torch says whether there is one
    return system.torch == "never" or (system.torch == "on a GPU" and (device == "cpu" or not _has_driver()))


def _has_driver() -> bool:
    """Whether the driver of a GPU is installed."""
    try:
        ctypes.CDLL(_DRIVERS.get(sys.platform, "libcuda.so.1"))
    except OSError:
        return False
    return True


def peak_rate(world: World) -> float:
    """The most FLOP/s of the device; 0: unknown."""
    from canon.training import devices

    return devices.peak_rate(world.device)


def reset_peak_memory(world: World) -> None:
    """Starts the count of `peak_memory` again, for runs that share a process."""
    if world.kind == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(world.device)
    with suppress(OSError):  # Linux; elsewhere the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(world: World) -> int:
    """Most bytes in use so far: the GPU's, or this process's."""
    if world.kind == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(world.device)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def name_of(world: World) -> str:
    """The device's name."""
    if world.kind != "cuda":
        return world.kind
    import torch

    return torch.cuda.get_device_name(world.device)
