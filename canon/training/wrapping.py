"""What a network is wrapped in to train it: copies over processes (DDP), compilation, CUDA graphs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from canon.contracts import Context, GraphRecordable, TakesTurns
from canon.nn.attention.attend import fits
from canon.nn.attention.multihead import MultiHead
from canon.nn.compiling import PAYS_FROM, compile_parts, compile_whole, parts
from canon.training.phases import Phase, give_turn

# What a shorter run does not earn back: steps where the whole network is compiled, which takes tens of seconds, and
# operations where blocks are, which takes ten seconds at first and three with what was kept (measured on an H200).
_WHOLE_FROM, _BLOCKS_FROM = 1000, 1e16


def wrap(
    network: nn.Module, phases: list[Phase], context: Context, sharded: bool, flops_per_step: float, total_steps: int
) -> tuple[dict[str, nn.Module], bool]:
    """The network as each phase runs it, and whether torch.compile makes CUDA graphs, which need to know where a step
    begins. DDP waits for the gradients of all parameters that it wraps, so each phase has its own, of what it
    changes."""
    train, world = context.recipe.train, context.world
    on_gpu = world.device.type == "cuda"
    even = context.schema.one_shape
    in_parts = bool(parts(network))  # blocks, for any lengths; the rest is little work
    heavy = flops_per_step >= PAYS_FROM and flops_per_step * total_steps >= _BLOCKS_FROM
    worth = heavy if in_parts else even and total_steps >= _WHOLE_FROM
    compiled = train.compile == "on" or (train.compile == "auto" and on_gpu and worth)
    if compiled and in_parts:
        compiled = False
        compile_parts(network)
    # CUDA graphs: ResNet-18 on 28×28 images has 3 ms of work in a step whose launches take three times as long.
    in_graphs = compiled and even and on_gpu and world.size == 1 and len(phases) == 1
    models: dict[str, nn.Module] = {}
    for phase in phases:
        model = network.turn(phase.name) if isinstance(network, TakesTurns) else network
        if world.size > 1 and not sharded:
            if len(phases) > 1:
                give_turn(phase, phases)
            model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        models[phase.name] = compile_whole(model, in_graphs) if compiled else model
    return models, in_graphs


def can_record(network: nn.Module, dtype: torch.dtype) -> bool:
    """Whether a pass over sequences that lie end to end can be a CUDA graph (canon.training.graphs)."""
    if not isinstance(network, GraphRecordable) or not network.records or dtype not in (torch.bfloat16, torch.float16):
        return False
    return all(fits(module.head_dim) for module in network.modules() if isinstance(module, MultiHead))
