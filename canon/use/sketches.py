"""Drawings of what an environment shows: the frames of a terminal, and gymnasium's classic control."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.errors import CanonError

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH, HEIGHT = 300, 200
INK, PAPER, AGENT = "#1f2937", "#ffffff", "#dc2626"
_LINE = "#9ca3af"
_LETTER, _WIDE, _HIGH = 16, 11, 20  # of a letter: its size, and its cell
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m|(.)", re.DOTALL)
_COLORS = (INK, AGENT, "#16a34a", "#facc15", "#2563eb", "#c026d3", "#0891b2", "#e5e7eb")  # of a terminal, from black on


def pillow() -> Any:
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise CanonError("Pictures need Pillow: pip install 'deepcanon[images]'.") from None
    return Image, ImageDraw


def terminal(text: str) -> Image:
    """Letters in cells, with the colours that escape sequences set."""
    image, pencil = pillow()
    lines = [_ESCAPE.findall(line) for line in text.split("\n")]
    cols = max(sum(bool(letter) for _, letter in line) for line in lines)
    picture: Image = image.new("RGB", (cols * _WIDE + 2 * _LETTER, len(lines) * _HIGH + 2 * _LETTER), PAPER)
    draw, ink, paper = pencil.Draw(picture), INK, PAPER
    for row, line in enumerate(lines):
        x, y = _LETTER, _LETTER + row * _HIGH
        for codes, letter in line:
            if not letter:
                ink, paper = _painted(codes, ink, paper)
                continue
            draw.rectangle((x, y, x + _WIDE - 1, y + _HIGH - 1), fill=paper)
            draw.text((x + _WIDE / 2, y + _HIGH / 2), letter, fill=ink, font_size=_LETTER, anchor="mm")
            x += _WIDE
    return picture


def _painted(codes: str, ink: str, paper: str) -> tuple[str, str]:
    """The colours of letters and of their cells after a sequence."""
    for code in (int(one or 0) for one in codes.split(";")):
        if code == 0:
            ink, paper = INK, PAPER
        elif 30 <= code < 38:
            ink = _COLORS[code - 30]
        elif 40 <= code < 48:
            paper = _COLORS[code - 40]
    return ink, paper


def _cart(draw: Any, observation: np.ndarray) -> None:
    """Position from −2.4 to 2.4, and the pole's angle from upright."""
    x, y, length = WIDTH / 2 + float(observation[0]) / 2.4 * WIDTH / 2, 150, 100
    angle = float(observation[2])
    draw.line((0, y, WIDTH, y), fill=_LINE)
    draw.rectangle((x - 22, y - 12, x + 22, y + 12), fill=INK)
    draw.line((x, y - 12, x + length * math.sin(angle), y - 12 - length * math.cos(angle)), fill=AGENT, width=7)


def _acrobot(draw: Any, observation: np.ndarray) -> None:
    """Cosine and sine of the first link's angle from hanging down, and of the second's from the first; the line is the
    height that the free end is to reach, one link above the joint."""
    first = math.atan2(observation[1], observation[0])
    both = first + math.atan2(observation[3], observation[2])
    x, y, length = WIDTH / 2, HEIGHT / 2, 45
    elbow = (x + length * math.sin(first), y + length * math.cos(first))
    end = (elbow[0] + length * math.sin(both), elbow[1] + length * math.cos(both))
    draw.line((0, y - length, WIDTH, y - length), fill=_LINE)
    draw.line((x, y, *elbow), fill=INK, width=7)
    draw.line((*elbow, *end), fill=AGENT, width=7)
    draw.ellipse((x - 5, y - 5, x + 5, y + 5), fill=_LINE)


def _hill(draw: Any, observation: np.ndarray) -> None:
    """Position from −1.2 to 0.6 on the hill sin(3x); the flag is at 0.5."""

    def at(place: float) -> tuple[float, float]:
        return (place + 1.2) / 1.8 * WIDTH, HEIGHT - 30 - (math.sin(3 * place) + 1) / 2 * (HEIGHT - 70)

    draw.line([at(-1.2 + 1.8 * step / 100) for step in range(101)], fill=_LINE, width=2)
    x, y = at(0.5)
    draw.line((x, y, x, y - 25), fill=INK, width=2)
    draw.polygon((x, y - 25, x + 14, y - 20, x, y - 15), fill="#16a34a")
    x, y = at(float(observation[0]))
    draw.ellipse((x - 9, y - 18, x + 9, y), fill=AGENT, outline=INK)


_SKETCHES: dict[tuple[str, tuple[int, ...]], Callable[[Any, np.ndarray], None]] = {
    ("CartPoleEnv", (4,)): _cart,
    ("AcrobotEnv", (6,)): _acrobot,
    ("MountainCarEnv", (2,)): _hill,
}


def sketch_of(environment: Any, shape: tuple[int, ...]) -> Callable[[np.ndarray], Image] | None:
    """What draws an observation of one of gymnasium's environments of classic control; None for any other."""
    sketch = _SKETCHES.get((type(environment).__name__, shape))
    if sketch is None:
        return None

    def drawn(observation: np.ndarray) -> Image:
        image, pencil = pillow()
        picture: Image = image.new("RGB", (WIDTH, HEIGHT), PAPER)
        sketch(pencil.Draw(picture), observation)
        return picture

    return drawn
