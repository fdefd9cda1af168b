"""The activations of a layer of a trained network for images: as a grid, or one vector for each image.

A forward hook takes the layer's output while the run's best weights read the images in evaluation mode. Of a layer that
is called several times, the last output counts.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canon import figures
from canon.data.batching.loader import Examples
from canon.data.encodings.pixels import PixelSchema
from canon.data.read import inputs
from canon.data.schema import take
from canon.errors import CanonError, unknown
from canon.inspect.stages import watched
from canon.tasks.base import Training
from canon.use.model import Model

_BATCH = 64
_MOST_IMAGES, _MOST_CHANNELS = 12, 12  # in one figure


class LayerFeatures(NamedTuple):
    layer: str
    sources: list[str]
    images: np.ndarray  # [B, C, H, W] the first ones, as the run reads them, before scaling
    values: np.ndarray  # [B, C, H, W], or [B, units]
    white: int = 255  # the value of a white pixel of `images`

    def pooled(self) -> np.ndarray:
        """One vector for each image: the mean over places."""
        return self.values.reshape(*self.values.shape[:2], -1).mean(axis=2)

    def to_json(self) -> dict[str, Any]:
        rows = zip(self.sources, self.pooled().tolist(), strict=True)
        return {
            "layer": self.layer,
            "shape": list(self.values.shape[1:]),
            "images": [{"source": source, "features": vector} for source, vector in rows],
        }


def network_of(model: Model) -> nn.Module:
    """The run's torch module; a CanonError if it learns without one."""
    if not isinstance(model.network, nn.Module):
        raise CanonError(
            f"{model.run.path} is a run of {model.run.recipe.system.name}, which has no network to look into."
        )
    return model.network


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """The layer or block called `name`."""
    layers = dict(network.named_modules())
    layers.pop("")
    if name not in layers:
        raise CanonError(f"{unknown('layer', name, layers)} canon describe RUN lists all layers.")
    return layers[name]


def default_layer(network: nn.Module, example: Tensor) -> str:
    """The last layer or block that puts out maps; in a network without maps, the last one before the output."""
    with watched({name: module for name, module in network.named_modules() if name}, lambda output: output) as outputs:
        result = network(example)
    inner = [(name, output) for name, output in outputs if output is not result]
    maps = [(name, output) for name, output in inner if output.dim() == 4 and output.shape[2] * output.shape[3] > 1]
    return (maps or inner or outputs)[-1][0]


@torch.no_grad()
def features(model: Model, sources: list[str], layer: str = "") -> LayerFeatures:
    """The activations of `layer` for the images in files and folders."""
    network, schema = network_of(model), model.schema
    if not isinstance(schema, PixelSchema):
        raise CanonError(f"{model.run.path} was not trained on images; canon inspect features is for runs on images.")
    if not isinstance(model.task, Training) or tuple(model.task.example()[0].shape[1:]) != schema.shape:
        raise CanonError(
            f"{model.run.path} is a run of {model.run.recipe.system.name}, whose network does not read images."
        )
    if layer:
        find_layer(network, layer)  # a wrong name is reported before the images are read
    columns, names = inputs(schema, sources, model.run.recipe.data)
    device = next(network.parameters()).device
    network.eval()
    name = layer or default_layer(network, torch.zeros(1, *schema.shape, device=device))
    values: list[Tensor] = []
    # A clone, since what follows may write into the output: activations are in place.
    with watched({name: find_layer(network, name)}, torch.clone) as outputs:
        for batch in Examples(columns, schema, device).in_order(_BATCH):
            outputs.clear()
            network(batch["input"])
            if not outputs:
                raise CanonError(f'Layer "{name}" puts out no tensor when the network predicts; choose another.')
            values.append(outputs[-1][1].float().cpu())
    first = take({"input": columns["input"]}, np.arange(min(len(names), _MOST_IMAGES)))["input"]
    return LayerFeatures(name, names, np.asarray(first), torch.cat(values).numpy(), schema.white)


def features_figure(activations: LayerFeatures) -> figures.Figure:
    """A row for each image: the image, then the channels with the largest values, each on its own scale."""
    count = min(len(activations.sources), _MOST_IMAGES)
    note = f" (first {count} of {len(activations.sources)} images)" if count < len(activations.sources) else ""
    if activations.values.ndim != 4:
        return _vectors_figure(activations, count, note)
    values, channels = activations.values, activations.values.shape[1]
    strongest = np.sort(np.argsort(-np.abs(values).mean(axis=(0, 2, 3)), kind="stable")[:_MOST_CHANNELS])
    figure, axes = figures.new_figure(count, 1 + len(strongest), (1.1 * (1 + len(strongest)), 1.15 * count + 0.6))
    with figures.style():
        shape = "×".join(map(str, values.shape[1:]))
        all_ = len(strongest) == channels
        which = f"all {channels} channels" if all_ else f"the {len(strongest)} strongest of {channels} channels"
        figure.suptitle(f"{activations.layer}, {shape}: {which}{note}", x=0.01, ha="left", weight="bold", fontsize=10)
        for row in range(count):
            show(axes[row, 0], activations.images[row] / activations.white)
            axes[row, 0].set_ylabel(_short(activations.sources[row]), fontsize=7)
            for column, channel in enumerate(strongest, start=1):
                low, high = values[:count, channel].min(), values[:count, channel].max()
                axis = axes[row, column]
                axis.imshow(values[row, channel], cmap="viridis", vmin=low, vmax=high if high > low else low + 1)
                bare(axis)
                if row == 0:
                    axis.set_title(str(channel), fontsize=8, weight="normal", loc="center", pad=3)
    return figure


def _vectors_figure(activations: LayerFeatures, count: int, note: str) -> figures.Figure:
    vectors = activations.values.reshape(len(activations.values), -1)[:count]
    figure, axes = figures.new_figure(1, 1, (8.5, 0.32 * count + 1.3))
    with figures.style():
        axis = axes[0, 0]
        drawn = axis.imshow(vectors, aspect="auto", cmap="viridis", interpolation="nearest")
        axis.set(title=f"{activations.layer}, {vectors.shape[1]} units{note}", xlabel="unit")
        axis.set_yticks(range(count), [_short(source) for source in activations.sources[:count]])
        axis.grid(False)
        figure.colorbar(drawn, ax=axis, pad=0.01)
    return figure


def show(axis: Any, image_CHW: np.ndarray) -> None:
    """An image with values from 0 to 1: grey, or in colour."""
    colour = image_CHW.shape[0] == 3
    picture = image_CHW.transpose(1, 2, 0) if colour else image_CHW[0]
    axis.imshow(picture.clip(0, 1), cmap=None if colour else "gray", vmin=0, vmax=1)
    bare(axis)


def bare(axis: Any) -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _short(source: str) -> str:
    name = Path(source).name
    return name if len(name) <= 18 else f"…{name[-17:]}"
