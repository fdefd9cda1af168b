"""Pictures of the parts themselves: activations with their derivatives, optimisers on three surfaces.

Surfaces: a ravine ½(x²/20 + y²), a saddle x² − y² + y⁴/4 (minima −1 at y = ±√2) and Beale's function (Beale 1958; its
minimum is 0 at (3, ½)). Every optimiser starts at the same place, at a rate that suits it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from canon import figures
from canon.nn.activations import activation
from canon.optim import OPTIMIZERS, create

# title, name, settings
_ACTIVATIONS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("identity", "identity", {}),
    ("sigmoid", "sigmoid", {}),
    ("tanh", "tanh", {}),
    ("softmax, first of (x, 0, 0)", "softmax", {}),
    ("ReLU", "relu", {}),
    ("Leaky ReLU, α = 0.1", "leaky-relu", {"alpha": 0.1}),
    ("ELU, α = 1", "elu", {}),
    ("SELU", "selu", {}),
    ("GELU, exact", "gelu", {}),
    ("GELU, tanh form", "gelu-tanh", {}),
    ("GELU, sigmoid form", "gelu-sigmoid", {}),
)


def activations_figure() -> figures.Figure:
    """Each activation and its derivative, by autograd, over [−4, 4]."""
    figure, axes = figures.new_figure(3, 4, (11, 7.2))
    with figures.style():
        for axis, (title, name, settings) in zip(axes.flat, _ACTIVATIONS, strict=False):
            x, y, slope = activation_curve(name, **settings)
            axis.axhline(0, color=figures.FAINT, lw=0.6)
            axis.axvline(0, color=figures.FAINT, lw=0.6)
            axis.plot(x, y, lw=2.2, label="value")
            axis.plot(x, slope, lw=1.5, ls=(0, (4, 2)), label="derivative")
            axis.set(title=title, xlim=(-4, 4), ylim=(-2, 3), xticks=range(-4, 5, 2), yticks=range(-1, 4))
        axes[-1, -1].axis("off")
        axes[-1, -1].legend(*axes[0, 0].get_legend_handles_labels(), loc="center", fontsize=11)
    return figure


def activation_curve(name: str, **settings: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, value and derivative; for softmax the first of (x, 0, 0)."""
    # An even number of points, so that none sits on the kink at 0, where a derivative would be a single stray value.
    x = torch.linspace(-4, 4, 400, dtype=torch.float64, requires_grad=True)
    inputs = torch.stack([x, torch.zeros_like(x), torch.zeros_like(x)], -1) if name == "softmax" else x
    y = activation(name, **settings)(inputs)
    y = y[:, 0] if name == "softmax" else y
    (slope,) = torch.autograd.grad(y.sum(), x)
    return x.detach().numpy(), y.detach().numpy(), slope.numpy()


class Surface(NamedTuple):
    """A function of the plane to be minimised."""

    title: str
    value: Callable[[Any, Any], Any]
    minimum: float
    minima: tuple[tuple[float, float], ...]
    start: tuple[float, float]
    window: tuple[float, float, float, float]  # x from, to, y from, to
    steps: int


def _beale(x: Any, y: Any) -> Any:
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2


SURFACES = (
    Surface("Ravine", lambda x, y: 0.5 * (x**2 / 20 + y**2), 0.0, ((0, 0),), (-9, 2.5), (-10, 3, -3.2, 3.2), 200),
    Surface(
        "Saddle",
        lambda x, y: x**2 - y**2 + y**4 / 4,
        -1.0,
        ((0, 2**0.5), (0, -(2**0.5))),
        (1.3, 0.01),
        (-1.0, 1.6, -0.6, 2.0),
        200,
    ),
    Surface("Beale", _beale, 0.0, ((3, 0.5),), (1.0, 1.5), (-0.4, 4.2, -1.4, 1.9), 400),
)

_FLOOR = 1e-6  # where the curves are cut off

# label, optimiser, settings, its rate on each surface
_RUNS: tuple[tuple[str, str, dict[str, Any], tuple[float, float, float]], ...] = (
    ("sgd", "sgd", {}, (1.7, 0.05, 0.01)),
    ("momentum", "sgd", {"momentum": 0.9}, (0.2, 0.02, 0.0015)),
    ("nesterov", "sgd", {"momentum": 0.9, "nesterov": True}, (0.2, 0.02, 0.0015)),
    ("adagrad", "adagrad", {}, (1.5, 0.3, 0.4)),
    ("adadelta", "adadelta", {}, (30.0, 10.0, 10.0)),
    ("rmsprop", "rmsprop", {}, (0.1, 0.02, 0.02)),
    ("adam", "adam", {}, (0.3, 0.05, 0.05)),
    ("nadam", "nadam", {}, (0.3, 0.05, 0.05)),
    ("adamw", "adamw", {}, (0.2, 0.03, 0.03)),
    ("lamb", "lamb", {}, (0.05, 0.03, 0.01)),
    ("adam-then-sgd", "adam-then-sgd", {"switch_step": 40, "sgd_lr": 0.01, "momentum": 0.5}, (0.3, 0.05, 0.05)),
)


def trajectory(surface: Surface, name: str, lr: float, **settings: Any) -> np.ndarray:
    """The places [steps + 1, 2] that an optimiser visits from the surface's start."""
    place = torch.tensor(surface.start, dtype=torch.float64, requires_grad=True)
    optimizer = create(OPTIMIZERS[name](lr=lr, **settings), [{"params": [place]}])
    visited: list[Tensor] = [place.detach().clone()]
    for _ in range(surface.steps):
        optimizer.zero_grad()
        surface.value(place[0], place[1]).backward()
        optimizer.step()
        visited.append(place.detach().clone())
    return torch.stack(visited).numpy()


def optimizers_figure() -> figures.Figure:
    """Every optimiser's path over contours, and below it the least value reached so far."""
    figure, axes = figures.new_figure(2, 3, (13, 8.6))
    with figures.style():
        for column, surface in enumerate(SURFACES):
            above, below = axes[:, column]
            _contours(above, surface)
            for color, (label, name, settings, rates) in zip(figures.COLORS, _RUNS, strict=True):
                path = trajectory(surface, name, rates[column], **settings)
                above.plot(*path.T, color=color, lw=1.5, alpha=0.9)
                gap = np.minimum.accumulate(surface.value(*path.T) - surface.minimum)
                below.plot(np.maximum(gap, _FLOOR), color=color, lw=1.5, label=label)
            below.set(yscale="log", xlim=(0, surface.steps), xlabel="step")
        axes[1, 0].set_ylabel("least value so far, above the minimum")
        names = axes[1, 0].get_legend_handles_labels()
        figure.legend(*names, loc="outside lower center", ncols=len(_RUNS))
    return figure


def _contours(axis: Any, surface: Surface) -> None:
    left, right, low, high = surface.window
    x, y = np.meshgrid(np.linspace(left, right, 240), np.linspace(low, high, 240))
    depth = np.log(surface.value(x, y) - surface.minimum + 0.02)  # evenly spaced in the logarithm: the floor shows too
    axis.contourf(x, y, depth, levels=24, cmap="Blues_r", alpha=0.35)
    axis.contour(x, y, depth, levels=24, colors="#94a3b8", linewidths=0.4, linestyles="solid")
    axis.plot(*surface.start, "o", color=figures.INK, ms=5, zorder=5)
    for minimum in surface.minima:
        axis.plot(*minimum, "*", color=figures.INK, ms=11, zorder=5)
    axis.grid(False)
    axis.set(title=surface.title, xlim=(left, right), ylim=(low, high))
