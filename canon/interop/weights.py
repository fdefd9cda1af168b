"""Files of tensors by name (.safetensors, .pt, .pth, .bin), and weights to start from, whatever of them fits."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from canon.data.formats import pickles
from canon.data.schema import Schema
from canon.errors import CanonError, border, reason
from canon.interop.formats import Candidate, GivesWeights, open_for
from canon.interop.network import ForeignWeights, Tensors, weight
from canon.recipe import Recipe

_NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts keep the weights in what they save
_PICKLES = 5  # one after the other before the numbers, in files of torch before 1.6
_SHOWN = 3  # tensors of each side in the sentence that says that they do not fit


class TensorFile(GivesWeights):
    """Tensors whose names are canon's own, or of a system that is not known."""

    def __init__(self, path: Path, tensors: Tensors) -> None:
        super().__init__(path, "tensors")
        self._tensors = tensors

    def read(self) -> ForeignWeights:
        return ForeignWeights({}, self._tensors)


def recognise(candidate: Candidate) -> TensorFile | None:
    return TensorFile(candidate.path, candidate.tensors) if candidate.tensors is not None else None


def read_file(path: Path) -> Tensors:
    """The tensors of a .safetensors file, or of a .pt, .pth or .bin file of tensors alone."""
    with border(path):
        if path.suffix != ".safetensors":
            return _read_pickled(path)
        with border(path, "is not a whole .safetensors file"):
            return load_file(path)


def write_safetensors(tensors: Tensors, path: Path) -> None:
    """A .safetensors file that others may read as they may any new file; the package's own are for the owner alone."""
    path.touch()
    mode = path.stat().st_mode
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(whole, path, metadata={"format": "pt"})
    path.chmod(mode)


def _read_pickled(path: Path) -> Tensors:
    _check_pickled(path)
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as refusal:  # pickle's errors have no common class
        raise CanonError(
            f"{path} holds more than tensors, or is damaged, and is not read: {reason(refusal)}."
        ) from None
    if isinstance(content, dict):
        content = next((content[key] for key in _NESTED if isinstance(content.get(key), dict)), content)
    table = content if isinstance(content, dict) else {}
    if not table or not all(isinstance(name, str) and _is_dense(value) for name, value in table.items()):
        raise CanonError(f"{path} is not a table of tensors by name.")
    return table


def _is_dense(value: object) -> bool:
    """Whether it is a tensor with all its numbers: not sparse, quantised or without any."""
    return isinstance(value, Tensor) and value.layout is torch.strided and not (value.is_quantized or value.is_meta)


def _check_pickled(path: Path) -> None:
    """Refuses what torch would unpack without bound: nested objects in either of its formats, and packed archives."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            pickles.check(file, str(path), _PICKLES)
        return
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > entry.compress_size:
                raise CanonError(f"{path} is a packed archive, which torch never writes; unpack it first.")
            if entry.filename.endswith("data.pkl"):
                pickles.check(archive.open(entry), str(path))


def start_network(network: nn.Module, recipe: Recipe, schema: Schema) -> str:
    """Starts a network from train.init, in place; says what was taken."""
    source = recipe.train.init
    origin = open_for(recipe.system, source, "weights", "train.init")
    tensors, notes = origin.tensors_for(recipe.config, schema.tokenizers.get("text"))
    taken, others = start_from(network, tensors, source)
    rest = f"; newly initialised: {', '.join(others)}" if others else ""
    return " ".join([*notes, f"Started from {source}: {len(taken)} tensors taken{rest}."])


def start_from(network: nn.Module, tensors: Tensors, source: str) -> tuple[list[str], list[str]]:
    """Copies every tensor whose name and shape fit, in place; returns the names taken and the others.

    A part of a larger network fits too, on either side: its tensors share their first names, as in
    encoder.conv1.weight or module.encoder.conv1.weight.
    """
    state = network.state_dict()
    pairs: dict[str, str] = {}  # name in the network: name in the source
    for theirs in _prefixes(tensors):
        inside = {name.removeprefix(theirs): name for name in tensors if name.startswith(theirs)}
        for ours in _prefixes(state) if not theirs else [""]:
            fitting = {
                ours + name: other
                for name, other in inside.items()
                if ours + name in state and tensors[other].shape == state[ours + name].shape
            }
            if len(fitting) > len(pairs):
                pairs = fitting
    if 2 * len(pairs) < len(state):
        raise CanonError(
            f"train.init: of the network's {len(state)} tensors {len(pairs) or 'none'} can be taken from {source}, "
            f"where half must be: the network has {_shown(state, pairs)}; the other has "
            f"{_shown(tensors, pairs.values())}."
        )
    with torch.no_grad():
        for name, other in pairs.items():
            state[name].copy_(weight(tensors[other], other, source, state[name].dtype))
    return [name for name in state if name in pairs], [name for name in state if name not in pairs]


def _prefixes(names: Iterable[str]) -> list[str]:
    """ "", then every beginning that ends in a dot, shorter ones first."""
    prefixes = {""}
    for name in names:
        parts = name.split(".")
        prefixes |= {".".join(parts[:depth]) + "." for depth in range(1, len(parts))}
    return sorted(prefixes, key=lambda prefix: (prefix.count("."), prefix))


def _shown(tensors: Tensors, fitting: Iterable[str]) -> str:
    taken = set(fitting)
    rest = [f"{name} {list(tensor.shape)}" for name, tensor in tensors.items() if name not in taken]
    return ", ".join(rest[:_SHOWN]) + (" …" if len(rest) > _SHOWN else "")
