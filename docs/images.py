"""Draws the figure of each system's page: `python docs/images.py [NAME …]`; --check lists the old ones.

A figure shows what is on record, without training: the stages of the network as `canon describe` counts them, the
ranges that the system's recipe is expected to stay in while it trains, and those of its scores on the test set.
Black, white and grey on white, so that it can be printed and read in dark mode. Its title is the page's alt text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from html import escape

from writing import ROOT

from canon import registry
from canon.inspect import summary
from canon.inspect.stages import Stage
from canon.registry import System
from canon.registry.recipes import RecipeRecord, recipe_records

FOLDER = ROOT / "docs" / "systems" / "images"
_INK, _FAINT, _PALE = "#111827", "#4b5563", "#d1d5db"
_MOST_STAGES, _MOST_SCORES, _MOST_PANELS = 12, 6, 2
_ROW, _LEFT = 30, 400  # pixels of a stage's height; of the stages' width
_NARROWEST = 460  # pixels of a figure
_PANEL, _HIGH = 300, 130  # pixels of a panel's width and height
Band = Sequence[Sequence[float]]  # step, low, high


def figure(system: System) -> str:
    """The SVG of a system."""
    record = _record(system)
    description = summary.describe(record.system)
    stages = [stage for stage in description.stages if stage.parameters]
    curve: Mapping[str, Band] = record.settings.get("expect", {}).get("curve", {})
    panels = dict([(name, band) for name, band in curve.items() if len(band) > 2][:_MOST_PANELS])
    left = _stages(stages, description.name) if stages else ([], 0)
    x = _LEFT + 30 if stages else 10
    right, y, said = [], 24, []
    for name, band in panels.items():
        right += _curve(name, band, x, y)
        said.append(f"{name} goes from {_range(band[0][1:])} at step {band[0][0]:g} to {_range(band[-1][1:])}")
        y += _HIGH + 52
    for name, bounds in list(record.expected.items())[:_MOST_SCORES]:
        right += _score(name, bounds, x, y)
        y += 18
    width, height = max(x + _PANEL + 20, _NARROWEST), max(left[1], y) + 26
    parts = [f"the {len(stages)} stages of {description.name} with their parameters"] if stages else []
    parts += [f"expected of {record.name}: {text}" for text in said]
    if record.expected and not panels:
        scores = list(record.expected.items())[:_MOST_SCORES]
        parts.append(f"{record.name} reaches " + ", ".join(f"{key} {_range(bounds)}" for key, bounds in scores))
    alt = f"{system.title}: {'; '.join(parts)}"
    sources = [f"canon train {record.name}: ranges that seeds stay in"] if panels or record.expected else []
    source = "; ".join(sources + ([f"canon describe {record.system}"] if stages else []))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" role="img">',
            f"<title>{escape(alt)}</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *left[0],
            *right,
            _text(10, height - 8, source, size=10, fill=_FAINT),
            "</svg>\n",
        ]
    )


def _record(system: System) -> RecipeRecord:
    """The system's own recipe; one with a curve if that has none."""
    ours = [record for record in recipe_records() if registry.find(record.system)[0].name == system.name]
    return max(ours, key=lambda record: ("curve" in record.settings.get("expect", {}), record.name == system.recipe))


def _stages(stages: Sequence[Stage], name: str) -> tuple[list[str], int]:
    """A box for each stage, top to bottom, with a bar for its share of the parameters; and the height of all."""
    total = sum(stage.parameters for stage in stages) or 1
    kept: list[Stage | int] = list(stages)
    if len(stages) > _MOST_STAGES:
        first, last = _MOST_STAGES // 2, _MOST_STAGES - _MOST_STAGES // 2 - 1
        kept = [*stages[:first], len(stages) - first - last, *stages[-last:]]
    lines = [_text(10, 20, f"{name}: {total:,} parameters", size=13, weight="bold")]
    y = 32
    for i, stage in enumerate(kept):
        if i:
            lines.append(f'<path d="M130 {y - 8}v6m-4 -4l4 5l4 -5" stroke="{_INK}" fill="none"/>')
        if isinstance(stage, int):
            lines.append(_text(110, y + 14, f"… {stage} more …", size=11))
        else:
            shape = "×".join(map(str, (stage.output_shape or ())[1:]))
            lines.append(f'<rect x="10" y="{y}" width="240" height="{_ROW - 8}" fill="none" stroke="{_INK}"/>')
            lines.append(_text(16, y + 15, _short(stage.name, 15), size=11, weight="bold"))
            lines.append(_text(244, y + 15, _short(stage.kind, 22), size=10, anchor="end", fill=_FAINT))
            share = 80 * stage.parameters / total
            lines.append(f'<rect x="258" y="{y + 5}" width="{share:.1f}" height="12" fill="{_INK}"/>')
            lines.append(_text(262 + share, y + 15, shape, size=10))
        y += _ROW
    return lines, y


def _curve(name: str, band: Band, x: int, y: int) -> list[str]:
    """A panel: the expected range of a number over the steps, and its middle."""
    steps = [point[0] for point in band]
    low, high = min(point[1] for point in band), max(point[2] for point in band)
    room, start = (high - low) or 1.0, min(steps)
    length = (max(steps) - start) or 1

    def at(step: float, value: float) -> str:
        return f"{x + 40 + (_PANEL - 50) * (step - start) / length:.1f},{y + 8 + _HIGH * (high - value) / room:.1f}"

    around = [at(step, top) for step, _, top in band] + [at(step, bottom) for step, bottom, _ in reversed(band)]
    middle = [at(step, (bottom + top) / 2) for step, bottom, top in band]
    bottom_y = y + 8 + _HIGH
    return [
        _text(x, y - 4, name, size=13, weight="bold"),
        f'<path d="M{x + 40} {y + 8}V{bottom_y}H{x + _PANEL - 10}" stroke="{_INK}" fill="none"/>',
        f'<polygon points="{" ".join(around)}" fill="{_PALE}" stroke="{_FAINT}" stroke-width="0.5"/>',
        f'<polyline points="{" ".join(middle)}" fill="none" stroke="{_INK}" stroke-width="2"/>',
        _text(x + 36, y + 16, f"{high:.3g}", size=10, anchor="end"),
        _text(x + 36, bottom_y, f"{low:.3g}", size=10, anchor="end"),
        _text(x + 40, bottom_y + 14, f"step {start:,g}", size=10),
        _text(x + _PANEL - 10, bottom_y + 14, f"{max(steps):,g}", size=10, anchor="end"),
    ]


def _score(name: str, bounds: Sequence[float], x: int, y: int) -> list[str]:
    """A line: the expected range of a score, and where it lies between 0 and 1."""
    low, high = bounds
    line = [_text(x, y, f"{name.replace('test/', 'test ')}: {_range(bounds)}", size=11)]
    if 0 <= low <= high <= 1:
        start, length = x + 220, _PANEL - 230
        line.append(f'<path d="M{start} {y - 4}h{length}m0 -4v8M{start} {y - 8}v8" stroke="{_FAINT}" fill="none"/>')
        width = max(3.0, length * (high - low))
        line.append(f'<rect x="{start + length * low:.1f}" y="{y - 8}" width="{width:.1f}" height="8" fill="{_INK}"/>')
    return line


def _text(x: float, y: float, text: str, size: int, fill: str = _INK, weight: str = "", anchor: str = "") -> str:
    more = "".join(f' {key}="{value}"' for key, value in (("font-weight", weight), ("text-anchor", anchor)) if value)
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}"{more}>{escape(text)}</text>'


def _range(bounds: Sequence[float]) -> str:
    low, high = bounds
    return f"{low:.3g} to {high:.3g}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="systems; all of them where none is named")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a figure is out of date")
    arguments = parser.parse_args()
    old = []
    for system in registry.SYSTEMS:
        if arguments.names and system.name not in arguments.names:
            continue
        path, new = FOLDER / f"{system.name}.svg", figure(system)
        if not path.is_file() or path.read_text(encoding="utf-8") != new:
            old.append(path.name)
            if not arguments.check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new, encoding="utf-8")
    print(f"{'Out of date' if arguments.check else 'Drawn'}: {', '.join(old) or 'none'}.")
    sys.exit(1 if arguments.check and old else 0)


if __name__ == "__main__":
    main()
