"""Tensors that may be shards of FSDP2: the one place that knows torch's DTensor, which is not imported where it is not
used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from canon.contracts import World
from canon.nn.compiling import parts
from canon.nn.rows import RowTable
from canon.runs.shards import Shards

Tensors = dict[str, Tensor]


def as_tensors(arrays: Mapping[str, Any]) -> Mapping[str, Tensor]:
    """Arrays of a checkpoint as tensors in the same memory; tensors as they are, and shards where they are."""
    if isinstance(arrays, Shards):
        return arrays
    return {name: each if isinstance(each, Tensor) else torch.from_numpy(each) for name, each in arrays.items()}


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor of which this process may have a shard; every process must ask."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def too_large_to_gather(tensors: Iterable[Tensor], world: World) -> bool:
    """Whether the whole of these would take more than a quarter of the memory that a process has."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)  # of a shard: of the whole
    if world.device.type == "cuda":
        room = torch.cuda.get_device_properties(world.device).total_memory
    else:
        room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return world.total([float(4 * size > room)])[0] > 0


def like(tensor: Tensor, template: Tensor) -> Tensor:
    """`tensor` sharded as `template` is, if it is: every process has the whole and takes its part, without asking the
    others, who may go through the tensors in another order."""
    if not hasattr(template, "placements"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh = template.device_mesh  # type: ignore[attr-defined]
    return distribute_tensor(tensor.to(template.device), mesh, template.placements, src_data_rank=None)


def units(network: nn.Module, in_parts: bool) -> list[nn.Module]:
    """The parts of a network that are sharded by themselves, inner ones first: what is gathered is one of them at a
    time. These are its blocks, and its children where they are used by its forward alone (`in_parts`)."""
    units = (*parts(network), *(network.children() if in_parts else ()))
    return [unit for unit in units if any(True for _ in unit.parameters())]


def shard(network: nn.Module, in_parts: bool) -> None:
    from torch.distributed.fsdp import fully_shard

    for module in network.modules():
        if isinstance(module, RowTable):
            module.sparse = False  # gradients of shards are dense
    for part in units(network, in_parts):
        fully_shard(part)
    fully_shard(network)


@contextmanager
def gathered(network: nn.Module) -> Iterator[None]:
    """The network whole on every process, for what uses it by other ways than its forward."""
    from torch.distributed.fsdp import FSDPModule

    modules = [module for module in network.modules() if isinstance(module, FSDPModule)]
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in modules:
            module.set_reshard_after_forward(module is not network, recurse=False)
            module.reshard()
