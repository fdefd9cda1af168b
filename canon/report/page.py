"""The building blocks of a report: one self-contained page, light or dark as the reader's system is.

A page fetches nothing: the style sheet and the figures are inside. The colours of the SVG figures become CSS variables,
so that they follow the page's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from canon import figures
from canon.report.chart import Chart
from canon.storage import write_text

NO_FIGURES = "Figures like this need matplotlib: pip install 'deepcanon[plots]'."

_STYLE = Path(__file__).with_name("style.css")
# Of figures.COLORS, in its order.
_HUES = ("blue", "red", "green", "amber", "violet", "cyan", "pink", "lime", "slate", "brown", "ink")
_INKS = {
    figures.INK: "var(--ink)",
    figures.FAINT: "var(--faint)",
    figures.GRID: "var(--grid)",
    "#9ca3af": "var(--axis)",
    "#ffffff": "none",
    **dict(zip(figures.COLORS, map("var(--{})".format, _HUES), strict=True)),
}


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def write_page(path: Path, render: Callable[[Any, bool], str], facts: Mapping[str, Any]) -> Path:
    """Writes what `render` draws of the facts; what is missing without matplotlib is printed."""
    text = render(facts, can_draw())
    if note(NO_FIGURES) in text:
        print(f"{path.name} is written without some of its figures. {NO_FIGURES}", file=sys.stderr)
    write_text(path, text)
    return path


def document(title: str, kind: str, about: str, head: str, sections: Mapping[str, str]) -> str:
    """The whole page; all but `title` and `kind` are HTML, and an empty section is left out."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE.read_text(encoding='utf-8')}</style></head><body>",
            f'<header><div class="kind">{escape(kind)}</div><h1>{escape(title)}</h1>',
            f'<p class="faint">{about}</p></header>',
            head,
            *(f"<section><h2>{escape(name)}</h2>{part}</section>" for name, part in sections.items() if part),
            "</body></html>\n",
        )
    )


def card(label: str, value: str, about: str = "") -> str:
    """`value` and `about` are HTML."""
    return (
        f'<div class="card"><div class="label">{escape(label)}</div><div class="value">{value}</div>'
        f'<div class="about">{about}</div></div>'
    )


def cards(items: Iterable[str]) -> str:
    return f'<div class="cards">{"".join(items)}</div>'


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of plain values under their keys; numbers to the right. A value of class Html is not escaped."""
    if not rows:
        return ""
    names = list(rows[0])
    right = {name for name in names if any(isinstance(row[name], int | float | Right) for row in rows)}
    mark = {name: ' class="num"' if name in right else "" for name in names}
    head = "".join(f"<th{mark[name]}>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td{mark[n]}>{cell(row[n])}</td>" for n in names) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def pairs(items: Mapping[str, Any]) -> str:
    """Names and values, one line each; "" of none."""
    if not items:
        return ""
    body = "".join(f"<tr><th>{escape(str(name))}</th><td>{cell(value)}</td></tr>" for name, value in items.items())
    return f'<div class="scroll"><table class="pairs"><tbody>{body}</tbody></table></div>'


class Html(str):
    """Text that is HTML already."""


class Right(Html):
    """HTML in a column of numbers."""


def cell(value: Any) -> str:
    if isinstance(value, Html):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return escape("; ".join(f"{name}: {cell(item)}" for name, item in value.items()))
    return escape("–" if value is None else str(value))


def code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def note(text: str, kind: str = "note") -> str:
    return f'<p class="{kind}">{escape(text)}</p>'


def drawing(figure: figures.Figure) -> str:
    """The figure as part of a page, without the names and addresses that only a file needs."""
    svg = figures.to_svg(figure)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"|(?<=<g) id="[^"]*"', "", svg)
    return _inked(svg.replace("xlink:href=", "href="))


def charts(several: Iterable[Chart]) -> str:
    return side_by_side(_inked(chart.svg()) for chart in several)


def _inked(svg: str) -> str:
    """The figure in the page's colours."""
    for ink, variable in _INKS.items():
        svg = svg.replace(ink, variable)
    return f"<figure>{svg}</figure>"


def picture(png: str, caption: str) -> str:
    """A PNG in base64 inside the page, with its caption."""
    return (
        f'<figure><img src="data:image/png;base64,{png}" alt="{escape(caption)}" style="max-width: 100%">'
        f'<figcaption class="note">{escape(caption)}</figcaption></figure>'
    )


def side_by_side(parts: Iterable[str]) -> str:
    inside = "".join(parts)
    return f'<div class="figures">{inside}</div>' if inside else ""


def drawings(several: Iterable[figures.Figure]) -> str:
    return side_by_side(map(drawing, several))


def number(value: float) -> str:
    """A whole number, or one to four decimals or figures."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    digits = ",.1f" if 1000 <= abs(value) < 1e12 else ".4f" if 0.001 <= abs(value) < 1000 or value == 0 else ".4g"
    return f"{value:{digits}}".replace("-", "−")


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
