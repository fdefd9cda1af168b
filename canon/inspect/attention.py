"""Where a trained network looks: its attention weights for one text, as numbers and as a figure.

The weights are computed on request by the network's `attention`, outside the fused path that training takes.
A row is a token that asks, a column a token that is looked at, and a row sums to 1. In cross-attention a row bears the
name of the token that is about to be said, not of the one that was said before it.
Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
from canon.inspect.labels import Labels, labels
from canon.nn import decoding
from canon.nn.ragged import Layout
from canon.use.model import Model
from canon.use.sides import source_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_HEADS, _MOST_LAYERS = 8, 6  # in one figure
_TITLES = {
    "encoder": "encoder: source to source",
    "decoder": "decoder: target to what was said",
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
        found = [
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
        return {"source": self.source, "target": self.target, "maps": found}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Attention:
        heads: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for head in record["maps"]:
            heads.setdefault((head["kind"], head["layer"]), []).append(head)
        maps = [
            Map(
                kind,
                layer,
                of[0]["queries"],
                of[0]["keys"],
                np.array([head["weights"] for head in of], dtype=np.float32),
            )
            for (kind, layer), of in heads.items()
        ]
        return cls(record["source"], record["target"], maps)

    def labels(self) -> Labels:
        return labels(list(dict.fromkeys(token for one in self.maps for token in (*one.queries, *one.keys))))


@torch.no_grad()
def attention(model: Model, text: str, target: str | None = None) -> Attention:
    """The weights while the network says `target`, or by itself, for the source `text`; or reads `text`."""
    network, name = model.network, model.run.recipe.system.name
    if not isinstance(model.network, Attends):
        raise CanonError(f"{model.run.path} is a run of {name}, which has no attention to look at.")
    network.eval()
    device = next(network.parameters()).device
    if isinstance(model.schema.target, NextToken | HiddenTokens):
        if target is not None:
            raise CanonError(f"{model.run.path} is a language model, which has no target; leave it out.")
        return _of_language_model(model, text, device)
    source, said = _ids(model, "source", text), None if target is None else _ids(model, "target", target)
    if len(source) == 1:
        raise CanonError("There is no attention to an empty text.")
    source_N, source_layout = _batch(source, device)
    if said is None:
        config = model.run.recipe.config
        limit: int = model.task.limit  # type: ignore[attr-defined]
        best = decoding.translate(network, source_N, source_layout, config.beam, config.length_penalty, limit)[0, 0]
        said = np.array([*best, EOS])
        target = model.schema.tokenizers["target"].decode(said)
    given = np.concatenate([[BOS], said[:-1]])
    record = network.attention(source_N, source_layout, *_batch(given, device))
    sides = {
        "source": model.schema.tokenizers["source"].tokens(source),
        "given": model.schema.tokenizers["target"].tokens(given),
        "said": model.schema.tokenizers["target"].tokens(said),
    }
    axes = {"encoder": ("source", "source"), "decoder": ("given", "given")}
    maps = []
    for key, weights_BHQK in record.items():
        kind, _, layer = key.partition("/")
        queries, keys = axes.get(kind, ("said", "source"))
        maps.append(Map(kind, int(layer or 0), sides[queries], sides[keys], _numbers(weights_BHQK)))
    return Attention(text, target or "", maps)


def _ids(model: Model, side: str, text: str) -> np.ndarray:
    """The tokens of a text and <eos>, at most as many as the network takes."""
    ids = Ragged.encode(model.schema.tokenizers[side], [text.strip()])[0]
    if len(ids) > source_limit(model):
        raise CanonError(
            f"The {side} has {len(ids):,} tokens, but {model.run.path} takes at most {source_limit(model):,}."
        )
    return ids


def _batch(ids: np.ndarray, device: torch.device) -> tuple[Tensor, Layout]:
    return torch.from_numpy(ids).long().to(device), Layout(torch.tensor([len(ids)]), device)


def _of_language_model(model: Model, text: str, device: torch.device) -> Attention:
    tokenizer, network = model.schema.tokenizers["text"], model.network
    ids, lengths = tokenizer.encode([text])
    if isinstance(model.schema.target, NextToken):
        read = np.concatenate([[EOS], ids])
        record = network.attention(torch.from_numpy(read).long().to(device)[None])
    else:  # a text of its own, framed as in training
        if not len(ids):
            raise CanonError("There is no attention to an empty text.")
        read, _, segments, *_ = frame(network.framing, tokenizer.specials, Ragged(ids, lengths))
        if len(read) > network.limit:
            raise CanonError(
                f"The text has {len(read):,} tokens, but {model.run.path} takes at most {network.limit:,}."
            )
        record = network.attention(*_batch(read, device), torch.from_numpy(segments).to(device))
    names = tokenizer.tokens(read)
    maps = [
        Map(
            key.partition("/")[0], int(key.partition("/")[2] or 0), names, names, _numbers(weights)[:, :, -len(names) :]
        )
        for key, weights in record.items()
    ]
    return Attention(text, "", maps)


def _numbers(weights_BHQK: Tensor) -> np.ndarray:
    return weights_BHQK[0].float().cpu().numpy()


def attention_figure(found: Attention) -> Figure:
    """Layers by heads for each kind of attention; one large matrix where there is one head of one layer."""
    names = found.labels()
    if len(found.maps) == 1 and len(found.maps[0].weights) == 1:
        return _one(found.maps[0], names)
    kinds: dict[str, list[Map]] = {}
    for one in found.maps:
        if one.layer < _MOST_LAYERS:
            kinds.setdefault(one.kind, []).append(one)
    columns = min(max(len(one.weights) for one in found.maps), _MOST_HEADS)
    width = columns * max(_inches(len(one.keys)) for one in found.maps)
    heights = [sum(_inches(len(one.queries)) + 0.3 for one in maps) + 1.0 for maps in kinds.values()]
    figure, _ = figures.new_figure(size=(max(width + 1.0, 4.2), sum(heights)))
    figure.clear()
    with figures.style():
        parts = figure.subfigures(len(kinds), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (kind, maps) in zip(parts, kinds.items(), strict=True):
            part.suptitle(
                _TITLES.get(kind, kind) + _left_out(found, kind), x=0.01, ha="left", weight="bold", fontsize=10
            )
            axes = part.subplots(len(maps), columns, squeeze=False)
            for row, one in enumerate(maps):
                for head in range(columns):
                    axis = axes[row, head]
                    if head >= len(one.weights):
                        axis.axis("off")
                        continue
                    _draw(axis, one, head, names, left=head == 0, below=row + 1 == len(maps))
                    title = f"layer {one.layer + 1}, head {head + 1}"
                    axis.set_title(title, fontsize=8, weight="normal", pad=3)
    return figure


def _left_out(found: Attention, kind: str) -> str:
    """What a large network has more of."""
    maps = [one for one in found.maps if one.kind == kind]
    heads = max(len(one.weights) for one in maps)
    said = [f"{_MOST_LAYERS} of {len(maps)} layers"] * (len(maps) > _MOST_LAYERS)
    said += [f"{_MOST_HEADS} of {heads} heads"] * (heads > _MOST_HEADS)
    return f" (the first {' and '.join(said)})" if said else ""


def _one(one: Map, names: Labels) -> Figure:
    width, height = (min(max(0.28 * len(tokens), 1.6), 14.0) for tokens in (one.keys, one.queries))
    figure, axes = figures.new_figure(1, 1, (width + 1.8, height + 1.2))
    with figures.style():
        drawn = _draw(axes[0, 0], one, 0, names, left=True, below=True, size=(width, height))
        axes[0, 0].set_title(_TITLES.get(one.kind, one.kind))
        figure.colorbar(drawn, ax=axes[0, 0], pad=0.02)
    return figure


def _draw(
    axis: Axes, one: Map, head: int, names: Labels, left: bool, below: bool, size: tuple[float, float] | None = None
) -> Any:
    """One head in about `size` inches, with its tokens at the left and below where asked for."""
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
    """A size of letters at which neighbours do not touch."""
    return min(max(0.85 * 72 * inches / tokens, 1.5), 8.0)
