"""The gradient loop: a torch network, a task, one optimiser per phase, over any number of processes.

A step draws the global batch, sums the losses of its targets over micro-batches and processes, and divides the gradient
by the global number of targets: one process, two or four make the same step. All randomness is keyed by the step.
Hot path: no host sync on CUDA between logged steps; a bad step is skipped on the device and told at the next log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from canon import optim
from canon.data.batching.augment import Draws, augmenter
from canon.data.batching.loader import Batch, Examples, Loader, order_of, shares
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.nn.attention.attend import fits
from canon.nn.attention.multihead import MultiHead
from canon.nn.compiling import PAYS_FROM, compile_parts, parts
from canon.nn.counting import count_parameters, summarize
from canon.nn.frozen import frozen
from canon.optim.clipping import clip_by_norm, clip_by_value
from canon.optim.schedules import multiplier
from canon.recipe import OptimizerChoice, Recipe
from canon.tasks.base import Outputs, Task
from canon.training.devices import World, precision_of, seed_step, shared_generator
from canon.training.graphs import Graphs
from canon.training.learner import Tensors

_EVALUATION_STREAMS = 16  # of a text: one would be exact from its first word to its last, and much slower
_COMPILE_FROM = 1000  # steps: compiling takes tens of seconds, which a shorter run does not earn back
# Operations per step: below, a second CPU thread gains little (here 15 %), and loses much where the cores are busy.
_SHARED_FROM = 5e7
_LEAST_SCALE = 1.0  # of float16 losses; below it the numbers themselves overflow
_NAN = float("nan")
_NOTHING = nullcontext()


class NonFinite(CanonError):
    """A loss or gradient that is not a number; the weights are still those before the step."""


class Phase:
    """One optimiser with the parameters it may change, and the tallies of its loss since the last log."""

    def __init__(
        self,
        name: str,
        choice: OptimizerChoice,
        parameters: list[tuple[str, nn.Parameter]],
        paces: dict[str, tuple[float, bool]] | None = None,
    ) -> None:
        self.name = name
        self.choice = choice
        self.parameters: list[nn.Parameter] = []
        self.names: list[str] = []
        groups: dict[tuple[int, float, bool], dict[str, Any]] = {}
        for parameter_name, parameter in parameters:
            index = _group_of(parameter_name, choice)
            group = choice.groups[index] if index >= 0 else None
            if group and group.lr == 0:
                continue
            share, decays = (paces or {}).get(parameter_name, (1.0, True))
            made = groups.setdefault((index, share, decays), {"params": [], "names": []})
            if share != 1 or (group and group.lr is not None):
                made["lr"] = share * (group.lr if group and group.lr is not None else choice.settings.lr)
            if not decays:
                made["weight_decay"] = 0.0
            if group and group.weight_decay is not None:
                made["weight_decay"] = group.weight_decay
            made["params"].append(parameter)
            made["names"].append(parameter_name)
        for group in choice.groups:
            if not any(fnmatch(parameter_name, group.match) for parameter_name, _ in parameters):
                raise CanonError(f'optimizer.groups: no parameter of the network matches "{group.match}".')
        # The whole rate, which is the one that is logged, first; torch numbers parameters group by group.
        made_first = [groups[key] for key in sorted(groups, key=lambda key: -key[1])]
        for made in made_first:
            self.names += made.pop("names")
            self.parameters += made["params"]
        if not self.parameters:
            raise CanonError("optimizer.groups freezes every parameter, so nothing is left to train.")
        self.optimizer = optim.create(choice.settings, made_first)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.skips_on_device = bool(self.optimizer.defaults.get("fused"))
        self.multiplier = math.nan
        self.reset()

    def reset(self) -> None:
        self.loss: Any = 0.0  # a float on the CPU; on a GPU a tensor, read only when it is logged
        self.bad: Any = 0.0
        self.count = 0
        self.norm: Tensor | None = None

    def set_rate(self, step: int, total_steps: int) -> None:
        now = multiplier(self.choice.schedule, step, total_steps)
        if now != self.multiplier:
            self.multiplier = now
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * now


class Gradient:
    """Learner of every system with loop="gradient"."""

    def __init__(self, network: nn.Module, task: Task, recipe: Recipe, schema: Schema, world: World) -> None:
        self.network = network.to(world.device)
        self.task = task
        self.train = recipe.train
        self.schema = schema
        self.world = world
        self._recipe = recipe
        self._device = world.device
        self._dtype = precision_of(recipe.train, world.device)
        self._sharded = world.size > 1 and recipe.train.parallel == "fsdp"
        self._penalty = getattr(network, "penalty", None)
        # The layout in which convolutions are fastest on tensor cores.
        self._channels_last = world.device.type == "cuda" and schema.input == "image"
        if self._channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._phases: list[Phase] = []
        self._frozen: list[nn.Module] = []  # modules all of whose parameters have the rate 0
        self._skipped = 0
        # Called between the batches of an evaluation, on all processes as often; what it raises ends the evaluation.
        self.pause: Callable[[], None] = lambda: None

    @property
    def num_parameters(self) -> int:
        return count_parameters(self.network)

    def begin(self, columns: Columns, seed: int, batch: int, steps: int) -> None:
        train = self.train
        examples = self._examples(columns)
        order = order_of(columns, train.batch, train.tokens, seed, examples.index_device)
        self.loader = Loader(examples, order, train.micro_batch, self.world.rank, self.world.size, seed)
        self._total_steps = steps
        self._per_step = examples.size / order.per_epoch
        # Two operations per multiply-add, and the backward pass is twice the forward one.
        counted = summarize(self.network, *self.task.example(), **self.task.example_options())
        self.flops_per_example = 6 * counted.multiply_adds
        if not train.threads and self.flops_per_example * self._per_step < _SHARED_FROM:
            torch.set_num_threads(1)
        most = math.ceil(train.batch / self.world.size)
        if not self.task.divisible and 0 < train.micro_batch < most:
            name = self._recipe.system.name
            raise CanonError(f"train.micro_batch is {train.micro_batch}, but {name} takes whole batches; leave it out.")
        if hasattr(self.network, "take"):  # a network that is made of the training rows themselves
            rows = examples.take(torch.arange(examples.size, device=examples.index_device))
            self.network.take(rows, self.schema)  # type: ignore[operator]
        self._freeze()
        if self._sharded:
            self._shard()
        paces = self.task.paces(self.network)
        phases = {
            name: Phase(name, self._recipe.optimizer_for(name), self.task.parameters(self.network, name), paces)
            for name in dict.fromkeys(self.task.phases)
        }
        self._phases = list(phases.values())
        self._order = [phases[name] for name in self.task.phases]
        self._parameters = list(self.network.parameters())
        self._models = self._wrapped()
        self._recorded = self._recording(self.task.longest(columns))
        self._augment = augmenter(self._recipe.data.augment, self.schema)
        self._bad = torch.zeros((), dtype=torch.float32, device=self._device)
        self._inverse = torch.ones((), dtype=torch.float32, device=self._device)
        self._inverse_value = 1.0
        self._on_cpu = self._device.type == "cpu"
        # float16 needs its losses scaled into range; 1 otherwise.
        self._scaling = self._dtype == torch.float16
        self._scale = torch.tensor(2.0**16 if self._scaling else 1.0, device=self._device)
        self._growth = torch.zeros((), dtype=torch.int32, device=self._device)
        self._enter_training()

    def _freeze(self) -> None:
        """No gradients for what has the rate 0; before the network is wrapped, which counts the gradients to expect."""
        for phase in dict.fromkeys(self.task.phases):
            choice = self._recipe.optimizer_for(phase)
            for name, parameter in self.task.parameters(self.network, phase):
                index = _group_of(name, choice)
                if index >= 0 and choice.groups[index].lr == 0:
                    parameter.requires_grad_(False)
        for module in self.network.modules():
            own = list(module.parameters())
            if own and not any(parameter.requires_grad for parameter in own):
                self._frozen.append(module)

    def _enter_training(self) -> None:
        """What is frozen is a fixed function: its batch norms keep their statistics, its dropouts drop nothing."""
        self.network.train()
        for module in self._frozen:
            module.eval()

    def _shard(self) -> None:
        from torch.distributed.fsdp import fully_shard

        for child in () if self.task.whole else self.network.children():
            if any(True for _ in child.parameters()):
                fully_shard(child)
        fully_shard(self.network)

    def _wrapped(self) -> dict[str, nn.Module]:
        """The network as each phase runs it. DDP waits for the gradients of all that it was made with, so it is made
        once for each phase, with what that phase changes."""
        even = self.schema.input in ("image", "features")  # batches of one shape
        in_parts = bool(parts(self.network))  # stacks of blocks, for any lengths; the rest is little work
        heavy = in_parts and self.flops_per_example * self._per_step >= PAYS_FROM
        worth = self._device.type == "cuda" and (even or heavy) and self._total_steps >= _COMPILE_FROM
        compiled = self.train.compile == "on" or (self.train.compile == "auto" and worth)
        if compiled and in_parts:
            compiled = False
            compile_parts(self.network)
        # CUDA graphs: ResNet-18 on 28×28 images has 3 ms of work in a step whose launches take three times as long.
        self._graphs = (
            compiled and even and self._device.type == "cuda" and self.world.size == 1 and len(self._phases) == 1
        )
        models: dict[str, nn.Module] = {}
        for phase in self._phases:
            model = self.network
            if self.world.size > 1 and not self._sharded:
                self._give_turn(phase)
                model = DistributedDataParallel(model, gradient_as_bucket_view=True)
            mode = "reduce-overhead" if self._graphs else None
            models[phase.name] = torch.compile(model, mode=mode) if compiled else model  # type: ignore[assignment]
        return models

    def _recording(self, longest: int) -> Graphs | None:
        """CUDA graphs of the forward and backward pass, where sequences lie end to end and lengths repeat."""
        heads = (module.head_dim for module in self.network.modules() if isinstance(module, MultiHead))
        able = longest and getattr(self.network, "records", False) and all(fits(head_dim) for head_dim in heads)
        able = able and self._dtype in (torch.bfloat16, torch.float16)
        alone = self.world.size == 1 and len(self._phases) == 1 and self._penalty is None
        if not able or not alone or self._device.type != "cuda" or self.train.compile == "off":
            return None
        phase = self._phases[0]
        return Graphs(lambda batch: self._pass(phase, batch), self._parameters, longest, self.task)

    def _give_turn(self, phase: Phase) -> None:
        """Gradients only for what the phase changes. Shards keep theirs, since FSDP2 reads the flag only once; what is
        not the phase's is thrown away there."""
        if len(self._phases) == 1 or self._sharded:
            return
        for other in self._phases:
            for parameter in other.parameters:
                parameter.requires_grad_(False)
        for parameter in phase.parameters:
            parameter.requires_grad_(True)

    def step(self, number: int) -> bool:
        seed_step(self.train.seed, number, self.world.rank, self._device)
        for phase in self._order:
            phase.set_rate(number, self._total_steps)
            self._give_turn(phase)
            self._run(phase)
        return True

    def _run(self, phase: Phase) -> None:
        if self.task.carries and self.loader.at_start:
            self.task.state = None
        if self._graphs:
            torch.compiler.cudagraph_mark_step_begin()
        pieces = self.loader.next()
        count = sum(self.task.count(piece.batch) for piece in pieces)
        idle = False
        if self.world.size > 1:
            start, stop = shares(pieces[0].share[2], self.world.size)[self.world.rank]
            idle = start == stop  # the batch has fewer rows than there are processes: a row of another's, for nothing
            count = int(self.world.total([0 if idle else count])[0])
        observed = dict(self.task.observed) if idle else {}
        for i, (batch, share) in enumerate(pieces):
            # Micro-batches of one batch draw the same numbers and use each their own rows of them.
            self.task.generator = shared_generator(self.train.seed, self.loader.position, self._device)
            self.task.share = share
            if self._augment is not None:
                batch["input"] = self._augment(
                    batch["input"], Draws(self._device, self.task.generator, self.task.share)
                )
            if self._channels_last:
                batch["input"] = batch["input"].contiguous(memory_format=torch.channels_last)
            loss = self._backward(phase, batch, count, first=i == 0, last=i == len(pieces) - 1, weight=1.0 - idle)
            phase.loss = phase.loss + loss
        if idle:
            self.task.observed = {name: observed.get(name, (0.0, 0)) for name in self.task.observed}
        phase.count += count
        self._update(phase, count)

    def _backward(
        self, phase: Phase, batch: Batch, count: int, first: bool, last: bool, weight: float
    ) -> Tensor | float:
        """Adds the gradients of one micro-batch; returns its sum of losses, as a number where reading it is free."""
        if self._recorded is not None:
            if first:
                self._recorded.clear()
            return self._recorded(batch)
        return self._pass(phase, batch, count, first, last, weight)

    def _pass(
        self,
        phase: Phase,
        batch: Batch,
        count: int = 0,
        first: bool = False,
        last: bool = True,
        weight: float = 1.0,
    ) -> Any:
        model = self._models[phase.name]
        waits = isinstance(model, DistributedDataParallel) and not last
        with model.no_sync() if waits else _NOTHING:  # type: ignore[operator]
            if self._dtype == torch.float32:
                loss = self.task.loss(model, batch, phase.name)
            else:
                with torch.autocast(self._device.type, self._dtype):
                    loss = self.task.loss(model, batch, phase.name)
            if weight != 1:
                loss = loss * weight
            total = loss
            if first and self._penalty is not None:
                total = total + self._whole(self._penalty()) * (count / self.world.size)
            told = loss.item() if self._on_cpu else loss.detach()
            # A bad loss with good gradients must show in the gradients, which all processes share.
            if not self._on_cpu:
                total = total * torch.where(total.detach().isfinite(), 1.0, _NAN)
            elif not math.isfinite(told):
                total = total * _NAN
            if self._scaling:
                total = total * self._scale
            total.backward()
        return told

    @torch.no_grad()
    def _update(self, phase: Phase, count: int) -> None:
        gradients = [_local(p.grad) for p in phase.parameters if p.grad is not None]
        # Gradients of a sum, averaged over processes, become the gradient of the mean over all targets.
        self._set_inverse(self.world.size / count)
        self._bad.zero_()
        inverse = self._inverse / self._scale if self._scaling else self._inverse
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._bad, inverse)
        if self._sharded:
            torch.distributed.all_reduce(self._bad, torch.distributed.ReduceOp.MAX)
        if self.train.clip is not None:
            phase.norm = clip_by_norm(phase.parameters, self.train.clip)
        if self.train.clip_value is not None:
            clip_by_value(phase.parameters, self.train.clip_value)
        if self._on_cpu or not phase.skips_on_device:
            bad = bool(self._bad.item())
            if bad and not self._scaling:
                self._refuse(1)
            if not bad:
                phase.optimizer.step()
        else:
            phase.bad = phase.bad + self._bad
            phase.optimizer.found_inf = self._bad  # type: ignore[attr-defined]
            phase.optimizer.step()
        if self._scaling:
            torch._amp_update_scale_(self._scale, self._growth, self._bad, 2.0, 0.5, 2000)
        if self._recorded is None:
            for parameter in self._parameters:  # also of the other phases, which this loss went through
                parameter.grad = None

    def _set_inverse(self, value: float) -> None:
        if value != self._inverse_value:
            self._inverse.fill_(value)
            self._inverse_value = value

    def _refuse(self, times: int) -> None:
        if self.train.nonfinite == "stop":
            raise NonFinite("The loss or a gradient is not finite")
        self._skipped += times

    def logs(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for phase in self._phases:
            ending = "" if len(self._phases) == 1 else f"/{phase.name}"
            bad = int(phase.bad)
            if bad and not self._scaling:
                self._refuse(bad)
            if self._scaling and self._scale.item() < _LEAST_SCALE:
                raise NonFinite("float16 gradients overflow at any loss scale")
            total = self.world.total([float(phase.loss)])[0]
            found[f"loss{ending}"] = total / max(phase.count, 1)
            found[f"lr{ending}"] = phase.optimizer.param_groups[0]["lr"]
            if phase.norm is not None:
                found[f"gradient_norm{ending}"] = phase.norm.item()
            phase.reset()
        for name, (total, count) in self._observations().items():
            found[name] = total / max(count, 1)
        self.task.observed.clear()
        if self._skipped:
            found["skipped_steps"] = self._skipped
        return found

    def _observations(self) -> dict[str, list[float]]:
        """What the task observed since the last log, summed over all processes."""
        return {n: self.world.total([float(total), float(count)]) for n, (total, count) in self.task.observed.items()}

    def tensors(self) -> dict[str, Tensors]:
        """Whole tensors, also of shards; every process must call this."""
        model = {name: self._whole(tensor) for name, tensor in self.network.state_dict().items()}
        optimizer: Tensors = {}
        for phase in self._phases:
            for name, parameter in zip(phase.names, phase.parameters, strict=True):
                for key, value in phase.optimizer.state[parameter].items():
                    if value is not None:
                        optimizer[f"{phase.name}/{name}/{key}"] = self._whole(value)
        found = {"model": model, "optimizer": optimizer}
        if self.task.carries:
            found["carried"] = {name: self.world.gather(rows.cpu()) for name, rows in (self.task.state or {}).items()}
        return found

    def state(self) -> dict[str, Any]:
        sums = {p.name: [self.world.total([float(p.loss)])[0], p.count, float(p.bad)] for p in self._phases}
        return {
            "position": self.loader.position,
            "sums": sums,
            "observed": self._observations(),
            "skipped": self._skipped,
            "scale": self._scale.item(),
            "growth": self._growth.item(),
        }

    def restore(self, tensors: dict[str, Tensors], state: dict[str, Any]) -> None:
        own = self.network.state_dict()
        if own.keys() != tensors["model"].keys():
            raise CanonError("The checkpoint's weights have other names than this system's.")
        for name, tensor in own.items():
            found = tensors["model"][name].shape
            if found != tensor.shape:
                raise CanonError(
                    f"The checkpoint's {name} has the shape {list(found)}, this system's {list(tensor.shape)}."
                )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(_like(tensors["model"][name], tensor))
        if "optimizer" not in tensors:  # to predict with
            return
        for phase in self._phases:
            stored = phase.optimizer.state_dict()
            for index, (name, parameter) in enumerate(zip(phase.names, phase.parameters, strict=True)):
                prefix = f"{phase.name}/{name}/"
                kept = {k.removeprefix(prefix): v for k, v in tensors["optimizer"].items() if k.startswith(prefix)}
                if kept:
                    stored["state"][index] = {
                        key: _like(v, parameter) if v.shape == parameter.shape else v for key, v in kept.items()
                    }
            phase.optimizer.load_state_dict(stored)
            loss, phase.count, phase.bad = state["sums"][phase.name]
            phase.loss = loss if self.world.is_main else 0.0
            phase.multiplier = math.nan
        # Sums over processes are kept by one of them.
        observed = state["observed"] if self.world.is_main else {}
        self.task.observed = {name: (total, int(count)) for name, (total, count) in observed.items()}
        self.loader.position = state["position"]
        if carried := tensors.get("carried"):
            start, stop = shares(self.train.batch, self.world.size)[self.world.rank]
            self.task.state = {name: rows[start:stop].to(self._device) for name, rows in carried.items()}
        self._skipped = state["skipped"]
        self._scale.fill_(state["scale"])
        self._growth.fill_(state["growth"])

    def _examples(self, columns: Columns) -> Examples:
        return Examples(columns, self.schema, self._device, self.task.compose)

    def outputs(self, columns: Columns) -> Outputs:
        with torch.no_grad(), frozen(self.network):
            return self._outputs(columns)

    def _outputs(self, columns: Columns) -> Outputs:
        examples = self._examples(columns)
        # Shards of one network must go through it together, so then every process does all rows; so it does of a text,
        # and where there are fewer rows than processes.
        spread = self.world.size > 1 and not self._sharded and not self.task.carries
        spread = spread and examples.size >= self.world.size
        rank, size = (self.world.rank, self.world.size) if spread else (0, 1)
        own = shares(examples.size, size)
        first, stop = own[rank]
        if self.task.carries:
            parts: Iterable[Tensor] = examples.stream_rows(min(_EVALUATION_STREAMS, examples.size))
        else:
            rows = torch.arange(first, stop, device=examples.index_device)
            turns = math.ceil(max(end - start for start, end in own) / self.task.at_once)  # of every process
            parts = [rows[i * self.task.at_once :][: self.task.at_once] for i in range(turns)]
        training, carried, self.task.state = self.network.training, self.task.state, None
        self.network.eval()
        if self._sharded and self.task.whole:
            self.network.unshard()  # type: ignore[operator]
        try:
            merged = self._merged(examples, parts, first, stop)
        finally:
            self.task.state = carried
            if self._sharded and self.task.whole:
                self.network.reshard()  # type: ignore[operator]
            if training:
                self._enter_training()
        return {name: self.world.gather(rows) for name, rows in merged.items()} if spread else merged

    def _merged(self, examples: Examples, parts: Iterable[Tensor], first: int, stop: int) -> Outputs:
        """The outputs of rows [first, stop), a part at a time. Filled as they come, each row in its place: a text is
        read as streams side by side, and small outputs kept between large logits would leave holes in memory."""
        merged: Outputs = {}
        start = first
        for rows in parts:
            self.pause()
            if not len(rows):
                continue
            batch = examples.take(rows)
            end = min(start + self.task.at_once, stop)
            self.task.generator = shared_generator(0, 0, self._device)  # every run is judged with the same noise
            self.task.share, start = (start, end, examples.size), end
            with torch.autocast(self._device.type, self._dtype, enabled=self._dtype != torch.float32):
                outputs = self.task.run(self.network, batch)
            places = (rows - first).cpu()
            for name, told in outputs.items():
                if name not in merged:
                    merged[name] = torch.empty((stop - first, *told.shape[1:]))
                merged[name][places] = told.float().cpu()
        return merged

    def penalty(self) -> float:
        """The regulariser of the structural risk, at the weights as they are."""
        return self._whole(self._penalty()).item() if self._penalty is not None else 0.0

    @staticmethod
    def _whole(tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _group_of(name: str, choice: OptimizerChoice) -> int:
    """The first of optimizer.groups that matches a parameter; -1 for none."""
    return next((i for i, group in enumerate(choice.groups) if fnmatch(name, group.match)), -1)


def _local(gradient: Tensor) -> Tensor:
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def _like(value: Tensor, template: Tensor) -> Tensor:
    """`value` sharded as `template` is, if it is."""
    if not hasattr(template, "placements"):
        return value
    from torch.distributed.tensor import distribute_tensor

    mesh = template.device_mesh  # type: ignore[attr-defined]
    return distribute_tensor(value.to(template.device), mesh, template.placements)
