"""Charts of a page, drawn as SVG by hand: lines, bands and levels by number, or dots with names; axes and a legend.

A run's report needs no more, and matplotlib takes longer to import than a small network to train. Colours are the
house's, which the page turns into its own; lines differ in their dashes too, for a reader without colours, and the
text alternative says where each begins and ends. Lengths are points of 1/72 inch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap

import numpy as np

from canon.figures import COLORS, FAINT, GRID, INK

WIDTH, HEIGHT = 403.0, 209.0
_TICK, _LABEL, _TITLE = 8, 9, 10  # sizes of letters
_LETTER = 0.54  # the width of a letter by its size, about
_LEGEND = 24  # letters of a line of the legend
_ROW = 11.5  # the height of such a line
_EDGE = 0.05  # of an axis, beyond the numbers at each end
_MOST = 6  # ticks, about
_DASHES = ("", "7 2.5", "2.5 1.8", "9 2 2 2", "5 2 2 2 2 2", "12 3")
_DOTS = 20  # of a path
_LEVELS = ("1.2 2.4", "4.8 2.4", "4.8 2.4 1.2 2.4")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Line:
    name: str
    x: np.ndarray
    y: np.ndarray
    best: float | None = None  # where on x a dot stands


@dataclass(frozen=True)
class Band:
    """Between `low` and `high`; it has the colour of the line with the number `of`."""

    name: str
    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    of: int = 0


@dataclass(frozen=True)
class Chart:
    title: str
    x_label: str = "step"
    y_label: str = ""
    lines: Sequence[Line] = ()
    bands: Sequence[Band] = ()
    levels: dict[str, float] = field(default_factory=dict)  # what is the same everywhere, by name
    dots: tuple[np.ndarray, np.ndarray] | None = None
    diagonal: bool = False  # whether the line on which both numbers of a dot are equal is drawn
    names: Sequence[str] = ()  # of the first dots
    log: bool = False  # whether the numbers upwards are on a logarithmic axis
    from_zero: bool = False

    def svg(self) -> str:
        """One <svg> element."""
        legend = self._legend() if len(self.lines) > 1 or self.bands or self.levels else []
        xs = [*(line.x for line in self.lines), *(band.x for band in self.bands), *(self.dots or ())[:1]]
        ys = [*(line.y for line in self.lines), *(part for band in self.bands for part in (band.low, band.high))]
        ys += [np.array(list(self.levels.values())), *(self.dots or ())[1:]]
        across, up = Axis.of(xs), Axis.of(ys, self.log, self.from_zero)
        letters = max((len(text) for _, text in up.ticks()), default=0)
        beside = max((len(text) for _, texts in legend for text in texts), default=0)
        left = 8 + _LETTER * _TICK * letters + (1.6 * _LABEL if self.y_label else 0)
        right = WIDTH - (24 + _LETTER * _TICK * beside if beside else 8)
        x, y = across.on(left, right), up.on(HEIGHT - 34, 24)
        parts = [
            f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(self.words())}" fill="none" '
            f'font-family="sans-serif" font-size="{_TICK}">',
            _text(left, 13, self.title, f'font-size="{_TITLE}" font-weight="bold" fill="{INK}"'),
            *self._frame(across, up, x, y),
            *self._inside(across, x, y),
        ]
        row = 24 + 0.3 * _ROW
        for sample, texts in legend:
            parts.append(f'<g transform="translate({right + 5:.1f} {row - 2.8:.1f})">{sample}</g>')
            for text in texts:
                parts.append(_text(right + 22, row, text, f'fill="{INK}"'))
                row += _ROW
        return "\n".join([*parts, "</svg>"])

    def words(self) -> str:
        """The chart for a reader who does not see it."""
        parts = [_spoken(line) for line in self.lines if len(line.x)]
        parts += [f"{name} at {_plain(value)}" for name, value in self.levels.items()]
        parts += [f"{band.name} as a band" for band in self.bands]
        if self.dots:
            parts.append(f"{len(self.dots[0]):,} dots, {self.y_label} against {self.x_label}")
        return f"{self.title}: {'; '.join(parts)}."

    def _legend(self) -> list[tuple[str, list[str]]]:
        """A sample of each line, band and level, and its name in lines of the legend."""
        rows = []
        for band in self.bands:
            rows.append((f'<path d="M0 -3h13v6h-13z" fill="{_color(band.of)}" fill-opacity="0.16"/>', band.name))
        for number, line in enumerate(self.lines):
            rows.append((f'<path d="M0 0h13" {_stroke(number)}/>', line.name))
        for number, name in enumerate(self.levels):
            rows.append((f'<path d="M0 0h13" {_level(number)}/>', name))
        return [(sample, wrap(name, _LEGEND, break_long_words=False)) for sample, name in rows]

    def _frame(self, across: Axis, up: Axis, x: DrawnScale, y: DrawnScale) -> list[str]:
        left, right, bottom, top = x.start, x.stop, y.start, y.stop
        parts = [
            f'<path d="M{left:.1f} {y(at):.1f}H{right:.1f}" stroke="{GRID}" stroke-width="0.7"/>'
            for at, _ in up.ticks()
        ]
        parts += [
            f'<path d="M{x(at):.1f} {top:.1f}V{bottom:.1f}" stroke="{GRID}" stroke-width="0.7"/>'
            for at, _ in across.ticks()
        ]
        parts.append(f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" stroke="#9ca3af" stroke-width="0.8"/>')
        parts += [_text(left - 4, y(at) + 2.9, text, f'text-anchor="end" fill="{FAINT}"') for at, text in up.ticks()]
        parts += [
            _text(x(at), bottom + 11, text, f'text-anchor="middle" fill="{FAINT}"') for at, text in across.ticks()
        ]
        named = f'text-anchor="middle" font-size="{_LABEL}" fill="{FAINT}"'
        parts.append(_text((left + right) / 2, HEIGHT - 8, self.x_label, named))
        if self.y_label:
            middle = (top + bottom) / 2
            parts.append(_text(9, middle, self.y_label, f'{named} transform="rotate(-90 9 {middle:.1f})"'))
        return parts

    def _inside(self, across: Axis, x: DrawnScale, y: DrawnScale) -> list[str]:
        """What is drawn between the axes, the first line on top."""
        parts = []
        for band in self.bands:
            edge = [*zip(band.x, band.low, strict=True), *zip(band.x[::-1], band.high[::-1], strict=True)]
            outline = _path(x, y, np.array(edge, dtype=float).reshape(-1, 2))
            parts.append(f'<path d="{outline}z" fill="{_color(band.of)}" fill-opacity="0.16"/>')
        for number, value in enumerate(self.levels.values()):
            if y.axis.shows(value):
                parts.append(f'<path d="M{x.start:.1f} {y(value):.1f}H{x.stop:.1f}" {_level(number)}/>')
        if self.dots:
            if self.diagonal:
                low, high = max(across.low, y.axis.low), min(across.high, y.axis.high)
                parts.append(f'<path d="{_path(x, y, np.array([[low, low], [high, high]]))}" {_level(0)}/>')
            places = [f"M{x(a):.1f} {y(b):.1f}h0" for a, b in zip(*self.dots, strict=True)]
            parts.append(f'<g stroke="{COLORS[0]}" stroke-width="4" stroke-opacity="0.45" stroke-linecap="round">')
            # A path is as dense where its dots lie on each other as where they do not; an element for each is heavy.
            parts += [f'<path d="{"".join(places[at : at + _DOTS])}"/>' for at in range(0, len(places), _DOTS)]
            parts.append("</g>")
            for name, a, b in zip(self.names, *self.dots, strict=False):
                parts.append(_text(x(a) + 3, y(b) - 2, name, f'fill="{INK}" font-size="7"'))
        for number, line in reversed([*enumerate(self.lines)]):
            points = np.stack([line.x, line.y], axis=1)
            points = points[np.isfinite(points).all(1)]
            marked = points if len(points) == 1 else points[points[:, 0] == line.best][:1]
            parts.append(f'<path d="{_path(x, y, _thinned(points, x))}" {_stroke(number)} stroke-linejoin="round"/>')
            parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.6" fill="{_color(number)}"/>' for a, b in marked]
        return parts


@dataclass(frozen=True)
class Axis:
    """The numbers from `low` to `high`; of a logarithmic one both are exponents of ten."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, numbers: Sequence[np.ndarray], log: bool = False, from_zero: bool = False) -> Axis:
        """An axis with room for all of them that can stand on it."""
        every = np.concatenate([np.zeros(0), *numbers])
        every = every[np.isfinite(every) & ((every > 0) | (not log))]
        if log:
            every = np.log10(every)
        low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            around = max(0.05 * abs(low), 1.0 if low == round(low) else 0.01)
            low, high = low - around, high + around
        edge = _EDGE * (high - low)
        return cls(0.0 if from_zero and low >= 0 else low - edge, high + edge, log)

    def shows(self, number: float) -> bool:
        return math.isfinite(number) and (not self.log or number > 0)

    def place(self, number: float) -> float:
        """0 at the lower end, 1 at the upper one."""
        return ((math.log10(number) if self.log else number) - self.low) / (self.high - self.low)

    def on(self, start: float, stop: float) -> DrawnScale:
        return DrawnScale(self, start, stop)

    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers and how they are written: powers of ten, with their double and fivefold where these are few."""
        if not self.log:
            return self._even_ticks()
        first, last = math.ceil(self.low), math.floor(self.high)
        step = max(1, math.ceil((last - first + 1) / (_MOST + 1)))
        powers = range(math.floor(self.low), last + 1)
        parts = (1,) if last - first >= 2 else (1, 2, 5) if last - first >= 0 else (1, 2, 3, 4, 5, 6, 7, 8)
        exact = [
            part * 10.0**power for power in powers for part in parts if len(parts) > 1 or (power - first) % step == 0
        ]
        shown = [number for number in exact if self.low <= math.log10(number) <= self.high]
        return [(number, _written(number)) for number in shown]

    def _even_ticks(self) -> list[tuple[float, str]]:
        rough = (self.high - self.low) / _MOST
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(part * power for part in (1, 2, 2.5, 5, 10) if part * power >= rough * (1 - 1e-9))
        count = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        numbers = [i * step for i in count]
        largest = max(map(abs, numbers), default=0)
        if 1e-3 <= largest < 1e7:
            digits = next(d for d in range(12) if abs(round(step, d) - step) < 1e-9 * step)
            return [(number, f"{number:,.{digits}f}".replace("-", "−")) for number in numbers]
        return [(number, _written(number)) for number in numbers]


@dataclass(frozen=True)
class DrawnScale:
    """An axis between two places of the drawing."""

    axis: Axis
    start: float
    stop: float

    def __call__(self, number: float) -> float:
        return self.start + self.axis.place(number) * (self.stop - self.start)


def _written(number: float) -> str:
    """A number of few digits: 0.02, 500, 10⁻⁵, 2×10⁻⁵."""
    if number == 0 or 1e-2 <= abs(number) < 1e4:
        return f"{number:g}".replace("-", "−")
    digits, power = f"{number:.6e}".split("e")
    raised = f"10{str(int(power)).translate(_RAISED)}"
    factor = f"{float(digits):g}".replace("-", "−")
    return raised if factor == "1" else f"{factor}×{raised}"


def _spoken(line: Line) -> str:
    first, last = (f"{_plain(line.y[at])} at {_plain(line.x[at])}" for at in (0, -1))
    return f"{line.name} {first}" if len(line.x) == 1 else f"{line.name} from {first} to {last}"


def _plain(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() and abs(number) < 1e15 else f"{number:.4g}"


def _path(x: DrawnScale, y: DrawnScale, points: np.ndarray) -> str:
    return "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points if y.axis.shows(b)) if len(points) else ""


def _thinned(points: np.ndarray, x: DrawnScale) -> np.ndarray:
    """The points in their order; of more than can be seen the first, last, lowest and highest of each half point."""
    if len(points) < 4 * (WIDTH + 1):
        return points
    places = np.array([round(2 * x(at)) for at in points[:, 0]])
    starts: list[int] = np.flatnonzero(np.diff(places, prepend=places[0] - 1)).tolist()
    kept: set[int] = set()
    for start, stop in zip(starts, [*starts[1:], len(points)], strict=True):
        inside = points[start:stop, 1]
        kept |= {start, stop - 1, start + int(inside.argmin()), start + int(inside.argmax())}
    return points[sorted(kept)]


def _color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _stroke(number: int) -> str:
    dashes = _DASHES[number % len(_DASHES)]
    return f'stroke="{_color(number)}" stroke-width="1.8"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _level(number: int) -> str:
    return f'stroke="{FAINT}" stroke-width="1.2" stroke-dasharray="{_LEVELS[number % len(_LEVELS)]}"'


def _text(x: float, y: float, text: str, more: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'
