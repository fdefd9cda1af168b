"""Pictures of an environment without a display: canon draws grids, classic control and frames of text, others draw
themselves by their own render()."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import CellGrid, grid_of
from canon.errors import CanonError, border
from canon.storage import write_bytes
from canon.use.sketches import AGENT, INK, PAPER, pillow, sketch_of, terminal

if TYPE_CHECKING:
    from PIL.Image import Image

_CELL = 40
_COLORS = {"H": "#93c5fd", "C": "#fca5a5", "G": "#86efac", "S": "#fde68a"}
_SLOW, _FAST = 220, 30  # milliseconds of a frame


def draws(env: EnvironmentCopy) -> bool:
    """Whether canon draws it itself."""
    return grid_of(env) is not None or _sketch_of(env) is not None


def modes_of(env: EnvironmentCopy) -> tuple[str, ...]:
    """What its own render() can give, by gymnasium's names."""
    modes = env.env.unwrapped.metadata.get("render_modes", ())
    return tuple(modes) if isinstance(modes, list | tuple) else ()


def drawing_mode(env: EnvironmentCopy) -> str:
    """The render_mode that a copy must be made with to be painted; "" where canon draws it itself."""
    if draws(env):
        return ""
    return "ansi" if "ansi" in modes_of(env) else "rgb_array"


def painter_of(env: EnvironmentCopy) -> Callable[[Any], Image]:
    """What draws an observation of this copy, which was made with its `drawing_mode`."""
    if (grid := grid_of(env)) is not None:
        return lambda state: _of_grid(grid, int(state))
    if (sketch := _sketch_of(env)) is not None:
        return sketch
    if drawing_mode(env) == "ansi":
        return lambda _: terminal(text_of(env))
    return lambda _: _by_itself(env)


def _sketch_of(env: EnvironmentCopy) -> Callable[[Any], Image] | None:
    return sketch_of(env.env, env.observation.shape)


def _rendered(env: EnvironmentCopy) -> Any:
    with border(env.name, "cannot draw itself"):
        return env.env.render()


def text_of(env: EnvironmentCopy) -> str:
    """The frame of a copy that was made with render_mode ansi."""
    return str(_rendered(env)).rstrip()


def _by_itself(env: EnvironmentCopy) -> Image:
    image, _ = pillow()
    pixels = _rendered(env)
    if not (isinstance(pixels, np.ndarray) and pixels.ndim == 3 and pixels.dtype == np.uint8):
        raise CanonError(f"{env.name} cannot be recorded: its render() gives no array of pixels [height, width, 3].")
    drawn: Image = image.fromarray(pixels)
    return drawn


def _of_grid(grid: CellGrid, state: int) -> Image:
    image, pencil = pillow()
    picture: Image = image.new("RGB", (grid.cols * _CELL + 1, grid.rows * _CELL + 1), PAPER)
    draw = pencil.Draw(picture)
    for place, letter in enumerate(grid.letters):
        row, col = divmod(place, grid.cols)
        box = (col * _CELL, row * _CELL, (col + 1) * _CELL, (row + 1) * _CELL)
        draw.rectangle(box, fill=_COLORS.get(letter, PAPER), outline="#9ca3af")
        draw.text((box[0] + 5, box[1] + 3), letter, fill=INK)
    row, col = divmod(state, grid.cols)
    x, y, inset = col * _CELL, row * _CELL, _CELL // 4
    draw.ellipse((x + inset, y + inset, x + _CELL - inset, y + _CELL - inset), fill=AGENT, outline=INK)
    return picture


def pause_of(env: EnvironmentCopy) -> int:
    """How long a frame is shown: grids and text, which jump, for longer than what moves smoothly."""
    return _SLOW if grid_of(env) is not None or drawing_mode(env) == "ansi" else _FAST


def gif(frames: list[Image], pause: int) -> bytes:
    """An animation that repeats; a frame that is smaller than others is filled up."""
    image, _ = pillow()
    buffer = io.BytesIO()
    size = tuple(max(frame.size[side] for frame in frames) for side in (0, 1))
    whole = [frame if frame.size == size else _filled(frame, size) for frame in frames]
    plain = [frame.quantize(32, dither=image.Dither.NONE) for frame in whole]
    plain[0].save(buffer, "GIF", save_all=True, append_images=plain[1:], duration=pause, loop=0, optimize=False)
    return buffer.getvalue()


def _filled(frame: Image, size: tuple[int, ...]) -> Image:
    image, _ = pillow()
    picture: Image = image.new("RGB", size, PAPER)
    picture.paste(frame)
    return picture


def check_name(path: Path) -> None:
    """That a recording can have this name."""
    if path.suffix.lower() != ".gif":
        raise CanonError(f"{path}: episodes are recorded as .gif.")


def save_gif(path: Path, frames: list[Image], pause: int) -> None:
    write_bytes(path, gif(frames, pause))
