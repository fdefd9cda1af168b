"""A network made elsewhere, in canon's terms: its settings, weights and data, and what became of the file's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from canon.config import HasClasses, Table
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Class, Number
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError, border
from canon.interop.formats import FileChoices
from canon.registry import System

Tensors = dict[str, Tensor]
# What torchvision's and most of timm's weights were trained with, on the scale of pixels from 0 to 255.
IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_WRAPPERS = ("module.", "_orig_mod.", "model.")


@dataclass(frozen=True)
class Report:
    """What became of the tensors of a file."""

    used: list[str]
    missing: list[str]  # that the network has and the file does not
    unexpected: list[str]  # that the file has and the network does not
    unlike: list[str]  # name: shape in the file, shape in the network
    left_out: list[str] = field(default_factory=list)  # known to belong to what the network was built without

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.unlike)

    def sentence(self) -> str:
        """Everything that does not fit, by name."""
        parts = (("missing", self.missing), ("unexpected", self.unexpected), ("of another shape", self.unlike))
        return "; ".join(f"{len(names)} {what} ({', '.join(names)})" for what, names in parts if names)


def compare(expected: Tensors, tensors: Tensors, left_out: Sequence[str] = (), optional: Sequence[str] = ()) -> Report:
    """What becomes of a file's tensors in a network that expects others."""
    there = [name for name in expected if name in tensors]
    unlike = {
        name: f"{name}: {list(tensors[name].shape)} in the file, {list(expected[name].shape)} in the network"
        for name in there
        if tensors[name].shape != expected[name].shape
    }
    return Report(
        used=[name for name in there if name not in unlike],
        missing=[name for name in expected if name not in tensors and name not in optional],
        unexpected=[name for name in tensors if name not in expected and name not in left_out],
        unlike=list(unlike.values()),
        left_out=list(left_out),
    )


@dataclass(frozen=True)
class ForeignWeights:
    """What a file or folder says of a network, in canon's terms."""

    settings: Table  # of the system, as far as they are known
    tensors: Tensors  # under canon's names
    report: Report | None = None  # under the file's names
    made_new: tuple[str, ...] = ()  # tensors, by the file's names, that it does not have
    tokenizer: Tokenizer | None = None
    file: Path | None = None  # to be named, and to know the weights by
    # Of a network on a backbone, which `settings` and `tensors` are then of: what is built on it.
    above: ForeignWeights | None = None

    @property
    def left_out(self) -> list[str]:
        """Tensors of the file that canon's network does not have."""
        return self.report.left_out if self.report else []


@dataclass(frozen=True)
class Network:
    """A network with its weights and all that is known of its data."""

    source: str
    system: System
    preset: str
    config: Any
    tensors: Tensors
    schema: Schema
    origin: ForeignWeights | None = None  # of a foreign file
    data: Table = field(default_factory=dict)  # the [data] section of a recipe that suits the network
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.system.name}:{self.preset}" if self.preset else self.system.name

    def build(self) -> nn.Module:
        network = on_meta(self.system, self.config)
        with border(self.source, "has weights that do not fit its settings"):  # such as a recipe that was edited
            network.load_state_dict(self.tensors, assign=True)
        return network.eval()


def on_meta(system: System, config: Any) -> nn.Module:
    """A system's network without its numbers."""
    with torch.device("meta"):
        network: nn.Module = system.load()[1](config)
    return network


def unwrapped(tensors: Tensors) -> Tensors:
    """Without the common first name that wrappers such as DistributedDataParallel put before all names."""
    for prefix in _WRAPPERS:
        if tensors and all(name.startswith(prefix) for name in tensors):
            return unwrapped({name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    return tensors


def sines_first(dim: int) -> Tensor:
    """Where each of canon's alternating sines and cosines stands where all sines come before all cosines."""
    return torch.arange(dim).view(2, -1).T.flatten()


def weight(tensor: Tensor, name: str, source: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of the file `source` in the network's precision; a sentence where it cannot be a weight."""
    if dtype.is_floating_point and not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CanonError(f"{source}: {name} is of type {kind}; a weight is of float32, float16, bfloat16 or float64.")
    converted = tensor.to(dtype)
    if dtype.is_floating_point and not converted.is_meta and not torch.isfinite(converted).all():
        raise CanonError(f"{source}: {name} has NaN or infinite numbers, so these weights cannot be used.")
    return converted


def check_no_choices(choices: FileChoices, source: Path) -> None:
    """A run or folder says all that a user may have to say of a file."""
    if choices.system or choices.settings or choices.classes or choices.mean or choices.std:
        raise CanonError(f"{source} knows its system, classes and scale itself: leave these options out.")


def schema_of(source: str, config: Any, choices: FileChoices, mean: Sequence[float], std: Sequence[float]) -> Schema:
    """What is known of the data of a network that canon did not train. mean, std: where `choices` has none."""
    classes, count = choices.classes, config.num_classes if isinstance(config, HasClasses) else 0
    if classes and len(classes) != count:
        raise CanonError(f"--classes has {len(classes)} names, but {source} has {count} classes.")
    if len(set(classes)) < len(classes):
        twice = next(name for name in classes if classes.count(name) > 1)
        raise CanonError(f'--classes has the name "{twice}" twice.')
    shape = tuple(config.shape)
    scale = []
    for option, values, usual in (("--mean", choices.mean, mean), ("--std", choices.std, std)):
        if not values and len(usual) not in (1, shape[0]):
            raise CanonError(
                f"{source} reads {shape[0]} channel(s): give {option}, on the scale of pixels from 0 to 255."
            )
        values = tuple(values or usual)
        if len(values) not in (1, shape[0]):
            raise CanonError(f"{option} needs a number for each of the {shape[0]} channels, got {len(values)}.")
        scale.append(values)
    if min(scale[1]) <= 0:
        raise CanonError("--std must be positive.")
    target = Class(classes or tuple(map(str, range(count)))) if count else Number()
    if len(shape) != 3:
        return FeatureSchema(target, shape)
    return PixelSchema(target, shape, mean=scale[0], std=scale[1])
