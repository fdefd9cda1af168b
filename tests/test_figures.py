"""House figures: the same bytes each time, fit for a page, in the format that the name says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from canon import figures
from canon.errors import CanonError

DRAW = """
from canon import figures
figure, axes = figures.new_figure(1, 2)
with figures.style():
    axes[0, 1].plot([1, 2, 3], label="a line")
    axes[0, 1].legend()
    axes[0, 1].set_title("Title")
"""


def draw():
    names: dict = {}
    exec(DRAW, names)
    return names["figure"], names["axes"]


def test_svg_is_one_inline_element_and_the_same_in_another_process() -> None:
    text = figures.to_svg(draw()[0])
    assert text.startswith("<svg") and ElementTree.fromstring(text).tag.endswith("svg")
    assert ">Title</text>" in text  # text stays text
    other = subprocess.run(
        [sys.executable, "-c", DRAW + "\nimport sys; sys.stdout.buffer.write(figures.to_svg(figure).encode())"],
        capture_output=True,
        check=True,
    )
    assert other.stdout.decode() == text


def test_axes_are_an_array_with_the_house_colours_and_nothing_global_changes() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    _, axes = draw()
    assert axes.shape == (1, 2)
    assert axes[0, 1].lines[0].get_color() == figures.COLORS[0]
    assert axes[0, 1].get_title(loc="left") == "Title"
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")])
def test_the_ending_decides_the_format(tmp_path: Path, ending: str, start: bytes) -> None:
    first, second = (figures.save(draw()[0], tmp_path / f"new/{n}.{ending}").read_bytes() for n in range(2))
    assert first.startswith(start) and first == second


def test_another_ending_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r'written as \.png, \.svg, \.pdf, not "\.gif"'):
        figures.save(draw()[0], tmp_path / "a.gif")


@pytest.mark.parametrize("name", ["a$b$", "$", r"$\frac{$", r"\$", "a_b^c", "%", "a\nb", "$\\mathdefault{x"])
def test_text_is_text_and_only_powers_of_ten_are_formulas(name: str) -> None:
    figure, axes = figures.new_figure()
    with figures.style():
        axes[0, 0].plot([1, 2], [1e-3, 1e3], label=name)
        axes[0, 0].set(yscale="log", title=name, xlabel=name)
        axes[0, 0].set_xticks([1, 2], [name, name])
        axes[0, 0].legend()
    text = ElementTree.fromstring(figures.to_svg(figure))
    words = ["".join(one.itertext()).strip() for one in text.iter("{http://www.w3.org/2000/svg}text")]
    assert [*map(words.count, name.split("\n"))] == [5] * len(name.split("\n"))
    assert not any("mathdefault" in word for word in words if word != name)
    assert figures.to_png(figure) == figures.to_png(figure)


def test_chinese_names_are_drawn_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    figure, axes = draw()
    axes[0, 0].set_title("体育")
    assert ">体育</text>" in figures.to_svg(figure) and figures.to_png(figure)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
