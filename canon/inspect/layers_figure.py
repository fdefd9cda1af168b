"""A network as a row of boxes, one for each stage, with what each costs below it.

A box is what a stage puts out: its height and depth grow with the square root of the image's height and width, its
thickness with the logarithm of the channels; a vector is a bar. The bars below are shares of the largest stage.
"""

from __future__ import annotations

import math
import textwrap
from typing import Any

from canon import figures
from canon.inspect.summary import Description

_TALLEST, _SLANT = 2.1, 0.32  # inches of the input's height; of depth, how much goes right and up
_THIN, _THICK = 0.07, 0.075  # inches of one channel, and of each doubling
_GAP, _NARROWEST = 0.3, 1.02  # between boxes, and of the room that a label needs
_FLOOR = 0.0  # where boxes begin
_BAR = 0.34  # the longest bar


def layers_figure(description: Description) -> figures.Figure:
    """The stages of a description's network, from the input on the left to the output on the right."""
    from matplotlib.figure import Figure

    drawn = [stage for stage in description.stages if stage.output_shape is not None]
    shapes = [description.input_shape, *(stage.output_shape[1:] for stage in drawn if stage.output_shape)]
    side = max((max(shape[1:]) for shape in shapes if len(shape) == 3), default=1)
    boxes = [_box(shape, side) for shape in shapes]
    widths = [max(_NARROWEST, width + depth * _SLANT) for width, _, depth in boxes]
    starts = [sum(widths[:i]) + _GAP * i for i in range(len(boxes))]
    right, top = starts[-1] + widths[-1], max(height + depth * _SLANT for _, height, depth in boxes)
    bottom, left = -2.35, -0.95
    below = -0.34 if all(len(stage.name) <= 15 for stage in drawn) else -0.47  # room for names of two lines
    network, title = description.network, f"{description.system.title} ({description.name})"
    assert network is not None, "checked by the caller"
    whole = f"{_short(network.parameters)} parameters, {_short(network.multiply_adds)} multiply-adds"
    with figures.style():
        figure = Figure(figsize=(right - left + 0.3, top - bottom + 0.75), facecolor="white")
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set(xlim=(left - 0.1, right + 0.2), ylim=(bottom - 0.05, top + 0.7), aspect="equal")
        axis.axis("off")
        axis.text(left, top + 0.55, title, weight="bold", fontsize=11, va="top")
        axis.text(left, top + 0.3, whole, color=figures.FAINT, va="top")
        for i, (shape, box) in enumerate(zip(shapes, boxes, strict=True)):
            middle = starts[i] + widths[i] / 2
            x = middle - (box[0] + box[2] * _SLANT) / 2
            _draw(axis, x, box, figures.COLORS[8] if i == 0 else figures.COLORS[0 if len(shape) == 3 else 2])
            if i:
                _arrow(axis, starts[i] - _GAP / 2)
            name, kind = ("input", "") if i == 0 else (drawn[i - 1].name, drawn[i - 1].kind)
            axis.text(middle, -0.16, _broken(name), weight="bold", ha="center", va="top", fontsize=8)
            axis.text(middle, below, "×".join(map(str, shape)) or "1", ha="center", va="top", fontsize=8)
            axis.text(middle, below - 0.18, _wrapped(kind), ha="center", va="top", fontsize=6.5, color=figures.FAINT)
        parameters, multiply_adds = [stage.parameters for stage in drawn], [stage.multiply_adds for stage in drawn]
        bars = (
            ("parameters", -1.72, figures.COLORS[3], parameters),
            ("multiply-adds", -2.3, figures.COLORS[4], multiply_adds),
        )
        for title, floor, color, costs in bars:
            axis.text(left, floor + 0.03, title, color=figures.FAINT, fontsize=7.5)
            axis.plot([starts[1], right], [floor, floor], color=figures.GRID, lw=0.8, zorder=0)
            for start, width, cost in zip(starts[1:], widths[1:], costs, strict=True):
                height = _BAR * cost / max(*costs, 1)
                axis.bar(start + width / 2, height, 0.6, floor, color=color, alpha=0.75, edgecolor="none")
                label = _short(cost) if cost else "–"
                axis.text(start + width / 2, floor + height + 0.03, label, ha="center", fontsize=7)
    return figure


def _box(shape: tuple[int, ...], side: int) -> tuple[float, float, float]:
    """Thickness, height and depth in inches."""
    if len(shape) == 3:
        channels, height, width = shape
        thickness = _THIN + _THICK * math.log2(channels)
        return thickness, _TALLEST * math.sqrt(height / side), _TALLEST * math.sqrt(width / side)
    return 0.12, 0.22 + 0.14 * math.log2(max(math.prod(shape), 1)), 0.0


def _draw(axis: Any, x: float, box: tuple[float, float, float], color: str) -> None:
    """Front, right side and top, the light from above."""
    from matplotlib.patches import Polygon

    width, height, depth = box[0], box[1], box[2] * _SLANT
    front = [(x, _FLOOR), (x + width, _FLOOR), (x + width, height), (x, height)]
    side = [(x + width, _FLOOR), (x + width + depth, depth), (x + width + depth, height + depth), (x + width, height)]
    above = [(x, height), (x + width, height), (x + width + depth, height + depth), (x + depth, height + depth)]
    for face, alpha in ((side, 0.34), (above, 0.14), (front, 0.6)):
        axis.add_patch(Polygon(face, closed=True, facecolor="white", edgecolor="none"))
        axis.add_patch(Polygon(face, closed=True, facecolor=color, alpha=alpha, edgecolor="none"))
        axis.add_patch(Polygon(face, closed=True, facecolor="none", edgecolor=color, lw=0.9, joinstyle="round"))


def _arrow(axis: Any, x: float) -> None:
    line = {"arrowstyle": "-|>", "color": figures.FAINT, "lw": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    axis.annotate("", (x + 0.12, 0.12), (x - 0.12, 0.12), arrowprops=line)


def _broken(name: str) -> str:
    """A long name on two lines, the second from its last part on."""
    if len(name) <= 15:
        return name
    first, mark, second = name.rpartition("–" if "–" in name else ".")
    return f"{first}{mark}\n{second}"


def _wrapped(text: str, width: int = 19) -> str:
    return "\n".join(textwrap.wrap(text.replace(" × ", "\u00a0×\u00a0"), width)[:5])


def _short(number: int) -> str:
    """Three digits and a unit: 25.6 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)
