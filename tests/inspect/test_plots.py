"""The pictures show what the parts compute: all of them, with the right numbers."""

from __future__ import annotations

import numpy as np
import pytest

from canon.inspect import plots
from canon.nn.activations import ACTIVATIONS
from canon.optim import OPTIMIZERS


def test_every_activation_is_drawn_with_its_derivative() -> None:
    assert {name for _, name, _ in plots._ACTIVATIONS} == set(ACTIVATIONS)
    figure = plots.activations_figure()
    titled = [axis for axis in figure.axes if axis.get_title(loc="left")]
    assert len(titled) == len(ACTIVATIONS)
    for axis in titled:
        value, derivative = (line for line in axis.lines if len(line.get_xdata()) > 2)
        x, y = value.get_data()
        numerical = np.gradient(y, x)  # by differences, against the drawn autograd
        away = np.abs(x) > 0.05
        np.testing.assert_allclose(derivative.get_ydata()[away], numerical[away], atol=0.02)


@pytest.mark.parametrize("surface", plots.SURFACES, ids=lambda surface: surface.title)
def test_minima_and_starts_are_where_they_are_said_to_be(surface: plots.Surface) -> None:
    for x, y in surface.minima:
        assert surface.value(x, y) == pytest.approx(surface.minimum)
        around = [surface.value(x + dx, y + dy) for dx in (-0.01, 0.01) for dy in (-0.01, 0.01)]
        assert min(around) > surface.minimum
    left, right, low, high = surface.window
    assert left < surface.start[0] < right and low < surface.start[1] < high


def test_every_optimizer_is_drawn_and_gets_near_a_minimum() -> None:
    """All 11 paths on all 3 surfaces end within 1/50 of the way up from the minimum to the start."""
    assert {name for _, name, _, _ in plots._RUNS} == set(OPTIMIZERS)
    figure = plots.optimizers_figure()
    for column, surface in enumerate(plots.SURFACES):
        lines = figure.axes[3 + column].lines
        assert len(lines) == len(plots._RUNS)
        height = surface.value(*surface.start) - surface.minimum
        for line in lines:
            assert line.get_ydata()[0] == pytest.approx(height)
            assert line.get_ydata()[-1] < height / 50, (surface.title, line.get_label())
