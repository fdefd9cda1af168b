"""The figure of a claim, drawn from its result alone, and its description in words.

One style, readable in black and white: variants differ in marker and dash as well as in colour. `dots` has one column
for each variant, a dot for each seed and a bar at the mean; `lines` has the mean over seeds of a variant's curve, or,
where variants name a `line` and their place on it, `at`, a line through their means.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import fmean
from typing import Any

from canon import figures
from canon.claims.record import Claim
from canon.claims.results import Result
from canon.report.page import number

_MARKERS = "osD^vPX*<>h"
_DASHES: list[Any] = ["-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1))]
_MOST_MARKED = 24  # points of a line that has a marker at each
_SHARE = 0.1  # of a line's height: how far a point must be beyond both of its ends to be put into words
_NOTHING = "no run has it"
Points = list[tuple[float, float, float, float]]  # x, mean, least, most


def figure_of(claim: Claim, result: Result) -> figures.Figure:
    figure, axes = figures.new_figure(size=(7.0, 3.6))
    axis = axes[0, 0]
    of = claim.figure
    with figures.style():
        if of.kind == "dots":
            _dots(axis, dict(_numbers(claim, result)))
        else:
            _lines(axis, dict(_curves(claim, result)))
        if "x" in of.log:
            axis.set_xscale("log")
        if "y" in of.log:
            axis.set_yscale("log")
        axis.set(xlabel=of.xlabel, ylabel=of.ylabel, title=claim.name)
        if axis.get_lines() and of.kind == "lines":
            figures.legend(axis)
    return figure


def words(claim: Claim, result: Result) -> str:
    """What the figure shows, for people who cannot see it."""
    of = claim.figure
    if of.kind == "dots":
        means = [
            f"{name} {number(fmean(values))} (from {number(min(values))} to {number(max(values))})"
            for name, values in _numbers(claim, result)
        ]
        return f"{of.ylabel}: {'; '.join(means) or _NOTHING}."
    lines = []
    for name, points in _curves(claim, result):
        (first, begin, *_), (last, end, *_) = points[0], points[-1]
        text = f"{name} from {number(begin)} at {first:g} to {number(end)} at {last:g}"
        (lowest, low, *_), (highest, high, *_) = min(points, key=_mean), max(points, key=_mean)
        if high - max(begin, end) > _SHARE * (high - low):
            text += f", highest {number(high)} at {highest:g}"
        if min(begin, end) - low > _SHARE * (high - low):
            text += f", lowest {number(low)} at {lowest:g}"
        lines.append(text)
    return f"{of.ylabel} against {of.xlabel}: {'; '.join(lines) or _NOTHING}."


def _mean(point: tuple[float, ...]) -> float:
    return point[1]


def described(svg: str, claim: Claim, result: Result) -> str:
    """The figure with its words, as the text alternative."""
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(words(claim, result))}"', 1)


def _numbers(claim: Claim, result: Result) -> Iterator[tuple[str, list[float]]]:
    for name in claim.variants:
        values = [of.get(claim.figure.value) for of in result.values.get(name, {}).values()]
        if numbers := [value for value in values if isinstance(value, float | int)]:
            yield name, numbers


def _curves(claim: Claim, result: Result) -> Iterator[tuple[str, Points]]:
    """The lines by name: of variants with curves, then those through variants that have a place."""
    through: dict[str, Points] = {}
    numbers = dict(_numbers(claim, result))
    for name, variant in claim.variants.items():
        if variant.at is not None and name in numbers:
            values = numbers[name]
            point = variant.at, fmean(values), min(values), max(values)
            through.setdefault(variant.line or claim.figure.ylabel, []).append(point)
        by_x: dict[float, list[float]] = {}
        for of in result.values.get(name, {}).values():
            curve = of.get(claim.figure.value)
            for x, y in curve if isinstance(curve, list) else []:
                by_x.setdefault(x, []).append(y)
        if by_x:
            yield name, [(x, fmean(ys), min(ys), max(ys)) for x, ys in sorted(by_x.items())]
    for line, points in through.items():
        yield line, sorted(points)


def _dots(axis: Any, values: dict[str, list[float]]) -> None:
    for place, (name, numbers) in enumerate(values.items()):
        style = {"marker": _MARKERS[place % len(_MARKERS)], "color": figures.COLORS[place % len(figures.COLORS)]}
        spread = [place + 0.18 * (i / max(len(numbers) - 1, 1) - 0.5) for i in range(len(numbers))]
        axis.plot(spread, numbers, ls="", ms=5, mfc="none", **style, label=name)
        axis.hlines(fmean(numbers), place - 0.25, place + 0.25, color=figures.INK, lw=1.6)
    axis.set_xticks(range(len(values)), list(values))
    axis.tick_params("x", rotation=0 if len(values) <= 5 else 30)
    axis.set_xlim(-0.6, len(values) - 0.4)


def _lines(axis: Any, curves: dict[str, Points]) -> None:
    for i, (name, points) in enumerate(curves.items()):
        x, mean, low, high = zip(*points, strict=True)
        color = figures.COLORS[i % len(figures.COLORS)]
        marker = _MARKERS[i % len(_MARKERS)] if len(points) <= _MOST_MARKED else ""
        axis.plot(x, mean, color=color, ls=_DASHES[i % len(_DASHES)], marker=marker, ms=5, label=name)
        axis.fill_between(x, low, high, color=color, alpha=0.12, lw=0)
