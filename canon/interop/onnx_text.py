"""A network that reads texts as a folder that onnxruntime runs: the graph, its tokenizer, and a program that uses both.

| run | outputs of model.onnx | shape |
| --- | --- | --- |
| fine-tuned for classes | logits | [B, C] |
| for numbers | prediction, in the data's own unit | [B, 1] |
| for tags | logits, of every token: a word's tag is that of its first piece | [B, L, C] |
| an encoder (bert, roberta, ernie2) | hidden, the last layer; pooled, the vector of a text | [B, L, D], [B, D] |

canon's networks read tokens end to end; a graph reads the padded grid that other tools make, `input_ids`,
`attention_mask` and, where the network tells two texts apart, `token_type_ids`, int64 [B, L]. In `GridLayout`
padding counts as tokens that nobody sees. Before anything is written the graph is run by onnxruntime on padded
batches and compared with the network on the same tokens end to end.
Shapes: B texts, L the longest, D features, C classes.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.encodings.framed import FramedSchema
from canon.data.schema import Schema
from canon.data.targets import Nothing, Number, Tags
from canon.data.text.framing import PATTERNS
from canon.errors import CanonError
from canon.interop.huggingface_finetuned import as_read
from canon.interop.huggingface_tokenizers import tokenizer_json
from canon.interop.network import Network
from canon.interop.onnx_example import PROGRAMS, program, readme
from canon.nn.ragged import Layout
from canon.storage import writing_folder
from canon.systems.pretrained.base import Pretrained
from canon.systems.pretrained.finetune import FineTune

FILES = ("model.onnx", "tokenizer.json", "predict.py", "README.md")
_LENGTHS = ((7,), (5, 11, 8))  # of the batches that a graph is checked with, where the network has so many positions


class GridLayout(Layout):
    """Sequences that fill a grid of B rows and L columns; `mask` is True where there is a token, the first places."""

    def __init__(self, mask_BL: Tensor) -> None:
        self.prefix, self.device = None, mask_BL.device
        self.size, self.max_length = mask_BL.shape
        self.min_length, self.total = 1, self.size * self.max_length
        self.__dict__["mask"] = mask_BL
        self.__dict__["is_full"] = False

    @cached_property
    def device_lengths(self) -> Tensor:
        return self.mask.sum(1)

    @cached_property
    def positions(self) -> Tensor:
        return torch.arange(self.max_length).expand(self.size, -1).reshape(-1)

    @cached_property
    def starts(self) -> Tensor:
        return torch.arange(self.size) * self.max_length

    @cached_property
    def ends(self) -> Tensor:
        return self.starts + self.device_lengths - 1

    def pad(self, x: Tensor, fill: float = 0) -> Tensor:
        return x.reshape(self.size, self.max_length, *x.shape[1:])

    def unpad(self, grid: Tensor) -> Tensor:
        return grid.reshape(self.total, *grid.shape[2:])

    def mean(self, x_ND: Tensor) -> Tensor:
        shown_BLD = self.pad(x_ND) * self.mask[:, :, None]
        return shown_BLD.sum(1) / self.device_lengths.clamp(min=1)[:, None]


class Reader(nn.Module):
    """What the graph computes, of tokens under any layout."""

    def __init__(self, network: nn.Module, schema: Schema) -> None:
        super().__init__()
        self.network = network
        number = schema.target if isinstance(schema.target, Number) else None
        self.scale = (number.std, number.mean) if number else None
        self.of_tokens = isinstance(schema.target, Tags)

    @property
    def names(self) -> list[str]:
        if not isinstance(self.network, FineTune):
            return ["hidden", "pooled"]
        return ["prediction" if self.scale else "logits"]

    def read(self, token_N: Tensor, layout: Layout, segment_N: Tensor | None) -> tuple[Tensor, ...]:
        """The outputs; those of every token are on the grid."""
        network: Any = self.network
        if not isinstance(network, FineTune):
            hidden_ND = network.encode(token_N, layout, segment_N)[-1]
            return layout.pad(hidden_ND), network.pool(hidden_ND, layout)
        outputs = network(token_N, layout, segment_N).outputs
        if self.scale:
            return (outputs * self.scale[0] + self.scale[1],)
        return (layout.pad(outputs) if self.of_tokens else outputs,)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Any:
        segments = None if token_type_ids is None else token_type_ids.reshape(-1)
        # A row for <pad> may be missing in the embeddings.
        return self.read((input_ids * attention_mask).reshape(-1), GridLayout(attention_mask.bool()), segments)


def write(network: Network, target: Path) -> float:
    """Writes the folder; returns the largest difference between onnxruntime and torch."""
    from canon.interop import onnx

    if target.exists():
        raise CanonError(f"{target} already exists: give another name for the folder.")
    if target.suffix:
        raise CanonError(f'{target}: a network of texts is written as a folder, whose name has no "{target.suffix}".')
    schema = network.schema
    tokenizer = schema.tokenizers.get("text")
    if tokenizer is None:
        raise CanonError(f"{network.source} has no tokenizer, which a graph needs: convert a run of it.")
    module = network.build()
    backbone, framing, limit = _backbone(module, schema, network.source)
    asks = type(schema.target) if isinstance(module, FineTune) else Nothing
    tokenizer = as_read(tokenizer, framing)
    plain = tokenizer_json(tokenizer, framing)
    pad = tokenizer.specials.require("pad", "a batch of texts")
    plain["padding"] = _padding(pad, tokenizer.vocabulary[pad])
    plain["truncation"] = {"direction": "Right", "max_length": limit, "strategy": "LongestFirst", "stride": 0}
    reader = Reader(module, schema).eval().cpu()
    segments = any(segment for _, segment in PATTERNS[framing][1]) and backbone.segments > 1
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]
    batch = _batch(_LENGTHS[1], backbone, limit, segments)
    length = torch.export.Dim("length", max=limit)
    content = onnx.graph(
        reader,
        batch,
        names,
        reader.names,
        [{0: torch.export.Dim("batch"), 1: length}] * len(names),
        onnx.facts(network.name, schema) | {"canon.max_length": str(limit)},
    )
    difference = max(_difference(content, reader, _batch(some, backbone, limit, segments), names) for some in _LENGTHS)
    onnx.check(difference)
    pair = len(schema.columns) == 2 if isinstance(schema, FramedSchema) else False
    with writing_folder(target) as folder:
        (folder / FILES[0]).write_bytes(content)
        (folder / FILES[1]).write_text(json.dumps(plain, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (folder / FILES[2]).write_text(program(asks, pair), encoding="utf-8")
        (folder / FILES[3]).write_text(readme(network.name, asks, pair, names, limit), encoding="utf-8")
    return difference


def can_write(module: nn.Module, schema: Schema) -> bool:
    try:
        _backbone(module, schema, "")
    except CanonError:
        return False
    return True


def _backbone(module: nn.Module, schema: Schema, source: str) -> tuple[Pretrained, str, int]:
    """The network below the head, where its special tokens stand, and the most tokens that it reads; a sentence where a
    graph cannot be made."""
    backbone: Any = module.backbone if isinstance(module, FineTune) else module
    # What works on tokens end to end, without windows or masks of its own, can work on a grid.
    plain = isinstance(backbone, Pretrained) and backbone.records
    plain = plain and not any(block.attention.window for block in backbone.layers.blocks)
    if not plain or (isinstance(module, FineTune) and module.lstm is not None):
        raise CanonError(
            f"{source} cannot be written as an ONNX graph: that is for bert, roberta, ernie2, gpt, gpt2 and dense "
            "gpt3, without system.lstm."
        )
    if isinstance(module, FineTune) and type(schema.target) not in PROGRAMS:
        raise CanonError(
            f"{source} predicts {schema.target.what}, which is not written as an ONNX graph; classes, numbers and tags "
            "are."
        )
    limit = schema.limit if isinstance(schema, FramedSchema) else backbone.limit
    return backbone, schema.framing if isinstance(schema, FramedSchema) else backbone.framing, limit


def _padding(index: int, token: str) -> dict[str, Any]:
    return {
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": index,
        "pad_type_id": 0,
        "pad_token": token,
    }


def _batch(lengths: tuple[int, ...], backbone: Pretrained, limit: int, segments: bool) -> tuple[Tensor, ...]:
    """Random tokens, padded: ids, mask and, where there are any, segments."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.tensor(lengths).clamp(max=limit)
    shape = len(sizes), int(sizes.max())
    ids = torch.randint(0, len(backbone.embedding.token.weight), shape, generator=generator)
    mask = (torch.arange(shape[1]) < sizes[:, None]).long()
    some = torch.randint(0, 2, shape, generator=generator)
    return (ids * mask, mask, some * mask) if segments else (ids * mask, mask)


@torch.no_grad()
def _difference(content: bytes, reader: Reader, batch: tuple[Tensor, ...], names: list[str]) -> float:
    """Between the graph on the grid and the network on tokens end to end."""
    from canon.interop import onnx

    mask_BL = batch[1].bool()
    layout = Layout(mask_BL.sum(1))
    tokens = [grid[mask_BL] for grid in (batch[0], *batch[2:])]
    ours = reader.read(tokens[0], layout, tokens[1] if len(tokens) > 1 else None)
    theirs = onnx.run(content, dict(zip(names, (grid.numpy() for grid in batch), strict=True)))
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        of_tokens = one.dim() == 3
        there = mask_BL.numpy()[:, :, None] if of_tokens else np.ones(1, dtype=bool)
        gap = np.abs(np.where(there, one.numpy() - other, 0)).max()
        worst = max(worst, float(gap) / max(1.0, float(one.abs().max())))
    return worst
