"""One family of networks in Hugging Face's layout: the names of its tensors, and what becomes of those of a file.

A family is a record: how config.json and tensors become canon's and back, and what files of it have that the network
does not. `take` makes canon's tensors of a file's; whatever does not fit is listed, all of it. What is not an error:
- names without the family's prefix (bert. …), with another prefix (module. …), or from before a renaming (gamma, beta);
- a tied matrix that is there twice, and buffers, which are not weights;
- heads that canon's network does not have (classifier …): left out, and listed in `report.left_out`;
- heads that the file does not have (BertModel has none that predicts tokens): newly initialised, listed in `made_new`.
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
from canon.interop.network import ForeignWeights, Tensors, compare, on_meta, unwrapped, weight

Names = dict[str, tuple[str, ...]]  # of canon's tensors: theirs, which one below the other make it

_OLD = {"gamma": "weight", "beta": "bias"}  # norms in files of before 2019
_MOST = 1 << 31  # sizes are below
_TYPES = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}
_STD = 0.02  # of newly initialised weights


@dataclass(frozen=True)
class Family:
    system: str
    model_types: tuple[str, ...]  # that config.json may have; the first is written
    architectures: tuple[str, ...]
    config_from: Callable[[Table], Table]
    config_to: Callable[[Table], Table]
    tensors_from: Callable[[Tensors, Table], Tensors]
    tensors_to: Callable[[Tensors, Table], Tensors]
    prefix: str = ""  # of the tensors below the heads, which a file of the bare network leaves out
    roots: tuple[str, ...] = ()  # what names of these begin with
    ties: Mapping[str, str] = field(default_factory=dict)  # a tensor of a file, and the one that it is
    buffers: str = r"$^"  # a pattern of names that are not weights
    heads: str = r"$^"  # and of heads that canon's network does not have
    optional: tuple[str, ...] = ()  # patterns of what the file may be without, each as a whole
    ends: tuple[str, str] = ("bos", "eos")  # the special tokens around a text
    decodes: bool = False  # whether there is a decoder, which begins with <pad>
    switches: Mapping[str, str] = field(default_factory=dict)  # a setting, and the tensor that says that it is on

    def plain(self, tensors: Tensors) -> Tensors:
        """With the names of today, below the family's prefix."""
        renamed: Tensors = {}
        for name, tensor in unwrapped(tensors).items():
            stem, _, last = name.rpartition(".")
            if last in _OLD:
                name = f"{stem}.{_OLD[last]}"
            if name.startswith(self.roots) and self.roots:
                name = self.prefix + name
            if not re.search(self.buffers, name):
                renamed[name] = tensor
        return renamed

    def take(self, tensors: Tensors, table: Table, source: str) -> ForeignWeights:
        """canon's settings and tensors, in float32, of a config.json and the tensors of a file `source`."""
        known = self.plain(tensors)
        settings = self.config_from(table) | {setting: name in known for setting, name in self.switches.items()}
        _check_sizes(settings, known, source)
        try:
            empty = empty_tensors(self.system, settings)
        except CanonError as mistake:
            raise CanonError(f"config.json: canon has no such {self.system}: {mistake}") from None
        expected = self.tensors_to(empty, settings | {"pad_token_id": table.get("pad_token_id")})
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
        made_new: list[str] = []
        for group in self.optional:
            names = [name for name in expected if re.search(group, name)]
            if not any(name in known for name in names):
                made_new += names
        report = compare(expected, known, left_out, made_new)
        if not report.fits:
            raise CanonError(f"{source} is not the {self.system} that its config.json describes: {report.sentence()}.")
        whole = {name: weight(known[name], name, source) for name in report.used}
        generator = torch.Generator().manual_seed(0)
        whole |= {name: _first(name, expected[name], generator) for name in made_new}
        return ForeignWeights(settings, self.tensors_from(whole, settings), report, tuple(made_new))


def _check_sizes(settings: Table, tensors: Tensors, source: str) -> None:
    """Refuses sizes that the file cannot hold, before a network of them is built, even without its numbers."""
    held = sum(tensor.untyped_storage().nbytes() for tensor in tensors.values())
    most = dict.fromkeys(("num_layers", "decoder_layers"), len(tensors))
    most |= dict.fromkeys(("dim", "num_heads", "hidden", "vocab_size"), held)
    for name, limit in most.items():
        if settings.get(name, 0) > limit:
            size = f"{len(tensors):,} tensors of {held:,} bytes"
            raise CanonError(f"{source} has {size}, but its config.json asks for {name} = {settings[name]:,}.")


def empty_tensors(system: str, settings: Table) -> Tensors:
    """The tensors of canon's network without their numbers."""
    record, _ = registry.find(system)
    return on_meta(record, record.configure("", dict(settings))).state_dict()


def _first(name: str, like: Tensor, generator: torch.Generator) -> Tensor:
    if name.endswith("bias"):
        return torch.zeros(like.shape)
    if "norm" in name.lower() or ".ln_" in name:
        return torch.ones(like.shape)
    return _STD * torch.randn(like.shape, generator=generator)


def gather(tensors: Mapping[str, Tensor], names: Names, transposed: str = r"$^") -> Tensors:
    """canon's tensors of theirs; `transposed` is a pattern of those that are kept [in, out]."""
    gathered: Tensors = {}
    for ours, theirs in names.items():
        parts = [tensors[name].t() if re.search(transposed, name) else tensors[name] for name in theirs]
        gathered[ours] = (parts[0] if len(parts) == 1 else torch.cat(parts)).contiguous()
    return gathered


def spread(tensors: Mapping[str, Tensor], names: Names, transposed: str = r"$^") -> Tensors:
    """The way back."""
    parts: Tensors = {}
    for ours, theirs in names.items():
        for name, part in zip(theirs, tensors[ours].chunk(len(theirs)), strict=True):
            part = part.t() if re.search(transposed, name) else part
            parts[name] = part.clone(memory_format=torch.contiguous_format)
    return parts


def both(ours: str, *theirs: str) -> Names:
    """A layer's weight and bias."""
    return {f"{ours}.{kind}": tuple(f"{name}.{kind}" for name in theirs) for kind in ("weight", "bias")}


def block_names(count: int, theirs: str, parts: Mapping[str, tuple[str, ...]]) -> Names:
    """The weights and biases of all blocks; `parts` has a layer of canon's and those of theirs that it is made of."""
    names: Names = {}
    for i in range(count):
        for ours, others in parts.items():
            names |= both(f"layers.blocks.{i}.{ours}", *(f"{theirs}{i}.{other}" for other in others))
    return names


def field_of(table: Table, key: str, default: Any, least: int = 1) -> Any:
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


def fields_of(table: Table, fields: Mapping[str, tuple[str, Any]]) -> Table:
    """Fields by canon's names; `fields` has theirs, and what is meant where one is absent."""
    return {ours: field_of(table, theirs, default) for ours, (theirs, default) in fields.items()}


def nullable(table: Table, key: str, default: Any, least: int = 1) -> Any:
    """The same of a field for which null means the default."""
    return default if table.get(key) is None else field_of(table, key, default, least)


def refuse(table: Table, key: str, *accepted: Any) -> None:
    """Refuses a value of config.json that canon's network does not compute; absent is accepted."""
    value = table.get(key, accepted[0])
    if not any(type(value) is type(one) and value == one for one in accepted):
        listed = " or ".join(map(repr, accepted))
        shown = reprlib.repr(value)
        raise CanonError(f"config.json: {key} is {shown}, which canon does not compute; it must be {listed}.")
