"""Weights to start from: of a run, or of another tool's checkpoint, whatever of them fits."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from canon import recipe as recipes
from canon.data.formats import pickles
from canon.errors import CanonError, border, reason
from canon.interop import transformer_xl
from canon.interop.tensors import weight
from canon.runs import checkpoint

_NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts keep the weights in what they save
_PICKLES = 5  # one behind the other before the numbers, in files of torch before 1.6
_SHOWN = 3  # tensors of each side in the sentence that says that they do not fit


def read_tensors(source: str) -> dict[str, Tensor]:
    """The tensors by name of a run's best checkpoint, a .safetensors file, or a .pt or .pth file of tensors alone."""
    path = Path(source)
    for link in ("best", "last"):
        if (path / link).is_dir():
            return checkpoint.load((path / link).resolve(), groups=("model",))[0]["model"]
    if path.suffix in (".safetensors", ".pt", ".pth", ".bin") and path.is_file():
        with border(path):
            found = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickled(path)
            return transformer_xl.from_original(found, source)[1] if transformer_xl.is_original(found) else found
    if needed := recipes.recipe_of(source):
        raise CanonError(f"train.init: there is no run {source} yet; make it with: canon train {needed}")
    raise CanonError(f"train.init: {source} is neither a run nor a .safetensors, .pt or .pth file.")


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    with border(path, "is not a whole .safetensors file"):
        return load_file(path)


def _read_pickled(path: Path) -> dict[str, Tensor]:
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


def start_from(network: nn.Module, tensors: dict[str, Tensor], source: str) -> tuple[list[str], list[str]]:
    """Copies every tensor whose name and shape fit, in place; returns the names taken and those made anew.

    A part of a larger network fits too, on either side: its tensors are found behind their common first names, as in
    encoder.conv1.weight or module.encoder.conv1.weight.
    """
    own = network.state_dict()
    pairs: dict[str, str] = {}  # own name -> name in the source
    for theirs in _prefixes(tensors):
        behind = {name.removeprefix(theirs): name for name in tensors if name.startswith(theirs)}
        for ours in _prefixes(own) if not theirs else [""]:
            fitting = {
                ours + name: found
                for name, found in behind.items()
                if ours + name in own and tensors[found].shape == own[ours + name].shape
            }
            if len(fitting) > len(pairs):
                pairs = fitting
    if 2 * len(pairs) < len(own):
        raise CanonError(
            f"train.init: of the network's {len(own)} tensors {len(pairs) or 'none'} can be taken from {source}, where "
            f"half must be: the network has {_shown(own, pairs)}; the other has {_shown(tensors, pairs.values())}."
        )
    with torch.no_grad():
        for name, found in pairs.items():
            own[name].copy_(weight(tensors[found], found, source, own[name].dtype))
    return [name for name in own if name in pairs], [name for name in own if name not in pairs]


def _prefixes(names: Iterable[str]) -> list[str]:
    """ "", then every beginning that ends in a dot, shorter ones first."""
    found = {""}
    for name in names:
        parts = name.split(".")
        found |= {".".join(parts[:depth]) + "." for depth in range(1, len(parts))}
    return sorted(found, key=lambda prefix: (prefix.count("."), prefix))


def _shown(tensors: dict[str, Tensor], fitting: Iterable[str]) -> str:
    taken = set(fitting)
    rest = [f"{name} {list(tensor.shape)}" for name, tensor in tensors.items() if name not in taken]
    return ", ".join(rest[:_SHOWN]) + (" …" if len(rest) > _SHOWN else "")
