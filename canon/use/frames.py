"""Pictures of an environment without a display: grids, the cart and frames of text are drawn here, others by their own
render()."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import CellGrid, grid_of
from canon.errors import CanonError, border
from canon.storage import write_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

_CELL, _WIDTH, _HEIGHT, _LETTER = 40, 300, 200, 16
_COLORS = {"H": "#93c5fd", "C": "#fca5a5", "G": "#86efac", "S": "#fde68a"}
_INK, _PAPER, _AGENT = "#1f2937", "#ffffff", "#dc2626"
_MILLISECONDS = {True: 220, False: 30}  # of a frame, by whether it is a grid's


def pillow() -> Any:
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise CanonError("Pictures need Pillow: pip install 'deepcanon[images]'.") from None
    return Image, ImageDraw


def draws(env: EnvironmentCopy) -> bool:
    """Whether canon draws it itself."""
    return grid_of(env) is not None or _is_cart(env)


def modes_of(env: EnvironmentCopy) -> tuple[str, ...]:
    """What its own render() can give, by gymnasium's names."""
    modes = env.env.unwrapped.metadata.get("render_modes", ())
    return tuple(modes) if isinstance(modes, list | tuple) else ()


def drawing_mode(env: EnvironmentCopy) -> str:
    """The render_mode that a copy must be made with to be painted; "" where canon draws it itself."""
    if draws(env):
        return ""
    modes = modes_of(env)
    return "ansi" if "ansi" in modes and "rgb_array" not in modes else "rgb_array"


def painter_of(env: EnvironmentCopy) -> Callable[[Any], Image]:
    """What draws an observation of this copy, which was made with its `drawing_mode`."""
    if (grid := grid_of(env)) is not None:
        return lambda state: _of_grid(grid, int(state))
    if _is_cart(env):
        return _of_cart
    if drawing_mode(env) == "ansi":
        return lambda _: _of_text(text_of(env))
    return lambda _: _by_itself(env)


def _is_cart(env: EnvironmentCopy) -> bool:
    return type(env.env).__name__ == "CartPoleEnv" and env.observation.shape == (4,)


def _rendered(env: EnvironmentCopy) -> Any:
    with border(env.name, "cannot draw itself"):
        return env.env.render()


def text_of(env: EnvironmentCopy) -> str:
    """The frame of a copy that was made with render_mode ansi."""
    return str(_rendered(env)).rstrip()


def _of_text(text: str) -> Image:
    image, pencil = pillow()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    left, top, right, bottom = pencil.Draw(image.new("1", (1, 1))).multiline_textbbox((0, 0), plain, font_size=_LETTER)
    size = (int(right - left) + 2 * _LETTER, int(bottom - top) + 2 * _LETTER)
    picture: Image = image.new("RGB", size, _PAPER)
    pencil.Draw(picture).multiline_text((_LETTER, _LETTER), plain, fill=_INK, font_size=_LETTER)
    return picture


def _by_itself(env: EnvironmentCopy) -> Image:
    image, _ = pillow()
    pixels = _rendered(env)
    if not (isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.dtype == np.uint8):
        raise CanonError(f"{env.name} cannot be recorded: its render() gives no array of pixels [height, width, 3].")
    drawn: Image = image.fromarray(pixels)
    return drawn


def _of_grid(grid: CellGrid, state: int) -> Image:
    image, pencil = pillow()
    picture: Image = image.new("RGB", (grid.cols * _CELL + 1, grid.rows * _CELL + 1), _PAPER)
    draw = pencil.Draw(picture)
    for place, letter in enumerate(grid.letters):
        row, col = divmod(place, grid.cols)
        box = (col * _CELL, row * _CELL, (col + 1) * _CELL, (row + 1) * _CELL)
        draw.rectangle(box, fill=_COLORS.get(letter, _PAPER), outline="#9ca3af")
        draw.text((box[0] + 5, box[1] + 3), letter, fill=_INK)
    row, col = divmod(state, grid.cols)
    x, y, inset = col * _CELL, row * _CELL, _CELL // 4
    draw.ellipse((x + inset, y + inset, x + _CELL - inset, y + _CELL - inset), fill=_AGENT, outline=_INK)
    return picture


def _of_cart(observation: np.ndarray) -> Image:
    """Position from −2.4 to 2.4, and the pole's angle from upright."""
    image, pencil = pillow()
    picture: Image = image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    draw = pencil.Draw(picture)
    x, y, length = _WIDTH / 2 + float(observation[0]) / 2.4 * _WIDTH / 2, 150, 100
    angle = float(observation[2])
    draw.line((0, y, _WIDTH, y), fill="#9ca3af")
    draw.rectangle((x - 22, y - 12, x + 22, y + 12), fill=_INK)
    draw.line((x, y - 12, x + length * math.sin(angle), y - 12 - length * math.cos(angle)), fill=_AGENT, width=7)
    return picture


def gif(frames: list[Image], is_grid: bool) -> bytes:
    """An animation that repeats."""
    image, _ = pillow()
    buffer = io.BytesIO()
    plain = [frame.quantize(32, dither=image.Dither.NONE) for frame in frames]
    pause = _MILLISECONDS[is_grid]
    plain[0].save(buffer, "GIF", save_all=True, append_images=plain[1:], duration=pause, loop=0, optimize=False)
    return buffer.getvalue()


def check_name(path: Path) -> None:
    """That a recording can have this name."""
    if path.suffix.lower() != ".gif":
        raise CanonError(f"{path}: episodes are recorded as .gif.")


def save_gif(path: Path, frames: list[Image], is_grid: bool) -> None:
    write_bytes(path, gif(frames, is_grid))
