"""A network's layers in stages: the rows of a paper's table, with subtotals of parameters and multiply-adds.

A stage is a block, a run of equal blocks, or the layers between two of them, which end at a pooling layer; a pooling
layer after a block belongs to it. Sequences that hold different things (the `features` of VGG and DenseNet) and whole
systems inside another (the encoder of SimCLR) are opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

from torch import Tensor, nn

from canon.nn.counting import Row, Summary, summarize
from canon.registry import SYSTEMS

_STACKS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_SYSTEMS = {system.module for system in SYSTEMS}


class Stage(NamedTuple):
    name: str
    kind: str  # "3 × Bottleneck"
    output_shape: tuple[int, ...] | None
    rows: list[Row]  # its layers

    @property
    def parameters(self) -> int:
        return sum(row.parameters for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        return sum(row.multiply_adds for row in self.rows)


class _Unit(NamedTuple):
    """A module that is not divided between stages."""

    name: str
    module: nn.Module
    parent: str

    @property
    def is_layer(self) -> bool:
        return not any(True for _ in self.module.children())


def stages(network: nn.Module, *example_inputs: Any) -> tuple[list[Stage], Summary]:
    """The stages in the order of definition, and the layers they consist of; `network` is not changed."""
    units = list(_units(network, ""))
    with watched({unit.name: unit.module for unit in units}, lambda output: tuple(output.shape)) as calls:
        summary = summarize(network, *example_inputs)  # runs a copy, which has the hooks too
    groups = [_stage(network, group, summary.rows, dict(calls)) for group in _groups(units)]
    placed = {row for stage in groups for row in stage.rows}
    rest = [row for row in summary.rows if row not in placed and row.kind != "Identity"]
    if rest:
        groups.append(Stage("(whole)", ", ".join(dict.fromkeys(row.kind for row in rest)), None, rest))
    return groups, summary


@contextmanager
def watched(modules: Mapping[str, nn.Module], keep: Callable[[Tensor], Any]) -> Iterator[list[tuple[str, Any]]]:
    """(name, keep(output)) of every call of the modules inside `with`, if the output is one tensor."""
    calls: list[tuple[str, Any]] = []

    def watch(name: str) -> Callable[..., None]:
        def after(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                calls.append((name, keep(output)))

        return after

    handles = [module.register_forward_hook(watch(name)) for name, module in modules.items()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _units(module: nn.Module, prefix: str) -> Iterator[_Unit]:
    for name, child in module.named_children():
        if _is_opened(child):
            yield from _units(child, f"{prefix}{name}.")
        elif not isinstance(child, nn.Identity):
            yield _Unit(prefix + name, child, prefix)


def _is_opened(module: nn.Module) -> bool:
    if f"{type(module).__module__}:{type(module).__qualname__}" in _SYSTEMS:
        return True
    if not isinstance(module, _STACKS):
        return False
    kinds = {type(child) for child in module.children()}
    layers = [not any(True for _ in child.children()) for child in module.children()]
    return len(kinds) > 1 or any(layers)


def _groups(units: list[_Unit]) -> list[list[_Unit]]:
    """Blocks alone; layers with their neighbours, up to a pooling layer."""
    groups: list[list[_Unit]] = []
    open_ = False  # whether the last group takes more layers
    for unit in units:
        beside = bool(groups) and groups[-1][-1].parent == unit.parent
        pools = "Pool" in type(unit.module).__name__
        if beside and unit.is_layer and (open_ or pools):
            groups[-1].append(unit)
        else:
            groups.append([unit])
            open_ = unit.is_layer
        open_ = open_ and not pools
    return groups


def _stage(network: nn.Module, group: list[_Unit], rows: list[Row], shapes: dict[str, tuple[int, ...]]) -> Stage:
    names = [unit.name for unit in group]
    inside = [row for row in rows if any(row.name == name or row.name.startswith(f"{name}.") for name in names)]
    shape = next((shapes[name] for name in reversed(names) if name in shapes), None)
    return Stage(_name(network, group), _kind(group), shape, inside)


def _name(network: nn.Module, group: list[_Unit]) -> str:
    """The one name; that of the sequence, if all of it is here; else from the first to the last."""
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first.name
    parent = first.parent.removesuffix(".")
    if parent and len(group) == len(list(network.get_submodule(parent).children())):
        return parent
    return f"{first.name}–{last.name.removeprefix(first.parent)}"


def _kind(group: list[_Unit]) -> str:
    if len(group) == 1 and isinstance(group[0].module, _STACKS):
        kinds = [type(child).__name__ for child in group[0].module.children()]
    else:
        kinds = [type(unit.module).__name__ for unit in group]
    return ", ".join(f"{count} × {kind}" if count > 1 else kind for kind, count in Counter(kinds).items())


class Repeated(NamedTuple):
    """A layer of one block, or of several equal ones that follow each other."""

    name: str
    times: int
    row: Row  # of the first


def without_repeats(stage: Stage) -> list[Repeated]:
    """The layers of a stage, with equal blocks listed once: layer1.1–2.conv1 for two."""
    blocks = [(block, list(rows)) for block, rows in groupby(stage.rows, key=lambda row: _block(row.name, stage.name))]
    layers: list[Repeated] = []
    for _, group in groupby(blocks, key=lambda item: [_alike(row, item[0]) for row in item[1]]):
        alike = list(group)
        (first, rows), last = alike[0], alike[-1][0]
        name = f"{first}–{last.rpartition('.')[2]}" if len(alike) > 1 else first
        layers += [Repeated(name + row.name.removeprefix(first), len(alike), row) for row in rows]
    return layers


def _block(layer: str, stage: str) -> str:
    """What repeats in the stage: the first numbered part around a layer, layers.blocks.3, or the stage's child; a layer
    that is itself one is alone."""
    if not layer.startswith(f"{stage}."):
        return layer
    inside = layer.removeprefix(f"{stage}.").split(".")
    length = next((i + 1 for i, part in enumerate(inside[:-1]) if part.isdecimal()), 1)
    return ".".join([stage, *inside[:length]])


def _alike(row: Row, block: str) -> tuple[Any, ...]:
    # A layer without a block around it is only like itself.
    inside = row.name.removeprefix(block) or row.name
    return (inside, *row[1:])
