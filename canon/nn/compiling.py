"""Which parts of a network torch.compile takes: those whose class says `compiles`, the blocks of Transformers.

They see tokens end to end, in any number, as one dimension; compiling the network as a whole would start again at every
new length. One block is compiled and serves for all that are alike: a GPT-2 begins after 4 seconds where a stack of
12 takes 34, and is as fast. Compiled code needs fewer kernels and reads less memory, but each call of it takes the host
longer, so it pays only where the device is the slower of the two. What was compiled stays in canon's cache.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from canon.contracts import Compiles
from canon.storage import cache_folder

PAYS_FROM = 2e12  # operations of a step: below, the host is the slower one (measured on an H200)


def parts(network: nn.Module) -> list[nn.Module]:
    return [module for module in network.modules() if isinstance(module, Compiles) and module.compiles]


def unwrapped(network: nn.Module) -> Any:
    """The network inside what training wraps it in: torch.compile's module, and within it DDP's."""
    for name in ("_orig_mod", "module"):
        network = network._modules.get(name, network)  # type: ignore[assignment]
    return network


def compile_parts(network: nn.Module) -> None:
    _keep()
    for part in parts(network):
        part.compile(dynamic=True)


def compile_whole(network: nn.Module, in_graphs: bool) -> nn.Module:
    """For batches of one shape; in_graphs: as CUDA graphs of torch's own."""
    _keep()
    return torch.compile(network, mode="reduce-overhead" if in_graphs else None)  # type: ignore[return-value]


def _keep() -> None:
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))
