"""Pictures of samples as PNG bytes: a grid of images, a histogram of one column, a scatter of two."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from canon import figures

GRID = 8  # images a side
_TILE = 48  # pixels that an image's side has at least
_GAP = 2


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def grid(images_NCHW: np.ndarray, white: int) -> bytes:
    """Images in rows, small ones enlarged by whole factors, on white."""
    from PIL import Image

    count, channels, height, width = images_NCHW.shape
    factor = max(1, -(-_TILE // max(height, width)))
    pixels = np.rint(images_NCHW.astype(np.float64) * (255 / white)).astype(np.uint8)
    pixels = pixels.repeat(factor, axis=2).repeat(factor, axis=3)
    across = int(np.ceil(np.sqrt(count)))
    down = -(-count // across)
    step_y, step_x = height * factor + _GAP, width * factor + _GAP
    sheet = np.full((channels, down * step_y + _GAP, across * step_x + _GAP), 255, dtype=np.uint8)
    for i, image in enumerate(pixels):
        y, x = i // across * step_y + _GAP, i % across * step_x + _GAP
        sheet[:, y : y + image.shape[1], x : x + image.shape[2]] = image
    buffer = io.BytesIO()
    Image.fromarray(sheet[0] if channels == 1 else sheet.transpose(1, 2, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def points(real_NF: np.ndarray, made_NF: np.ndarray, names: Sequence[str]) -> bytes:
    """Examples and samples of a table with one or two columns of numbers."""
    figure, axes = figures.new_figure(size=(4.9, 4.3))
    axis = axes[0, 0]
    low, high = real_NF.min(axis=0), real_NF.max(axis=0)
    margin = 0.25 * (high - low) + 1e-9
    with figures.style():
        sets = ((real_NF, "data", figures.FAINT), (made_NF, "samples", figures.COLORS[0]))
        if len(names) == 1:
            bins = np.linspace(low[0] - margin[0], high[0] + margin[0], 80)
            for rows, label, color in sets:
                axis.hist(rows[:, 0], bins=bins, density=True, histtype="step", color=color, label=label, lw=1.6)
            axis.set(xlabel=names[0], ylabel="density")
        else:
            for rows, label, color in sets:
                axis.plot(rows[:, 0], rows[:, 1], "o", color=color, ms=2.5, alpha=0.4, mew=0, label=label)
            # Samples far out would make the data a dot.
            axis.set(xlabel=names[0], ylabel=names[1])
            axis.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))
        axis.set_title("Samples and data")
        axis.legend(fontsize=8)
    return figures.to_png(figure)


def calibration(probability_N: np.ndarray, share_N: np.ndarray) -> bytes:
    """Mean probabilities of bins and the shares of positives in them; on the diagonal they are what they say."""
    figure, axes = figures.new_figure(size=(4.3, 4.3))
    axis = axes[0, 0]
    most = float(max(probability_N.max(), share_N.max(), 1e-6)) * 1.05
    with figures.style():
        axis.plot([0, most], [0, most], color=figures.FAINT, lw=1.0)
        axis.plot(probability_N, share_N, "o-", color=figures.COLORS[0], ms=4, lw=1.4)
        axis.set(xlabel="mean probability", ylabel="share of clicks", xlim=(0, most), ylim=(0, most))
    return figures.to_png(figure)
