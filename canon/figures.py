"""Figures in canon's style, without pyplot: no global state, no display, the same bytes each time.

matplotlib is imported inside, so that importing this costs nothing.
"""

from __future__ import annotations

import io
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canon.errors import CanonError
from canon.storage import write_bytes

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

COLORS = (
    *("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2"),
    *("#db2777", "#65a30d", "#475569", "#a16207", "#111827"),
)
INK, FAINT, GRID = "#1f2937", "#6b7280", "#e5e7eb"
_EAST = "\u2e80"  # from here on come the characters of Chinese, Japanese and Korean
_EASTERN = {
    *(f"{noto} {place}" for noto in ("Noto Sans CJK", "Noto Sans") for place in ("SC", "TC", "JP", "KR")),
    *("Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Arial Unicode MS"),
    *("Microsoft YaHei", "SimHei", "SimSun", "PingFang SC", "Hiragino Sans GB", "Heiti SC"),
    *("Yu Gothic", "MS Gothic", "Hiragino Sans", "IPAexGothic", "Malgun Gothic", "Apple SD Gothic Neo", "NanumGothic"),
}
FORMATS = (".png", ".svg", ".pdf")

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": "#9ca3af",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "svg.hashsalt": "canon",  # else ids, and so the bytes, differ from run to run
    "svg.fonttype": "none",  # text stays text
}


def style() -> AbstractContextManager[None]:
    """Canon's style while a `with` lasts: titles, legends and lines take theirs when they are drawn."""
    from cycler import cycler
    from matplotlib import rc_context

    return rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLORS)})


def new_figure(rows: int = 1, cols: int = 1, size: tuple[float, float] = (6.4, 4.0)) -> tuple[Figure, np.ndarray]:
    """A figure of `size` inches and its axes as an array [rows, cols]; draw on them inside `with style():`."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        return figure, figure.subplots(rows, cols, squeeze=False)


def legend(axes: Any) -> None:
    """What the lines are, beside the axes: it never covers them."""
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0, handlelength=1.6)


def to_svg(figure: Figure) -> str:
    """The figure as an <svg> element to stand inside a page."""
    text = _bytes(figure, "svg").decode()
    return text[text.index("<svg") :]


def to_png(figure: Figure) -> bytes:
    return _bytes(figure, "png")


def save(figure: Figure, path: str | Path) -> Path:
    """Writes the figure in the format that the path's ending names."""
    path = Path(path)
    write_bytes(path, render(figure, path))
    return path


def render(figure: Figure, path: Path) -> bytes:
    """The figure in the format that the path's ending names."""
    if path.suffix.lower() not in FORMATS:
        raise CanonError(f'{path}: a figure is written as {", ".join(FORMATS)}, not "{path.suffix}".')
    return _bytes(figure, path.suffix.lower()[1:])


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with style(), warnings.catch_warnings():
        # An SVG keeps its text, which a browser draws in a font that has it.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        _take_as_text(figure)
        figure.savefig(buffer, format=kind, dpi=160, metadata=dateless)
    return buffer.getvalue()


def _take_as_text(figure: Figure) -> None:
    """A dollar sign in a name, a title or a token begins no formula: only the powers of ten at an axis are formulas.
    Chinese, Japanese and Korean are drawn in a font of this machine that has them, where there is one."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    sides = [side for axes in figure.axes for side in (axes.xaxis, axes.yaxis)]
    powers = [side for side in sides if isinstance(side.get_major_formatter(), LogFormatter)]
    formulas = {label for side in powers for label in side.get_ticklabels(which="both")}
    for text in figure.findobj(Text):
        text.set_parse_math(text in formulas)
        if max(text.get_text(), default="") >= _EAST:
            text.set_fontfamily(["sans-serif", *sorted({font.name for font in fontManager.ttflist} & _EASTERN)])
