"""Which parts of a network torch.compile takes: those whose class says `compiles`, the stacks of blocks.

They see tokens end to end, in any number, as one dimension; compiling the network as a whole would start again at every
new length. Compiled code needs fewer kernels and reads less memory, but each call of it takes the host longer, so it
pays only where the device is the slower of the two.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from canon.contracts import Compiles

PAYS_FROM = 2e12  # operations of a step: below, the host is the slower one (measured on an H200)


def parts(network: nn.Module) -> list[nn.Module]:
    return [module for module in network.modules() if isinstance(module, Compiles) and module.compiles]


def unwrapped(network: nn.Module) -> Any:
    """The network inside what training wraps it in: torch.compile's module, and within it DDP's."""
    for name in ("_orig_mod", "module"):
        network = network._modules.get(name, network)  # type: ignore[assignment]
    return network


def compile_parts(network: nn.Module) -> None:
    for part in parts(network):
        part.compile(dynamic=True)
