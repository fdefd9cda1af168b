"""Where a trained network looks: its attention weights for one text, as numbers and as a figure.

The weights are computed on request by the network's `attention`, outside the fused path that training takes.
A row is a query token, a column a key token, and a row sums to 1. In cross-attention a row is named after the token
that comes next, not after the one that the decoder has just read.
Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from canon import figures
from canon.contracts import Attends
from canon.data.batching.sequences import Ragged
from canon.data.targets import HiddenTokens, NextToken
from canon.data.text.framing import frame
from canon.data.text.vocabularies import BOS, EOS
from canon.errors import CanonError
from canon.inspect.labels import TokenLabels, labels
from canon.nn import decoding
from canon.nn.ragged import Layout
from canon.use.model import Model
from canon.use.sides import source_limit

_MOST_HEADS, _MOST_LAYERS = 8, 6  # in one figure
_TITLES = {
    "encoder": "encoder: source to source",
    "decoder": "decoder: target to earlier target",
    "cross": "decoder: target to source",
    "alignment": "alignment: target to source",
}


class Map(NamedTuple):
    """The heads of one layer."""

    kind: str  # encoder, decoder, cross, alignment
    layer: int
    queries: list[str]
    keys: list[str]
    weights: np.ndarray  # [H, Q, K]


class Attention(NamedTuple):
    source: str
    target: str
    maps: list[Map]

    def to_json(self) -> dict[str, Any]:
        maps = [
            {
                "kind": one.kind,
                "layer": one.layer,
                "head": head,
                "queries": one.queries,
                "keys": one.keys,
                "weights": [[round(value, 6) for value in row] for row in weights_QK.tolist()],
            }
            for one in self.maps
            for head, weights_QK in enumerate(one.weights)
        ]
        return {"source": self.source, "target": self.target, "maps": maps}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Attention:
        maps = []
        for (kind, layer), group in groupby(record["maps"], key=itemgetter("kind", "layer")):
            heads = list(group)
            weights_HQK = np.array([head["weights"] for head in heads], dtype=np.float32)
            maps.append(Map(kind, layer, heads[0]["queries"], heads[0]["keys"], weights_HQK))
        return cls(record["source"], record["target"], maps)

    def labels(self) -> TokenLabels:
        return labels(list(dict.fromkeys(token for one in self.maps for token in (*one.queries, *one.keys))))


@torch.no_grad()
def attention(model: Model, text: str, target: str | None = None) -> Attention:
    """The weights while the network decodes `target`, by default its own output, for the source `text`; those of a
    language model while it reads `text`."""
    network: Any = model.network
    if not isinstance(model.network, Attends):
        name = model.run.recipe.system.name
        raise CanonError(f"{model.run.path} is a run of {name}, which has no attention to look at.")
    network.eval()
    device, tokenizers = next(network.parameters()).device, model.schema.tokenizers
    if isinstance(model.schema.target, NextToken | HiddenTokens):
        if target is not None:
            raise CanonError(f"{model.run.path} is a language model, which has no target; leave it out.")
        return _of_language_model(model, text, device)
    source, output = _ids(model, "source", text), None if target is None else _ids(model, "target", target)
    if len(source) == 1:
        raise CanonError("There is no attention to an empty text.")
    source_N, layout = _batch(source, device)
    if output is None:
        config = model.run.recipe.config
        limit: int = model.task.limit  # type: ignore[attr-defined]
        best = decoding.translate(network, source_N, layout, config.beam, config.length_penalty, limit)[0, 0]
        output = np.array([*best, EOS])
        target = tokenizers["target"].decode(output)
    read = np.concatenate([[BOS], output[:-1]])
    weights = network.attention(source_N, layout, *_batch(read, device))
    sources, targets = tokenizers["source"].tokens(source), tokenizers["target"].tokens(output)
    before = tokenizers["target"].tokens(read)
    axes = {"encoder": (sources, sources), "decoder": (before, before)}
    return Attention(text, target or "", [_map(key, axes, (targets, sources), of) for key, of in weights.items()])


def _map(
    key: str, axes: dict[str, tuple[list[str], list[str]]], default: tuple[list[str], list[str]], of: Tensor
) -> Map:
    """of: [1, H, Q, K]; a text that was read before may stand before the keys."""
    kind, _, layer = key.partition("/")
    queries, keys = axes.get(kind, default)
    return Map(kind, int(layer or 0), queries, keys, of[0].float().cpu().numpy()[:, :, -len(keys) :])


def _ids(model: Model, side: str, text: str) -> np.ndarray:
    """The tokens of a text and <eos>."""
    ids = Ragged.encode(model.schema.tokenizers[side], [text.strip()])[0]
    _check_length(model, f"The {side}", len(ids), source_limit(model))
    return ids


def _check_length(model: Model, what: str, length: int, limit: int) -> None:
    if length > limit:
        raise CanonError(f"{what} has {length:,} tokens, but {model.run.path} takes at most {limit:,}.")


def _batch(ids: np.ndarray, device: torch.device) -> tuple[Tensor, Layout]:
    return torch.from_numpy(ids).long().to(device), Layout(torch.tensor([len(ids)]), device)


def _of_language_model(model: Model, text: str, device: torch.device) -> Attention:
    tokenizer, network = model.schema.tokenizers["text"], model.network
    ids, lengths = tokenizer.encode([text])
    if isinstance(model.schema.target, NextToken):
        read = np.concatenate([[EOS], ids])
        weights = network.attention(torch.from_numpy(read).long().to(device)[None])
    else:  # a whole text, framed as in training
        if not len(ids):
            raise CanonError("There is no attention to an empty text.")
        read, _, segments, *_ = frame(network.framing, tokenizer.specials, Ragged(ids, lengths))
        _check_length(model, "The text", len(read), network.limit)
        weights = network.attention(*_batch(read, device), torch.from_numpy(segments).to(device))
    names = tokenizer.tokens(read)
    return Attention(text, "", [_map(key, {}, (names, names), of) for key, of in weights.items()])


def attention_figure(weights: Attention) -> figures.Figure:
    """Layers by heads for each kind of attention; one large matrix if there is one head of one layer."""
    names = weights.labels()
    if len(weights.maps) == 1 and len(weights.maps[0].weights) == 1:
        return _one(weights.maps[0], names)
    kinds: dict[str, list[Map]] = {}
    for one in weights.maps:
        if one.layer < _MOST_LAYERS:
            kinds.setdefault(one.kind, []).append(one)
    columns = min(max(len(one.weights) for one in weights.maps), _MOST_HEADS)
    width = columns * max(_inches(len(one.keys)) for one in weights.maps)
    heights = [sum(_inches(len(one.queries)) + 0.3 for one in maps) + 1.0 for maps in kinds.values()]
    figure, _ = figures.new_figure(size=(max(width + 1.0, 4.2), sum(heights)))
    figure.clear()
    with figures.style():
        parts = figure.subfigures(len(kinds), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (kind, maps) in zip(parts, kinds.items(), strict=True):
            title = _TITLES.get(kind, kind) + _left_out([one for one in weights.maps if one.kind == kind])
            part.suptitle(title, x=0.01, ha="left", weight="bold", fontsize=10)
            axes = part.subplots(len(maps), columns, squeeze=False)
            for row, one in enumerate(maps):
                for head in range(columns):
                    axis = axes[row, head]
                    if head >= len(one.weights):
                        axis.axis("off")
                        continue
                    _draw(axis, one, head, names, left=head == 0, below=row + 1 == len(maps))
                    axis.set_title(f"layer {one.layer + 1}, head {head + 1}", fontsize=8, weight="normal", pad=3)
    return figure


def _left_out(maps: list[Map]) -> str:
    """What a large network has more of."""
    heads = max(len(one.weights) for one in maps)
    parts = [f"{_MOST_LAYERS} of {len(maps)} layers"] * (len(maps) > _MOST_LAYERS)
    parts += [f"{_MOST_HEADS} of {heads} heads"] * (heads > _MOST_HEADS)
    return f" (the first {' and '.join(parts)})" if parts else ""


def _one(one: Map, names: TokenLabels) -> figures.Figure:
    width, height = (min(max(0.28 * len(tokens), 1.6), 14.0) for tokens in (one.keys, one.queries))
    figure, axes = figures.new_figure(1, 1, (width + 1.8, height + 1.2))
    with figures.style():
        drawn = _draw(axes[0, 0], one, 0, names, left=True, below=True, size=(width, height))
        axes[0, 0].set_title(_TITLES.get(one.kind, one.kind))
        figure.colorbar(drawn, ax=axes[0, 0], pad=0.02)
    return figure


def _draw(
    axis: Any,
    one: Map,
    head: int,
    names: TokenLabels,
    left: bool,
    below: bool,
    size: tuple[float, float] | None = None,
) -> Any:
    """Draws one head in about `size` inches; left, below: with the tokens there."""
    width, height = size or (_inches(len(one.keys)), _inches(len(one.queries)))
    drawn = axis.imshow(one.weights[head], cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axis.grid(False)
    # A tick without its label is not seen, but takes as long to draw: a third of the time of such a figure.
    queries = names.of(one.queries) if left else []
    keys = names.of(one.keys) if below else []
    axis.set_yticks(range(len(queries)), queries, family=names.fonts, fontsize=_points(height, len(one.queries)))
    axis.set_xticks(range(len(keys)), keys, family=names.fonts, fontsize=_points(width, len(one.keys)), rotation=90)
    return drawn


def _inches(tokens: int) -> float:
    return min(max(0.17 * tokens, 1.1), 3.2)


def _points(inches: float, tokens: int) -> float:
    """A font size at which neighbouring labels do not touch."""
    return min(max(0.85 * 72 * inches / tokens, 1.5), 8.0)
