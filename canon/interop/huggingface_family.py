"""One family of networks in Hugging Face's layout: the names of its tensors, and what becomes of those of a file.

A family is a record: how config.json and tensors become canon's and back, and what files of it have that the network
has not. `take` makes canon's tensors of a file's; whatever does not fit is listed, all of it. What is not an error:
- names without the family's prefix (bert. …), with another's before it (module. …), or of old (gamma, beta);
- a tied matrix that stands there twice, and buffers that are no weights;
- heads that canon's network has not (classifier …): left out, and told in `left_out`;
- heads that the file has not (BertModel has none that names tokens): made anew, and told in `anew`.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from canon import registry
from canon.config import Table
from canon.errors import CanonError
from canon.interop.tensors import weight
from canon.interop.vision import Report

Tensors = dict[str, Tensor]
Settings = Mapping[str, Any]
Names = dict[str, tuple[str, ...]]  # of canon's tensors: theirs, which one below the other make it

_WRAPPERS = ("module.", "_orig_mod.", "model.")
_OLD = {"gamma": "weight", "beta": "bias"}  # norms in files of before 2019
_MOST = 1 << 31  # sizes are below
_TYPES = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}
_STD = 0.02  # of weights that are made anew


@dataclass(frozen=True)
class Family:
    system: str
    model_types: tuple[str, ...]  # that config.json may have; the first is written
    architectures: tuple[str, ...]
    config_from: Callable[[Table], Table]
    config_to: Callable[[Settings], Table]
    tensors_from: Callable[[Tensors, Settings], Tensors]
    tensors_to: Callable[[Tensors, Settings], Tensors]
    prefix: str = ""  # of the tensors below the heads, which a file of the bare network leaves out
    roots: tuple[str, ...] = ()  # what names of these begin with
    ties: Mapping[str, str] = field(default_factory=dict)  # a tensor of a file, and the one that it is
    buffers: str = r"$^"  # a pattern of names that are no weights
    heads: str = r"$^"  # and of heads that canon's network has not
    optional: tuple[str, ...] = ()  # patterns of what the file may be without, each as a whole
    switches: Mapping[str, str] = field(default_factory=dict)  # a setting, and the tensor that says that it is on

    def plain(self, tensors: Tensors) -> Tensors:
        """With the names of today, below the family's prefix."""
        for wrapper in _WRAPPERS:
            if tensors and all(name.startswith(wrapper) for name in tensors):
                tensors = {name.removeprefix(wrapper): tensor for name, tensor in tensors.items()}
        found: Tensors = {}
        for name, tensor in tensors.items():
            stem, _, last = name.rpartition(".")
            if last in _OLD:
                name = f"{stem}.{_OLD[last]}"
            if name.startswith(self.roots) and self.roots:
                name = self.prefix + name
            if not re.search(self.buffers, name):
                found[name] = tensor
        return found

    def take(self, tensors: Tensors, table: Table, source: str) -> Taken:
        """canon's settings and tensors, in float32, of a config.json and the tensors of a file `source`."""
        known = self.plain(tensors)
        settings = self.config_from(table) | {setting: name in known for setting, name in self.switches.items()}
        _check_sizes(settings, known, source)
        try:
            own = empty(self.system, settings)
        except CanonError as mistake:
            raise CanonError(f"config.json: canon has no such {self.system}: {mistake}") from None
        expected = self.tensors_to(own, settings | {"pad_token_id": table.get("pad_token_id")})
        for name, same in self.ties.items():
            if name in expected and same in known:
                known.setdefault(name, known[same])
            elif name not in expected and name in known:
                other = known.pop(name)
                if not torch.equal(other, known.setdefault(same, other)):
                    raise CanonError(
                        f"{source}: {name} is not {same}, as it is in canon's {self.system}; weights with an output of "
                        "their own are not read."
                    )
        left_out = [name for name in known if name not in expected and re.search(self.heads, name)]
        known = {name: tensor for name, tensor in known.items() if name not in left_out}
        anew: list[str] = []
        for group in self.optional:
            names = [name for name in expected if re.search(group, name)]
            if not any(name in known for name in names):
                anew += names
        report = Report(
            used=[name for name in expected if name in known],
            missing=[name for name in expected if name not in known and name not in anew],
            unexpected=[name for name in known if name not in expected],
            unlike=[
                f"{name}: {list(known[name].shape)}, not {list(tensor.shape)}"
                for name, tensor in expected.items()
                if name in known and known[name].shape != tensor.shape
            ],
            left_out=left_out,
        )
        if not report.fits:
            raise CanonError(f"{source} is not the {self.system} that its config.json describes: {report.sentence()}.")
        whole = {name: weight(known[name], name, source) for name in report.used}
        generator = torch.Generator().manual_seed(0)
        whole |= {name: _first(name, expected[name], generator) for name in anew}
        return Taken(settings, self.tensors_from(whole, settings), report, anew)


def _check_sizes(settings: Settings, tensors: Tensors, source: str) -> None:
    """A network of which the file cannot hold a part is not made, not even without its numbers."""
    held = sum(tensor.untyped_storage().nbytes() for tensor in tensors.values())
    most = dict.fromkeys(("num_layers", "decoder_layers"), len(tensors))
    most |= dict.fromkeys(("dim", "num_heads", "hidden", "vocab_size"), held)
    for name, limit in most.items():
        if settings.get(name, 0) > limit:
            size = f"{len(tensors):,} tensors of {held:,} bytes"
            raise CanonError(f"{source} has {size}, but its config.json asks for {name} = {settings[name]:,}.")


@dataclass(frozen=True)
class Taken:
    settings: Table
    tensors: Tensors  # under canon's names
    report: Report  # under theirs
    anew: list[str]  # theirs, which the file has not

    def notes(self) -> list[str]:
        """What the user should know."""
        told = []
        if self.report.left_out:
            told.append(f"left out, because the network has no such part: {', '.join(self.report.left_out)}")
        if self.anew:
            told.append(f"not there, and made anew: {', '.join(self.anew)}")
        return told


def empty(system: str, settings: Settings) -> Tensors:
    """The tensors of canon's network without their numbers."""
    record, _ = registry.find(system)
    config = record.configure("", dict(settings))
    with torch.device("meta"):
        return record.load()[1](config).state_dict()


def _first(name: str, like: Tensor, generator: torch.Generator) -> Tensor:
    if name.endswith("bias"):
        return torch.zeros(like.shape)
    if "norm" in name.lower() or ".ln_" in name:
        return torch.ones(like.shape)
    return _STD * torch.randn(like.shape, generator=generator)


def gather(tensors: Mapping[str, Tensor], names: Names, transposed: str = r"$^") -> Tensors:
    """canon's tensors of theirs; `transposed` is a pattern of those that are kept [in, out]."""
    found: Tensors = {}
    for ours, theirs in names.items():
        parts = [tensors[name].t() if re.search(transposed, name) else tensors[name] for name in theirs]
        found[ours] = (parts[0] if len(parts) == 1 else torch.cat(parts)).contiguous()
    return found


def spread(tensors: Mapping[str, Tensor], names: Names, transposed: str = r"$^") -> Tensors:
    """The way back."""
    found: Tensors = {}
    for ours, theirs in names.items():
        for name, part in zip(theirs, tensors[ours].chunk(len(theirs)), strict=True):
            part = part.t() if re.search(transposed, name) else part
            found[name] = part.clone(memory_format=torch.contiguous_format)
    return found


def both(ours: str, *theirs: str) -> Names:
    """A layer's weight and bias."""
    return {f"{ours}.{kind}": tuple(f"{name}.{kind}" for name in theirs) for kind in ("weight", "bias")}


def field_of(table: Settings, key: str, default: Any, least: int = 1) -> Any:
    """A field of config.json, which must be of its default's type; absent: the default. Whole numbers: from `least`."""
    value = table.get(key, default)
    kind = type(default)
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < _MOST else value
    fits = type(value) is kind and (kind is not int or least <= value < _MOST)
    if not fits or (kind is float and not math.isfinite(value)):
        wanted = f"{_TYPES[kind]} from {least}" if kind is int else _TYPES[kind]
        raise CanonError(f"config.json: {key} must be {wanted}, got {reprlib.repr(value)}.")
    return value


def fields_of(table: Settings, fields: Mapping[str, tuple[str, Any]]) -> Table:
    """Fields by canon's names; `fields` has theirs, and what is meant where one is absent."""
    return {ours: field_of(table, theirs, default) for ours, (theirs, default) in fields.items()}


def nullable(table: Settings, key: str, default: Any, least: int = 1) -> Any:
    """The same of a field for which null means the default."""
    return default if table.get(key) is None else field_of(table, key, default, least)


def refuse(table: Settings, key: str, *accepted: Any) -> None:
    """A setting of config.json that canon's network has not; absent is accepted."""
    value = table.get(key, accepted[0])
    if not any(type(value) is type(one) and value == one for one in accepted):
        listed = " or ".join(map(repr, accepted))
        shown = reprlib.repr(value)
        raise CanonError(f"config.json: {key} is {shown}, which canon does not compute; it must be {listed}.")
