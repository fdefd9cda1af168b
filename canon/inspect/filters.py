"""The filters of a convolution in a trained network, or the weights of a dense layer, as images.

All weights of a layer share one scale, symmetric about zero: grey is 0 in colour filters, white in the others.
Shapes: O filters (units), I input channels, H and W height and width of a filter.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from canon import figures
from canon.errors import CanonError
from canon.inspect.features import bare, find_layer, network_of
from canon.use.model import Model

_MOST = 256  # filters in one figure
_MOST_INPUTS = 16  # input channels of a filter drawn beside each other


class Filters(NamedTuple):
    layer: str
    kind: str
    weights: np.ndarray  # [O, I, H, W]

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "shape": list(self.weights.shape), "weights": self.weights.tolist()}


def filters(model: Model, layer: str = "") -> Filters:
    """The weights of `layer`, or of the first layer with weights, as images."""
    network, shape = network_of(model), model.schema.shape
    if layer:
        chosen, module = layer, find_layer(network, layer)
    else:
        weighted = ((n, m) for n, m in network.named_modules() if isinstance(m, nn.Conv2d | nn.Linear))
        chosen, module = next(weighted, ("", network))
    if isinstance(module, nn.Conv2d):
        return Filters(chosen, "convolution", module.weight.detach().float().cpu().numpy())
    if isinstance(module, nn.Linear) and len(shape) == 3 and module.in_features == math.prod(shape):
        rows = module.weight.detach().float().cpu().numpy()
        return Filters(chosen, "dense", rows.reshape(len(rows), *shape))
    what = f'layer "{chosen}" is {type(module).__name__}' if chosen else "it has neither"
    raise CanonError(f"{model.run.path}: a convolution has filters, or a dense layer that reads whole images; {what}.")


def filters_figure(drawn: Filters) -> figures.Figure:
    """A grid of filters; a filter of other than one or three input channels is a row of its channels."""
    weights_OIHW = drawn.weights
    count, inputs = weights_OIHW.shape[:2]
    if inputs in (1, 3):
        shown = min(count, _MOST)
        columns = min(shown, max(8, math.ceil(math.sqrt(shown))))
        panels_NIHW, part = weights_OIHW[:shown], f", the first {shown}" if shown < count else ""
    else:
        columns, shown = min(inputs, _MOST_INPUTS), min(count, _MOST // _MOST_INPUTS)
        panels_NIHW = weights_OIHW[:shown, :columns].reshape(-1, 1, *weights_OIHW.shape[2:])
        part = f": a row each, the first {shown}" if shown < count else ": a row each"
        part += f", the first {columns} channels" if columns < inputs else ""
    picture_HWI = mosaic(panels_NIHW / (float(np.abs(weights_OIHW).max()) or 1.0), columns)
    width = max(4.6, 0.6 * columns)
    figure, axes = figures.new_figure(1, 1, (width, width * picture_HWI.shape[0] / picture_HWI.shape[1] + 0.4))
    with figures.style():
        axis = axes[0, 0]
        if picture_HWI.shape[2] == 3:
            axis.imshow(np.nan_to_num((picture_HWI + 1) / 2, nan=1.0))
        else:
            axis.imshow(picture_HWI[:, :, 0], cmap="RdBu_r", vmin=-1, vmax=1)
        size = "×".join(map(str, weights_OIHW.shape[1:]))
        what = "filters" if drawn.kind == "convolution" else "units"
        axis.set_title(f"{drawn.layer}, {count} {what} of {size}{part}")
        bare(axis)
    return figure


def mosaic(panels_NIHW: np.ndarray, columns: int) -> np.ndarray:
    """[H, W, I]: the panels in rows of `columns`, with empty (NaN) lines between."""
    count, channels, height, width = panels_NIHW.shape
    gap = max(1, round(max(height, width) / 8))
    rows = math.ceil(count / columns)
    picture = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap, channels), np.nan)
    for i, panel_IHW in enumerate(panels_NIHW):
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        picture[top : top + height, left : left + width] = panel_IHW.transpose(1, 2, 0)
    return picture
