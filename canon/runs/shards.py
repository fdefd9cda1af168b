"""Tensors of many processes in one file for each: what FSDP2 trains, where no process could hold the whole.

`write` is torch.distributed.checkpoint with its safetensors files: its planner decides which process writes what (a
tensor that all have is written once), and a mistake of one process is one of all. GROUP/shard-00002-….safetensors has
the pieces of process 2; its metadata, JSON, says where each begins. Nothing is pickled. `Shards` puts tensors together
one at a time, when they are asked for, so that another number of processes, or none, may read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from canon.errors import CanonError

_PLACES, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # torch's names


def write(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """All processes write their pieces into `folder`; what fails on one of them fails on all."""
    import torch.distributed.checkpoint as dcp

    if tensors:
        writer = dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True)
        dcp.save({name: tensor.detach() for name, tensor in tensors.items()}, storage_writer=writer)


class Shards(Mapping[str, Tensor]):
    """The tensors of some files by name; each is read whenever it is asked for."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files

    @cached_property
    def _pieces(self) -> dict[str, list[tuple[Any, list[int], list[int]]]]:
        """Of each tensor: the file that a piece is in, where the piece begins, and its shape."""
        pieces: dict[str, list[tuple[Any, list[int], list[int]]]] = {}
        for path in self._files:
            try:
                file = safe_open(path, framework="pt")
                places = json.loads(file.metadata()[_PLACES])
                for name in file.keys():  # noqa: SIM118  not a dict
                    shape = file.get_slice(name).get_shape()
                    pieces.setdefault(name, []).append((file, places[name][_OFFSETS], shape))
            except (SafetensorError, OSError, KeyError, TypeError, ValueError):
                raise CanonError(f"{path} is not a shard of a checkpoint.") from None
        return pieces

    def __getitem__(self, name: str) -> Tensor:
        pieces = self._pieces[name]
        if len(pieces) == 1:
            return pieces[0][0].get_tensor(name)
        ends = [[begin + length for begin, length in zip(offset, shape, strict=True)] for _, offset, shape in pieces]
        whole: Tensor | None = None
        for file, offset, shape in pieces:
            piece = file.get_tensor(name)
            if whole is None:
                whole = torch.empty([max(sizes) for sizes in zip(*ends, strict=True)], dtype=piece.dtype)
            whole[tuple(slice(begin, begin + size) for begin, size in zip(offset, shape, strict=True))] = piece
        assert whole is not None
        return whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)
