"""What a layer of a trained network answers to images: activations as a grid, or one vector for each image.

A forward hook takes the layer's output while the run's best weights look at the images in evaluation mode; the training
path knows nothing of it. A layer that is called several times gives its last answer.
Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canon import figures
from canon.data.batching.loader import Examples
from canon.data.encodings.pixels import PixelSchema
from canon.data.read import inputs
from canon.errors import CanonError
from canon.use.model import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BATCH = 64
_MOST_IMAGES, _MOST_CHANNELS = 12, 12  # in one figure
_MOST_NAMES = 40  # layers that a mistake lists


class Features(NamedTuple):
    layer: str
    sources: list[str]
    images: np.ndarray  # [B, C, H, W] as the run reads them, before scaling
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
    """The run's torch module; a learner of another kind is a mistake."""
    if not isinstance(model.network, nn.Module):
        raise CanonError(
            f"{model.run.path} is a run of {model.run.recipe.system.name}, which has no network to look into."
        )
    return model.network


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """The layer or block called `name`; the sentence of a wrong name has the nearest one, or lists them."""
    layers = dict(network.named_modules())
    layers.pop("")
    if name in layers:
        return layers[name]
    near = get_close_matches(name, layers, n=1, cutoff=0.6)
    if near:
        raise CanonError(f'No layer "{name}"; did you mean {near[0]}?')
    shallow = [known for known in layers if len(layers) <= _MOST_NAMES or "." not in known]
    raise CanonError(f'No layer "{name}"; there are: {", ".join(shallow)} (all of them: canon describe RUN).')


def default_layer(network: nn.Module, example: Tensor) -> str:
    """The last layer or block that puts out maps; in a network without maps, the last one before the output."""
    finished: list[tuple[str, Tensor]] = []

    def watch(name: str) -> Any:
        return lambda _module, _inputs, output: finished.append((name, output)) if isinstance(output, Tensor) else None

    handles = [module.register_forward_hook(watch(name)) for name, module in network.named_modules() if name]
    try:
        answer = network(example)
    finally:
        for handle in handles:
            handle.remove()
    inner = [(name, output) for name, output in finished if output is not answer]
    maps = [name for name, output in inner if output.dim() == 4 and output.shape[2] * output.shape[3] > 1]
    names = maps or [name for name, _ in inner] or [name for name, _ in finished]
    return names[-1]


@torch.no_grad()
def features(model: Model, sources: list[str], layer: str = "") -> Features:
    """The answers of `layer` to the images in files and folders."""
    network, schema = network_of(model), model.schema
    if not isinstance(schema, PixelSchema):
        raise CanonError(f"{model.run.path} was trained on a table; canon inspect features is for runs on images.")
    if tuple(model.task.example()[0].shape[1:]) != schema.shape:
        raise CanonError(f"{model.run.path} is a run of {model.run.recipe.system.name}, whose network reads no images.")
    if layer:
        find_layer(network, layer)
    columns, names = inputs(schema, sources, model.run.recipe.data)
    device = next(network.parameters()).device
    network.eval()
    name = layer or default_layer(network, torch.zeros(1, *schema.shape, device=device))
    answers: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            answers.append(output.clone())  # what follows may write into it: activations are in place

    handle = find_layer(network, name).register_forward_hook(keep)
    found: list[Tensor] = []
    try:
        for batch in Examples(columns, schema, device).in_order(_BATCH):
            answers.clear()
            network(batch["input"])
            if not answers:
                raise CanonError(f'Layer "{name}" puts out no tensor when the network predicts; choose another.')
            found.append(answers[-1].float().cpu())
    finally:
        handle.remove()
    return Features(name, names, _pixels(columns["input"]), torch.cat(found).numpy(), schema.white)


def features_figure(found: Features) -> Figure:
    """A row for each image: the image, then the channels that answer strongest, each on its own scale."""
    count = min(len(found.sources), _MOST_IMAGES)
    note = f" (first {count} of {len(found.sources)} images)" if count < len(found.sources) else ""
    if found.values.ndim != 4:
        return _vectors_figure(found, count, note)
    values, channels = found.values, found.values.shape[1]
    strongest = np.sort(np.argsort(-np.abs(values).mean(axis=(0, 2, 3)), kind="stable")[:_MOST_CHANNELS])
    figure, axes = figures.new_figure(count, 1 + len(strongest), (1.1 * (1 + len(strongest)), 1.15 * count + 0.6))
    with figures.style():
        shape = "×".join(map(str, values.shape[1:]))
        which = (
            f"the {len(strongest)} strongest of {channels} channels"
            if len(strongest) < channels
            else f"all {channels} channels"
        )
        figure.suptitle(f"{found.layer}, {shape}: {which}{note}", x=0.01, ha="left", weight="bold", fontsize=10)
        for row in range(count):
            show(axes[row, 0], found.images[row] / found.white)
            axes[row, 0].set_ylabel(_short(found.sources[row]), fontsize=7)
            for column, channel in enumerate(strongest, start=1):
                low, high = values[:count, channel].min(), values[:count, channel].max()
                axis = axes[row, column]
                axis.imshow(values[row, channel], cmap="viridis", vmin=low, vmax=high if high > low else low + 1)
                bare(axis)
                if row == 0:
                    axis.set_title(str(channel), fontsize=8, weight="normal", loc="center", pad=3)
    return figure


def _vectors_figure(found: Features, count: int, note: str) -> Figure:
    vectors = found.values.reshape(len(found.values), -1)[:count]
    figure, axes = figures.new_figure(1, 1, (8.5, 0.32 * count + 1.3))
    with figures.style():
        axis = axes[0, 0]
        drawn = axis.imshow(vectors, aspect="auto", cmap="viridis", interpolation="nearest")
        axis.set(title=f"{found.layer}, {vectors.shape[1]} units{note}", xlabel="unit")
        axis.set_yticks(range(count), [_short(source) for source in found.sources[:count]])
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


def _pixels(column: Any) -> np.ndarray:
    """The first images, for the figure."""
    first = np.arange(min(len(column), _MOST_IMAGES))
    return np.asarray(column[first] if isinstance(column, np.ndarray) else column.take(first))


def _short(source: str) -> str:
    name = Path(source).name
    return name if len(name) <= 18 else f"…{name[-17:]}"
