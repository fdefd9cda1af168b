"""Charts against the numbers they draw, read back out of the SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from canon.report.chart import Axis, Band, Chart, Line

STEPS = np.arange(10.0, 60.0, 10.0)


def parts(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg())


def places(path: str) -> np.ndarray:
    return np.array(re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path), dtype=float)


def ticks(root: ElementTree.Element, anchor: str, place: str) -> dict[float, float]:
    """The numbers at an axis by where they stand."""
    named = [
        (t.text, t.get(place)) for t in root.iter("text") if t.get("text-anchor") == anchor and not t.get("font-size")
    ]
    return {float(text.replace(",", "").replace("−", "-")): float(at) for text, at in named if text and at}


@pytest.mark.parametrize("log", [False, True])
def test_a_line_is_where_its_numbers_are(log: bool) -> None:
    """Places measured by the axes' own numbers: two ticks of each decide the scale."""
    values = np.array([8.0, 3.0, 0.5, 0.09, 0.02])
    root = parts(Chart("Loss", lines=[Line("train/loss", STEPS, values)], log=log))
    (line,) = (path for path in root.iter("path") if path.get("stroke-width") == "1.8")
    drawn = places(line.attrib["d"])
    for axis, (known, at) in enumerate(((STEPS, ticks(root, "middle", "x")), (values, ticks(root, "end", "y")))):
        scaled = np.log10 if log and axis else np.asarray
        (first, a), *_, (last, b) = at.items()
        slope = (b - a) / (scaled(last) - scaled(first))
        shift = 2.9 if axis else 0.0  # the foot of the letters is below the middle of the number
        np.testing.assert_allclose(drawn[:, axis], a - shift + slope * (scaled(known) - scaled(first)), atol=0.25)


def test_what_cannot_be_drawn_is_left_out_and_the_rest_stays() -> None:
    values = np.array([1.0, np.nan, 0.5, np.inf, 0.25])
    root = parts(Chart("Loss", lines=[Line("a", STEPS, values)], levels={"nothing": 0.0}, log=True))
    (line,) = (
        path for path in root.iter("path") if path.get("stroke-width") == "1.8" and "M0 0" not in path.attrib["d"]
    )
    assert len(places(line.attrib["d"])) == 3
    parts(Chart("Empty", lines=[Line("a", STEPS[:0], STEPS[:0])]))
    parts(Chart("Constant", lines=[Line("a", STEPS, 0 * STEPS)]))


def test_a_reader_without_colours_or_eyes() -> None:
    """Every line has dashes of its own, and the text alternative their numbers; names cannot become markup."""
    lines = [Line(f"<{name}>", STEPS, STEPS * factor) for name, factor in (("a", 1), ("b", 2), ("c", 3))]
    band = Band("expected", STEPS, STEPS - 1, STEPS + 1)
    root = parts(Chart("Two & three", lines=lines, bands=[band], levels={"a guess": 7.0}))
    drawn = [
        path for path in root.iter("path") if path.get("stroke-width") == "1.8" and len(places(path.attrib["d"])) > 1
    ]
    assert len({path.get("stroke-dasharray") for path in drawn}) == len({path.get("stroke") for path in drawn}) == 3
    said = root.attrib["aria-label"]
    assert said.startswith("Two & three: <a> from 10 at 10 to 50 at 50; <b> from 20 at 10") and "a guess at 7" in said


def test_more_points_than_can_be_seen_keep_their_extremes() -> None:
    steps = np.arange(100_000.0)
    values = np.sin(steps) / 10
    values[31_415], values[27_182] = 9.0, -9.0
    chart = Chart("Long", lines=[Line("a", steps, values)])
    (line,) = (path for path in parts(chart).iter("path") if path.get("stroke-width") == "1.8")
    drawn = places(line.attrib["d"])
    assert len(drawn) < 5_000 and (np.diff(drawn[:, 0]) >= 0).all()
    top, bottom = drawn[:, 1].argmin(), drawn[:, 1].argmax()
    assert np.ptp(drawn[:, 1]) == pytest.approx((209 - 34 - 24) / 1.1, 0.01)
    assert drawn[top, 0] > drawn[bottom, 0]


@pytest.mark.parametrize(
    ("low", "high", "log", "texts"),
    [
        (0.0, 3000.0, False, ["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"]),
        (-1.0, 1.0, False, ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
        (0.0, 4e-5, False, ["0", "10⁻⁵", "2×10⁻⁵", "3×10⁻⁵", "4×10⁻⁵"]),
        (-4.0, 1.0, True, ["10⁻⁴", "10⁻³", "0.01", "0.1", "1", "10"]),
        (0.4, 1.9, True, ["5", "10", "20", "50"]),
        (0.35, 0.95, True, ["3", "4", "5", "6", "7", "8"]),
    ],
)
def test_round_numbers_stand_at_an_axis(low: float, high: float, log: bool, texts: list[str]) -> None:
    assert [text for _, text in Axis(low, high, log).ticks()] == texts
