"""Where torch trains: the device, the processes, the precision, the seeds and what the device could do at best.

`torchrun` starts the processes and sets each one's rank in environment variables; canon has no launcher.
"""

from __future__ import annotations

import os
import time
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor

from canon.contracts import World
from canon.errors import CanonError
from canon.train_config import TrainConfig

# Dense bf16/fp16 tensor-core rate in FLOP/s, from the makers' data sheets.
_PEAKS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "A10": 125e12,
    "L4": 121e12,
    "L40S": 362e12,
    "V100": 125e12,
    "T4": 65e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


_ALL_THREADS = torch.get_num_threads()


class Processes(World):
    """This process among several."""

    def total(self, numbers: list[float]) -> list[float]:
        place = self.device if dist.get_backend() == "nccl" else torch.device("cpu")
        summed = torch.tensor(numbers, dtype=torch.float64, device=place)
        dist.all_reduce(summed)
        return summed.tolist()

    def gather(self, rows: Tensor) -> Tensor:
        sizes = [int(count) for count in self._gathered(torch.tensor([len(rows)]))]
        padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = self._gathered(padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        tensor = tensor.to(self.device) if dist.get_backend() == "nccl" else tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return [part.cpu() for part in parts]

    def wait(self) -> None:
        dist.barrier()


def enter_world(train: TrainConfig) -> World:
    """The device that the recipe asks for, and the other processes if torchrun started several."""
    kind = train.device
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise CanonError("train.device is cuda, but torch sees no CUDA device here; use train.device=cpu or auto.")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise CanonError("train.device is mps, but torch sees no Apple GPU here; use train.device=cpu or auto.")
    torch.set_num_threads(train.threads or _ALL_THREADS)
    if train.deterministic and kind == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device(kind, local) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = not train.deterministic  # batches have one shape: the search pays
        # cuDNN's attention plans again for every shape, which takes longer than a step; sentences have many shapes.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if size > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    return Processes(str(device), dist.get_rank(), size) if size > 1 else World(str(device))


def leave_world() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def precision_of(train: TrainConfig, device: torch.device) -> torch.dtype:
    if train.precision == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[train.precision]


def seed_step(seed: int, step: int, rank: int, device: torch.device) -> None:
    """All randomness of a step is a function of (seed, step, rank): nothing of it needs storing to resume exactly."""
    number = _mixed(seed, step, rank)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(number)
    elif device.type == "mps":
        torch.mps.manual_seed(number % (1 << 32))


def shared_generator(seed: int, step: int, device: torch.device) -> torch.Generator:
    """The same numbers on every process: for noise that must not depend on how many there are."""
    return torch.Generator(device).manual_seed(_mixed(seed, step, -1))


def _mixed(seed: int, step: int, rank: int) -> int:
    # The odd constants keep neighbouring steps, ranks and seeds apart; torch's generators hash the number further.
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB) % (1 << 63)


def peak_rate(device: torch.device) -> float:
    """The most FLOP/s of the device: from the data sheet of a known GPU, by a measured matrix product of a CPU."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return next((peak for key, peak in _PEAKS.items() if key in name), 0.0)
    return _measured_rate(torch.get_num_threads()) if device.type == "cpu" else 0.0


@cache
def _measured_rate(_threads: int) -> float:
    """Of this process's CPU, measured once for each number of threads, for runs that share a process."""
    a = torch.ones(768, 768)
    a @ a
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * 768**3 / best
