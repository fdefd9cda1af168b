"""What training costs each of many devices: memory, traffic and time, calculated before any of them is rented.

Counted on the meta device, where nothing is computed and nothing large is stored: the parameters, the optimiser's
state after a step of it, the operations of an example, and the tensors that its forward pass keeps for the backward
one (`_dry_run`). The rest is arithmetic on W devices, P parameters in bytes, M micro-batches of each device:

| | DDP | FSDP2 |
| --- | --- | --- |
| weights, gradients | P each | P/W each |
| optimiser | S | S/W |
| copies of weights for products | C | C |
| gathered | – | the root's weights, and those of the two largest parts and the gradients of one |
| traffic | 2 (W−1)/W P, once a step | (W−1)/W (2 (P − root) + root + P), for every micro-batch |
| hidden in | the backward pass of the last micro-batch | all computing |

Time: the slower of computing and what of the traffic is not hidden in it, by the rate and the bandwidth that are given.
Assumptions: float32 weights, gradients and optimiser, as canon trains; matrix products in the recipe's precision;
attention that keeps no n² weights (flash); nothing compiled, which keeps less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from canon import optim
from canon.config import HasPositions, Table
from canon.contracts import Learner
from canon.data.schema import TokenSchema
from canon.errors import CanonError
from canon.inspect.summary import task_of
from canon.nn.counting import summarize
from canon.nn.ragged import Layout
from canon.nn.without_dynamo import leave_dynamo_out
from canon.recipe import Recipe
from canon.tasks.base import NetworkTask
from canon.training.sharding import units

RATE = 400.0  # TFLOP/s of a device: what GPT-2 of 124 M reaches on an H200
NODE = 8  # devices that a fast network joins
NEAR, FAR = 300.0, 40.0  # GB/s of a device, each way: NVLink of a node; a card of 400 Gbit/s between nodes


@dataclass(frozen=True)
class DryRun:
    """What the dry run has counted; bytes."""

    parameters: int  # numbers
    weights: int
    root: int  # of them in no part that is sharded by itself
    largest_part: int
    optimizer: int
    copies: int  # of weights in the precision of the products: each is kept until the backward pass has used it
    kept: int  # by the forward pass of one example
    operations: int  # forward and backward
    tokens: int  # 0: not of tokens


@dataclass(frozen=True)
class DeviceCost:
    """Of a device, for one way to train on several."""

    parallel: str
    weights: int
    gradients: int
    optimizer: int
    gathered: int
    copies: int
    activations: int  # of a micro-batch
    memory: int
    traffic: int  # bytes that a device sends in a step
    computing: float  # seconds
    sending: float
    step: float
    rate: float  # examples per second of all devices
    share_computing: float


@dataclass(frozen=True)
class Scaling:
    devices: int
    batch: int
    micro_batch: int
    accumulated: int
    precision: str
    tflops: float
    bandwidth: float
    example: DryRun
    costs: tuple[DeviceCost, ...]

    def to_json(self) -> Table:
        return asdict(self)


def scaling(recipe: Recipe, devices: int, tflops: float = RATE, bandwidth: float = 0.0, length: int = 0) -> Scaling:
    """The costs of a recipe's step; length: tokens of a sequence, where it reads any (0: as many as it can)."""
    if devices < 1:
        raise CanonError(f"--devices must be a positive whole number, got {devices}.")
    if not (tflops > 0 and bandwidth >= 0):
        raise CanonError("--rate and --bandwidth must be positive numbers.")
    example = _dry_run(recipe, length)
    train = recipe.train
    if not train.batch:
        raise CanonError("train.batch = 0 is all examples, whose number is not known here; give --set train.batch=N.")
    share = math.ceil(train.batch / devices)
    micro = min(train.micro_batch or share, share)
    bandwidth = bandwidth or (NEAR if devices <= NODE else FAR)
    known = Scaling(devices, train.batch, micro, -(-share // micro), _precision(recipe), tflops, bandwidth, example, ())
    return replace(known, costs=tuple(_cost(known, parallel) for parallel in ("ddp", "fsdp")))


def _cost(known: Scaling, parallel: str) -> DeviceCost:
    example, count = known.example, known.devices
    sent = (count - 1) / count
    if parallel == "ddp":
        weights, optimizer, gathered = example.weights, example.optimizer, 0
        traffic = 2 * sent * example.weights
    else:
        weights, optimizer = -(-example.weights // count), -(-example.optimizer // count)
        gathered = (example.root + 3 * example.largest_part) if count > 1 else 0
        parts = example.weights - example.root
        traffic = sent * (2 * parts + example.root + example.weights) * known.accumulated
    activations = example.kept * known.micro_batch
    memory = 2 * weights + optimizer + gathered + example.copies + activations
    share = known.batch / count
    computing = share * example.operations / (known.tflops * 1e12)
    sending = traffic / (known.bandwidth * 1e9)
    # Of copies, gradients travel while the last micro-batch goes back, which is two thirds of its time.
    hidden = computing if parallel == "fsdp" else 2 / 3 * computing / known.accumulated
    step = computing + max(0.0, sending - hidden)
    return DeviceCost(
        *(parallel, weights, weights, optimizer, gathered, example.copies, activations, memory, round(traffic)),
        *(computing, sending, step, known.batch / step, computing / step),
    )


def _precision(recipe: Recipe) -> str:
    return "bfloat16" if recipe.train.precision == "auto" else recipe.train.precision


# The dry run


def _dry_run(recipe: Recipe, length: int) -> DryRun:
    system, config = recipe.system, recipe.config
    task = task_of(system, config, length or (config.max_positions if isinstance(config, HasPositions) else 0))
    if not isinstance(task, NetworkTask) or issubclass(system.load()[1], Learner):
        raise CanonError(f"{system.name} learns without gradients, and on one device.")
    leave_dynamo_out()
    with torch.device("meta"):
        network: nn.Module = system.load()[1](config)
    counted = summarize(network, *task.example(), run=task.trial)
    sizes, weights = _sizes(units(network, in_parts=not task.whole)), _bytes(network.parameters())
    copies, kept = kept_by(network, task, getattr(torch, _precision(recipe)))
    return DryRun(
        parameters=counted.parameters,
        weights=weights,
        root=weights - sum(sizes),
        largest_part=max(sizes, default=0),
        optimizer=_state(recipe, network),
        copies=copies,
        kept=kept,
        operations=6 * counted.multiply_adds,  # two for each, and the backward pass is twice the forward one
        tokens=_tokens(task),
    )


def _tokens(task: NetworkTask) -> int:
    layouts = [each for each in task.example() if isinstance(each, Layout)]
    return max((layout.max_length for layout in layouts), default=0) if isinstance(task.schema, TokenSchema) else 0


def _bytes(parameters: Iterable[Tensor]) -> int:
    return sum(parameter.nbytes for parameter in parameters)


def _sizes(parts: list[nn.Module]) -> list[int]:
    """The bytes of each part, without those of the parts before it."""
    seen: set[Tensor] = set()
    sizes = []
    for part in parts:
        fresh = set(part.parameters()) - seen
        seen |= fresh
        sizes.append(_bytes(fresh))
    return sizes


def _state(recipe: Recipe, network: nn.Module) -> int:
    """The bytes of the optimiser's state after a step."""
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = optim.create(recipe.optimizer.settings, [{"params": parameters}])
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    for parameter in parameters:
        parameter.grad = None
    states = (value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor))
    return sum(value.nbytes for value in states)


def kept_by(network: nn.Module, task: NetworkTask, precision: torch.dtype) -> tuple[int, int]:
    """(copies of weights, all else) that the forward pass of an example keeps for the backward one, in bytes."""
    weights = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    storages: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            storages[storage._cdata] = storage  # held, so that no other gets its place
        return tensor

    network.train()
    inputs = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), task.example())
    inputs = tree_map_only(Layout, lambda layout: Layout(layout.lengths, "meta"), inputs)
    card = _Card(precision)
    with ExitStack() as stack:
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor))
        stack.enter_context(torch.autocast("cpu", precision, enabled=precision != torch.float32))
        stack.enter_context(card)
        task.trial(network, *inputs)
    copies = {tensor.untyped_storage()._cdata for tensor in card.copies}
    of_weights, others = (
        sum(storage.nbytes() for place, storage in storages.items() if (place in copies) == wanted)
        for wanted in (True, False)
    )
    return of_weights, others


class _FlashShapes(torch.autograd.Function):
    """Attention as flash kernels keep it for the backward pass: inputs, output and a float32 for each row."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch, heads, length, _ = query.shape
        out = query.new_empty((batch, length, heads, value.shape[-1])).transpose(1, 2)  # a token's heads side by side
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return out


class _Card(TorchFunctionMode):
    """What autocast does on a GPU, on meta tensors: products in `precision`, norms in float32; and flash attention.

    copies: of weights, which count apart from activations: there are no more of them with more examples.
    """

    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self.precision = precision
        self.copies: list[Tensor] = []

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is F.scaled_dot_product_attention:
            return _FlashShapes.apply(*args[:3])
        if function in _PRODUCTS:
            args, kwargs = tree_map_only(Tensor, self._cast, (args, kwargs))
        elif function in (F.layer_norm, torch.layer_norm) and self.precision != torch.float32:
            args, kwargs = tree_map_only(Tensor, Tensor.float, (args, kwargs))
        return function(*args, **kwargs)

    def _cast(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or tensor.dtype == self.precision:
            return tensor
        cast = tensor.to(self.precision)
        if tensor.is_leaf and tensor.requires_grad:
            self.copies.append(cast)
        return cast


_PRODUCTS = {F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, torch.addmm, torch.mm, torch.baddbmm}
_PRODUCTS |= {torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose2d, torch.einsum}
