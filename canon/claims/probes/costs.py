"""What layers cost: multiply-adds as torch's counter has them, steps that wait for one another."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from canon import registry
from canon.nn.attention.attend import attend
from canon.nn.blocks import BLOCKS
from canon.nn.counting import summarize
from canon.nn.recurrence import Carried, rnn_cell
from canon.systems.building import build

Values = dict[str, Any]


def layer_cost(seed: int, layer: str, dim: int) -> Values:
    """Products of one layer by the number of tokens n: attention's scores and mixture, the recurrence's two; and the
    longest chain of operations from the last output to the first input."""
    operations, chains = [], []
    for n in (dim // 8, dim // 4, dim // 2, dim, 2 * dim, 4 * dim):
        operations.append([n, _products(layer, n, dim)])
        chains.append([n, _chain(layer, n)])
    (few, cost), (many, more) = operations[0], operations[-1]
    at_dim = next(count for n, count in operations if n == dim)
    return {
        "power of n": math.log(more / cost) / math.log(many / few),
        "products at n = d": at_dim / dim**3,
        "chain": chains[-1][1] - chains[0][1],
        "operations": operations,
    }


def _products(layer: str, n: int, dim: int) -> int:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        _run(layer, torch.randn(1, n, dim))
    return counter.get_total_flops() // 2


def _chain(layer: str, n: int) -> int:
    x_BTD = torch.randn(1, n, 8, requires_grad=True)
    node = _run(layer, x_BTD)[:, -1].sum().grad_fn
    depth: dict[Any, int] = {node: 1}
    waiting = [node]
    while waiting:  # breadth first, again where a longer way is found
        node = waiting.pop()
        for other, _ in node.next_functions if node is not None else ():
            if other is not None and depth.get(other, 0) < depth[node] + 1:
                depth[other] = depth[node] + 1
                waiting.append(other)
    return max(depth.values())


def _run(layer: str, x_BTD: Tensor) -> Tensor:
    if layer == "attention":
        x_BHTD = x_BTD[:, None]
        return attend(x_BHTD, x_BHTD, x_BHTD)[:, 0]
    dim = x_BTD.shape[-1]
    input_HD, recurrent_HH = torch.randn(dim, dim) / dim, torch.randn(dim, dim) / dim
    state: Carried = (torch.zeros(1, dim),)
    for x_BD in x_BTD.unbind(1):
        state = rnn_cell(F.linear(x_BD, input_HD), F.linear(state[0], recurrent_HH), state)
    return state[0][:, None]


def network_cost(seed: int, system: str, side: int = 224) -> Values:
    """Multiply-adds of a classifier of ImageNet's images."""
    record, preset = registry.find(system)
    with torch.device("meta"):
        network = build(record, record.configure(preset, {"shape": [3, side, side], "num_classes": 1000}))
        return {"multiply-adds": summarize(network, torch.zeros(1, 3, side, side)).multiply_adds / 1e9}


def cost_ratio(seed: int, system: str, other: str) -> Values:
    return {"ratio": network_cost(seed, system)["multiply-adds"] / network_cost(seed, other)["multiply-adds"]}


def block_cost(seed: int, block: str, width: int, side: int) -> Values:
    """Multiply-adds of one residual block; a bottleneck of `width` has four times as many channels outside."""
    kind = BLOCKS[block]
    channels = width * kind.expansion
    network = kind(channels, width, 1, "A", "3x3")
    return {"multiply-adds": summarize(network, torch.zeros(1, channels, side, side)).multiply_adds / 1e9}
