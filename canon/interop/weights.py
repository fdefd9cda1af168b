"""Weights to start from: of a run, or of another tool's checkpoint, whatever of them fits."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from canon.errors import CanonError


def read_tensors(source: str) -> dict[str, Tensor]:
    """The tensors of a run's best checkpoint, a .safetensors file, or a .pt/.pth file without foreign objects."""
    path = Path(source)
    for link in ("best", "last"):
        if (path / link / "model.safetensors").is_file():
            return load_file(path / link / "model.safetensors")
    if path.suffix == ".safetensors" and path.is_file():
        return load_file(path)
    if path.suffix in (".pt", ".pth", ".bin") and path.is_file():
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as refusal:  # pickle's errors have no common class
            raise CanonError(
                f"{path} holds more than tensors and is not read: {str(refusal).splitlines()[0]}"
            ) from None
        content = content.get("state_dict", content) if isinstance(content, dict) else content
        if isinstance(content, dict) and all(isinstance(value, Tensor) for value in content.values()):
            return content
        raise CanonError(f"{path} is not a table of tensors.")
    raise CanonError(f"train.init: {source} is neither a run nor a .safetensors, .pt or .pth file.")


def start_from(network: nn.Module, tensors: dict[str, Tensor], source: str) -> tuple[list[str], list[str]]:
    """Copies every tensor whose name and shape fit, in place; returns the names taken and those made anew.

    A part of a larger network fits too: its tensors are found behind their common first name, as in encoder.conv1.
    """
    own = network.state_dict()
    seen: dict[str, Tensor] = {}
    taken: list[str] = []
    for prefix in ["", *sorted({name.split(".")[0] + "." for name in tensors})]:
        behind = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        fitting = [name for name in own if name in behind and behind[name].shape == own[name].shape]
        if len(fitting) > len(taken):
            seen, taken = behind, fitting
    if 2 * len(taken) < len(own):
        raise CanonError(f"train.init: only {len(taken)} of the network's {len(own)} tensors are in {source}.")
    with torch.no_grad():
        for name in taken:
            own[name].copy_(seen[name])
    return taken, [name for name in own if name not in taken]
