"""The gradient loop: a torch network, a task, one optimiser per phase, over any number of processes.

A step draws the global batch, sums the losses of its targets over micro-batches and processes, and divides the gradient
by the global number of targets: one process, two or four make the same step. All randomness is keyed by the step.
Hot path: no host sync on CUDA between logged steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from canon.contracts import Borrows, Context, NetworkLearner, Paced, Penalized, TakesRows
from canon.data.batching.augment import ImageDraws, augmenter
from canon.data.batching.loader import Batch, Examples, Loader, Piece, shares
from canon.data.schema import Columns, Data
from canon.errors import CanonError, is_out_of_memory
from canon.nn.counting import count_parameters, summarize
from canon.nn.frozen import frozen
from canon.tasks.base import Carries, Compares, FitsGraphs, NetworkTask, Outputs, Turn, composer
from canon.training.comparing import compare_in_pieces
from canon.training.devices import precision_of, seed_step, shared_generator
from canon.training.evaluation import Evaluation
from canon.training.graphs import SAMPLES, Graphs
from canon.training.memory import too_large
from canon.training.phases import Phase, freeze, give_turn
from canon.training.sharding import Tensors, as_tensors, gathered, like, shard, too_large_to_gather, whole
from canon.training.update import Update
from canon.training.wrapping import can_record, wrap

# Operations per step: below, a second CPU thread gains little (here 15 %), and loses much where the cores are busy.
_SHARED_FROM = 5e7
_NAN = float("nan")
_NOTHING = nullcontext()
BACKBONE = "backbone."  # of a network that borrows one: the beginning of its tensors' names


class Gradient(NetworkLearner):
    """Learner of every system with loop="gradient"."""

    def __init__(self, network: nn.Module, task: NetworkTask, context: Context) -> None:
        super().__init__(context.recipe.config, context)
        self.world, self.schema, self.train = context.world, context.schema, context.recipe.train
        self.network = network.to(self.world.device)
        self.task = task
        self.turn = Turn()  # of training; an evaluation has its own
        self._device = self.world.device
        self._on_cpu = self._device.type == "cpu"
        self._dtype = precision_of(self.train, self._device)
        self._sharded = self.world.size > 1 and self.train.parallel == "fsdp"
        self._penalty = network.penalty if isinstance(network, Penalized) else None
        # The layout in which convolutions are fastest on tensor cores.
        self._channels_last = self._device.type == "cuda" and len(self.schema.shape) == 3  # of maps
        if self._channels_last:
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._evaluation = Evaluation(self.network, task, self.world, self._dtype, context.pause)
        self.phases: list[Phase] = []
        self._frozen: list[nn.Module] = []  # modules all of whose parameters have the rate 0

    @property
    def num_parameters(self) -> int:
        return count_parameters(self.network)

    # ---- before the first step

    def begin(self, data: Data, batch: int, steps: int) -> None:
        train, recipe, columns = self.train, self.context.recipe, data.splits["train"]
        examples = self._examples(columns)
        order = self.schema.order(columns, batch, train.tokens, self.context.seed, examples.index_device)
        self.loader = Loader(examples, order, train.micro_batch, self.world.rank, self.world.size, self.context.seed)
        self._total_steps = steps
        self.unit = self.schema.unit(columns)
        # Two operations per multiply-add, and the backward pass is twice the forward one.
        counted = summarize(self.network, *self.task.example(), run=self.task.trial)
        self.flops_per_example = 6 * counted.multiply_adds
        flops_per_step = self.flops_per_example * (examples.size / order.per_epoch)
        if not train.threads and flops_per_step < _SHARED_FROM:
            torch.set_num_threads(1)
        most = math.ceil(batch / self.world.size)
        if not self.task.divisible and 0 < train.micro_batch < most:
            name = recipe.system.name
            raise CanonError(f"train.micro_batch is {train.micro_batch}, but {name} takes whole batches; leave it out.")
        if isinstance(self.network, TakesRows):
            rows = examples.take(torch.arange(examples.size, device=examples.index_device))
            self.network.take(rows, self.schema)
        self._frozen = freeze(self.network, self.task, recipe)
        if self._sharded:
            shard(self.network, in_parts=not self.task.whole)
        paces = self.network.paces() if isinstance(self.network, Paced) else None
        phases: dict[str, Phase] = {
            name: self.context.optimizer(self.task.parameters(self.network, name), name, paces)
            for name in dict.fromkeys(self.task.phases)
        }
        self.phases = list(phases.values())
        self._order = [phases[name] for name in self.task.phases]
        self._parameters = list(self.network.parameters())
        self._models, self._in_graphs = wrap(
            self.network, self.phases, self.context, self._sharded, flops_per_step, steps
        )
        self._augment = augmenter(recipe.data.augment, self.schema)
        # Shards keep all their gradients, since FSDP2 reads the flag only once; those of other phases are dropped.
        self._in_turns = len(self.phases) > 1 and not self._sharded
        self._update = Update(train, self.world, self._dtype, self._sharded)
        self._enter_training()
        self._recorded = self._recording(columns)

    def _enter_training(self) -> None:
        """Frozen modules are fixed functions: batch norms keep their statistics, dropouts drop nothing."""
        self.network.train()
        for module in self._frozen:
            module.eval()

    def _recording(self, columns: Columns) -> Graphs | None:
        """CUDA graphs of the forward and backward pass, where sequences lie end to end and lengths repeat."""
        task, alone = self.task, self.world.size == 1 and len(self.phases) == 1 and self._penalty is None
        if not isinstance(task, FitsGraphs) or not alone or self._device.type != "cuda" or self.train.compile == "off":
            return None
        longest = task.longest(columns)
        if not longest or not can_record(self.network, self._dtype):
            return None
        work = partial(self._pass, self.phases[0])
        graphs = Graphs(work, self._parameters, longest, self.turn, task.of_sequences, self.loader.in_pieces)
        graphs.prepare(self.loader.preview(SAMPLES))
        return graphs

    # ---- a step

    def step(self, number: int) -> bool:
        seed_step(self.context.seed, number, self.world.rank, self._device)
        try:
            self._turns(number)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return True
        # Here what the step held is free again.
        rows = len(self.loader.order.indices(self.loader.position - 1)) // self.world.size
        at_once = min(self.train.micro_batch or rows, rows)
        raise too_large(self._device, at_once, self.task.divisible, self._attempt, self.world.size == 1)

    def _turns(self, number: int) -> None:
        for phase in self._order:
            phase.set_rate(number, self._total_steps)
            if self._in_turns:
                give_turn(phase, self.phases)
            self.run(phase)

    def run(self, phase: Phase) -> None:
        """One turn of a phase: a batch, its gradients and the step on them."""
        if self.loader.at_start:
            self.turn.state = None
        if self._in_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        pieces = self.loader.next()
        count = sum(self.task.count(piece.batch) for piece in pieces)
        idle = False
        if self.world.size > 1:
            start, stop = shares(pieces[0].share[2], self.world.size)[self.world.rank]
            idle = start == stop  # fewer rows than processes: this one runs a row of another process, with weight 0
            count = int(self.world.total([0 if idle else count])[0])
        observed = dict(self.turn.observed) if idle else {}
        if self._recorded is not None:
            self._recorded.begin()
        in_pieces = len(pieces) > 1 and isinstance(self.task, Compares)
        if in_pieces:
            phase.loss = phase.loss + self._compare(phase, pieces)
        for i, (batch, share) in enumerate([] if in_pieces else pieces):
            # Micro-batches of one batch draw the same numbers, and each uses those of its rows.
            self.turn.generator = shared_generator(self.context.seed, self.loader.position, self._device)
            self.turn.share = share
            if self._augment is not None:
                batch["input"] = self._augment(batch["input"], ImageDraws(self._device, self.turn.generator, share))
            if self._channels_last:
                batch["input"] = batch["input"].contiguous(memory_format=torch.channels_last)
            if self._recorded is not None:
                loss = self._recorded(batch)
            else:
                loss = self._pass(phase, batch, count, first=i == 0, last=i == len(pieces) - 1, weight=1.0 - idle)
            phase.loss = phase.loss + loss
        if idle:
            self.turn.observed = {name: observed.get(name, (0.0, 0)) for name in self.turn.observed}
        phase.count += count
        self._update(phase, count)
        if self._recorded is None:
            for parameter in self._parameters:  # those of the other phases have gradients of this loss too
                parameter.grad = None

    def _attempt(self, size: int) -> None:
        """A pass over the first `size` examples of the batch, beside as much as an optimiser keeps, at most."""
        self._recorded = None
        for parameter in self._parameters:
            parameter.grad = None
        loader = Loader(self.loader.examples, self.loader.order, size, self.world.rank, self.world.size)
        try:
            phase = self._order[-1]
            known = phase.optimizer.state
            kept = [] if known else [torch.empty_like(p) for p in self._parameters for _ in range(2)]
            batch, self.turn.share = loader.next()[0]
            self._pass(phase, batch, 1)
            del kept
        finally:
            for parameter in self._parameters:
                parameter.grad = None

    def _pass(
        self, phase: Phase, batch: Batch, count: int = 0, first: bool = False, last: bool = True, weight: float = 1.0
    ) -> Any:
        """Adds the gradients of one micro-batch; returns its sum of losses, as a number where reading it is free."""
        model = self._models[phase.name]
        waits = isinstance(model, DistributedDataParallel) and not last
        with model.no_sync() if waits else _NOTHING:  # type: ignore[operator]
            if self._dtype == torch.float32:
                loss = self.task.loss(model, batch, phase.name, self.turn)
            else:
                with torch.autocast(self._device.type, self._dtype):
                    loss = self.task.loss(model, batch, phase.name, self.turn)
            if weight != 1:
                loss = loss * weight
            total = loss
            if first and self._penalty is not None:
                total = total + whole(self._penalty()) * (count / self.world.size)
            value, total = self._prepared(loss, total)
            total.backward()
        return value

    def _prepared(self, loss: torch.Tensor, total: torch.Tensor | None = None) -> tuple[Any, torch.Tensor]:
        """A loss as it is logged, and what is differentiated: `total` (the loss where it is None), made ready."""
        total = loss if total is None else total
        value = loss.item() if self._on_cpu else loss.detach()
        # A bad loss with good gradients must show in the gradients, which all processes share.
        if not self._on_cpu:
            total = total * torch.where(total.detach().isfinite(), 1.0, _NAN)
        elif not math.isfinite(value):
            total = total * _NAN
        if self._update.scaling:
            total = total * self._update.scale
        return value, total

    def _compare(self, phase: Phase, pieces: list[Piece]) -> Any:
        """Adds the gradients of a batch in pieces, whose loss compares all rows; returns its sum of losses."""
        model, task = self._models[phase.name], self.task
        assert isinstance(task, Compares)

        def begin(number: int) -> None:
            self.turn.generator = shared_generator(self.context.seed, self.loader.position, self._device)
            self.turn.share = pieces[number].share

        @contextmanager
        def within(last: bool) -> Iterator[None]:
            waits = isinstance(model, DistributedDataParallel) and not last
            lower = self._dtype != torch.float32
            with model.no_sync() if waits else _NOTHING, torch.autocast(self._device.type, self._dtype, enabled=lower):  # type: ignore[operator]
                yield

        return compare_in_pieces(task, model, pieces, self.turn, begin, within, self._prepared)

    def logs(self) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for phase in self.phases:
            ending = "" if len(self.phases) == 1 else f"/{phase.name}"
            self._update.check(phase)
            total = self.world.total([float(phase.loss)])[0]
            numbers[f"loss{ending}"] = total / max(phase.count, 1)
            numbers[f"lr{ending}"] = phase.optimizer.param_groups[0]["lr"]
            if phase.norm is not None:
                numbers[f"gradient_norm{ending}"] = phase.norm.item()
            phase.reset()
        for name, (total, count) in self._observations().items():
            numbers[name] = total / max(count, 1)
        self.turn.observed.clear()
        if self._update.skipped:
            numbers["skipped_steps"] = self._update.skipped
        return numbers

    def _observations(self) -> dict[str, list[float]]:
        """What the task observed since the last log, summed over all processes."""
        return {n: self.world.total([float(total), float(count)]) for n, (total, count) in self.turn.observed.items()}

    # ---- what a checkpoint holds

    def tensors(self) -> dict[str, Tensors]:
        """Whole tensors, or shards where the whole is too large; every process must call this. What a run starts from
        is whole: every process has read it."""
        model = self._kept()
        optimizer: dict[str, Tensor] = {}
        for phase in self.phases:
            optimizer |= phase.tensors()
        apart = self._sharded and self.loader.position > 0 and self.train.shards != "off"
        if apart and self.train.shards == "auto":
            apart = too_large_to_gather([*model.values(), *optimizer.values()], self.world)
        groups: dict[str, Tensors] = {"model": model, "optimizer": optimizer}
        if self._sharded and not apart:
            groups = {name: {key: whole(value) for key, value in group.items()} for name, group in groups.items()}
        if isinstance(self.task, Carries):
            groups["carried"] = {name: self.world.gather(rows.cpu()) for name, rows in (self.turn.state or {}).items()}
        return groups

    def _kept(self) -> dict[str, Tensor]:
        """The weights that a run keeps: not those of a backbone that it borrows."""
        tensors: dict[str, Tensor] = dict(self.network.state_dict())
        if isinstance(self.network, Borrows) and self.network.borrows:
            return {name: tensor for name, tensor in tensors.items() if not name.startswith(BACKBONE)}
        return tensors

    def state(self) -> dict[str, Any]:
        sums = {p.name: [self.world.total([float(p.loss)])[0], p.count, float(p.bad)] for p in self.phases}
        return {
            "position": self.loader.position,
            "sums": sums,
            "observed": self._observations(),
            **self._update.state(),
        }

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self._restore_weights(as_tensors(tensors["model"]))
        if "optimizer" not in tensors:  # to predict with
            return
        for phase in self.phases:
            phase.restore(tensors["optimizer"])
            loss, phase.count, phase.bad = state["sums"][phase.name]
            phase.loss = loss if self.world.is_main else 0.0
        # Sums over processes are kept by one of them.
        observed = state["observed"] if self.world.is_main else {}
        self.turn.observed = {name: (total, int(count)) for name, (total, count) in observed.items()}
        self.loader.position = state["position"]
        if carried := tensors.get("carried"):
            start, stop = shares(self.train.batch, self.world.size)[self.world.rank]
            self.turn.state = {name: rows[start:stop].to(self._device) for name, rows in as_tensors(carried).items()}
        self._update.restore(state)

    @torch.no_grad()
    def _restore_weights(self, weights: Mapping[str, Tensor]) -> None:
        tensors = self._kept()
        if tensors.keys() != weights.keys():
            raise CanonError("The checkpoint's weights have other names than this system's.")
        for name, tensor in tensors.items():
            shape = weights[name].shape
            if shape != tensor.shape:
                raise CanonError(
                    f"The checkpoint's {name} has the shape {list(shape)}, this system's {list(tensor.shape)}."
                )
        for name, tensor in tensors.items():
            tensor.copy_(like(weights[name], tensor))

    # ---- evaluation

    def _examples(self, columns: Columns) -> Examples:
        return Examples(columns, self.schema, self._device, composer(self.task))

    def outputs(self, columns: Columns) -> Outputs:
        training, unshards = self.network.training, self._sharded and self.task.whole
        with torch.no_grad(), frozen(self.network), gathered(self.network) if unshards else _NOTHING:
            self.network.eval()
            try:
                return self._evaluation.outputs(self._examples(columns), self._sharded, self.careful)
            finally:
                if training:
                    self._enter_training()

    def penalty(self) -> float:
        return whole(self._penalty()).item() if self._penalty is not None else 0.0
