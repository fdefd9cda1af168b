"""Tensors that may be shards of FSDP2: the one place that knows torch's DTensor, which is not imported where it is not
used."""

from __future__ import annotations

from torch import Tensor, nn


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor of which this process may have a shard; every process must ask."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process has."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def like(tensor: Tensor, template: Tensor) -> Tensor:
    """`tensor` sharded as `template` is, if it is."""
    if not hasattr(template, "placements"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh = template.device_mesh  # type: ignore[attr-defined]
    return distribute_tensor(tensor.to(template.device), mesh, template.placements)


def shard(network: nn.Module, in_parts: bool) -> None:
    """Shards a network, each of its children by itself where it is used by its forward alone."""
    from torch.distributed.fsdp import fully_shard

    for child in network.children() if in_parts else ():
        if any(True for _ in child.parameters()):
            fully_shard(child)
    fully_shard(network)
