"""Figures of curves, scores and predictions, for `report.html`, comparisons and `canon plot`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from canon import figures
from canon.report import chart

Rows = Sequence[Mapping[str, float]]
Band = Sequence[Sequence[float]]  # (step, low, high)
Points = Sequence[tuple[float, float]]  # place on the axis, value

SIZE = (5.6, 2.9)
_LONGEST = 32  # letters of a name beside a figure
_LOG_FROM = 30  # ratio of the largest to the smallest loss from which its axis is logarithmic
_WORDS = {"lr": "learning rate", "mse": "MSE", "mae": "MAE", "auc": "AUC", "r2": "R²"}
_NOT_LOSSES = ("lr", "gradient_norm", "skipped_steps")


def names(rows: Rows) -> list[str]:
    """All metrics of the rows, in the order they appear."""
    return list(dict.fromkeys(key for row in rows for key in row if key not in ("step", "epoch")))


def points(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one metric."""
    steps, values = np.array([(row["step"], row[name]) for row in rows if name in row], dtype=float).reshape(-1, 2).T
    return steps, values


def training_losses(rows: Rows) -> list[str]:
    """The names of what training minimises: train/loss, or what a learner logs instead."""
    logged = [name for name in names(rows) if name.startswith("train/")]
    losses = [name for name in logged if name.split("/")[1] == "loss"]
    return losses or [name for name in logged if name.split("/")[1] not in _NOT_LOSSES]


def run_charts(
    rows: Rows,
    curve: Mapping[str, Band],
    floors: Mapping[str, float],
    best: int | None,
    guess: Mapping[str, Any] | None = None,
    together: Sequence[Sequence[str]] = (),
) -> list[chart.Chart]:
    """Losses, validation metrics (shares of one together, others each by itself), what the task observed, the rate.

    guess: the name of a predictor that looks at no input, and its scores by metric; the first of a panel is drawn.
    together: groups that come first; the other numbers then have a panel each.
    """
    logged = names(rows)
    first = [[name for name in group if name in logged] for group in together]
    every = [name for name in logged if not any(name in group for group in first)]
    if together:
        first += [[name] for name in every if not name.startswith(("train/lr", "train/gradient_norm"))]
        every = [name for name in every if [name] not in first]
    losses = [name for name in (*training_losses(rows), "valid/loss") if name in every]
    metrics = [name for name in every if name.startswith("valid/") and name != "valid/loss"]
    shares = [name for name in metrics if _is_share(points(rows, name)[1])]
    observed = [name for name in every if name.startswith("train/") and name not in losses]
    observed = [name for name in observed if name.split("/")[1] not in _NOT_LOSSES]
    groups = [*first, shares, *([name] for name in metrics if name not in shares), observed]
    groups += [[name for name in every if name.startswith(f"train/{kind}")] for kind in ("lr", "gradient_norm")]
    panels = []
    for group in filter(None, groups):
        known = next((name for name in group if guess and name in guess["scores"]), "")
        lines = {guess["name"]: guess["scores"][known]} if guess and known else {}
        panels.append(_panel(rows, group, curve, lines, best, False))
    if losses:
        lines = floor_lines(floors) if any(name.endswith("/loss") for name in losses) else {}
        panels.insert(0, _panel(rows, losses, curve, lines, best, _log_scale(rows, losses)))
    return panels


def _panel(
    rows: Rows, group: list[str], curve: Mapping[str, Band], lines: Mapping[str, float], best: int | None, log: bool
) -> chart.Chart:
    """lines: what stays the same at every step, by name."""
    drawn = [chart.Line(name, *points(rows, name), best if name.startswith("valid/") else None) for name in group]
    bands = []
    for number, name in enumerate(group):
        if name in curve:
            steps, low, high = np.array(curve[name], dtype=float).T
            bands.append(chart.Band("expected" if len(group) == 1 else f"expected {name}", steps, low, high, number))
    rate = group[0].startswith("train/lr")
    return chart.Chart(_title(group), lines=drawn, bands=bands, levels=dict(lines), log=log, from_zero=rate)


def floor_lines(floors: Mapping[str, float]) -> dict[str, float]:
    """Lines at the losses of guesses; those that nearly coincide share one."""
    lines: dict[float, list[str]] = {}
    for name, value in floors.items():
        near = next((known for known in lines if abs(known - value) < 0.05 * abs(value)), value)
        lines.setdefault(near, []).append(name)
    return {f"a guess by {' or '.join(guesses)}": value for value, guesses in lines.items()}


def metric_figure(runs: Mapping[str, Rows], wanted: Sequence[str]) -> figures.Figure:
    """One panel per metric, one line per run."""
    figure, axes = figures.new_figure(1, len(wanted), (0.6 + 5.2 * len(wanted), 3.8))
    with figures.style():
        for axis, name in zip(axes.flat, wanted, strict=True):
            for color, (label, rows) in zip(_colors(len(runs)), runs.items(), strict=True):
                axis.plot(*points(rows, name), color=color, label=_short(label))
            if name in {loss for rows in runs.values() for loss in training_losses(rows)}:
                axis.set_yscale("log" if all(_log_scale(rows, [name]) for rows in runs.values()) else "linear")
            axis.set(title=name, xlabel="step")
        if len(runs) > 1:
            figures.legend(axes.flat[-1])
    return figure


def spread_figure(groups: Mapping[str, Mapping[str, Points]], name: str, xlabel: str = "step") -> figures.Figure | None:
    """Mean of one metric over the runs of each group, with their range as a band; a run is points (x, value)."""
    figure, axes = figures.new_figure(size=SIZE)
    axis = axes[0, 0]
    with figures.style():
        for color, (label, runs) in zip(_colors(len(groups)), groups.items(), strict=True):
            by_place = [dict(run) for run in runs.values()]
            # Runs that stopped early end their own curve; the mean goes as far as all of them do.
            common = sorted(set.intersection(*map(set, by_place)))
            if not common:
                continue
            values = np.array([[run[place] for place in common] for run in by_place])
            marker = "o" if len(common) == 1 else None
            axis.plot(common, values.mean(axis=0), color=color, label=_short(label), marker=marker)
            if len(values) > 1:
                axis.fill_between(common, values.min(axis=0), values.max(axis=0), color=color, alpha=0.16, lw=0)
        axis.set(title=name, xlabel=xlabel)
        if not axis.lines:
            return None
        figures.legend(axis)
    return figure


def dots_figure(values: Mapping[str, Sequence[float]], intervals: Mapping[str, Any], name: str) -> figures.Figure:
    """One dot per seed, the mean as a bar and its 95 % interval as a line."""
    figure, axes = figures.new_figure(size=(SIZE[0], 0.9 + 0.45 * len(values)))
    axis = axes[0, 0]
    with figures.style():
        for row, (color, (label, scores)) in enumerate(zip(_colors(len(values)), values.items(), strict=True)):
            axis.plot(scores, [row] * len(scores), "o", color=color, ms=5, alpha=0.55, mew=0)
            if intervals.get(label):
                axis.plot(intervals[label], [row, row], color=color, lw=1.4)
            axis.plot([np.mean(scores)], [row], "|", color=color, ms=16, mew=2.2)
        axis.set_yticks(range(len(values)), [_short(label) for label in values])
        axis.set(title=name, ylim=(len(values) - 0.5, -0.5))
        axis.grid(False, axis="y")
    return figure


def scatter_chart(true: np.ndarray, predicted: np.ndarray, label: str) -> chart.Chart:
    """Predicted against true numbers, with the diagonal where they agree."""
    named = f"true {label}".strip(), f"predicted {label}".strip()
    return chart.Chart("Predicted and true", *named, dots=(true, predicted), diagonal=True)


def _title(group: Iterable[str]) -> str:
    kinds = list(dict.fromkeys(name.split("/")[1] for name in group))
    text = ", ".join(_WORDS.get(kind, kind.replace("_", " ")) for kind in kinds)
    return text[0].upper() + text[1:]


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[:10]}…{label[11 - _LONGEST :]}"


def _colors(count: int) -> list[str]:
    return [figures.COLORS[i % len(figures.COLORS)] for i in range(count)]


def _is_share(values: np.ndarray) -> bool:
    return bool(len(values) and values.min() >= 0 and values.max() <= 1)


def _log_scale(rows: Rows, group: Iterable[str]) -> bool:
    values = np.concatenate([points(rows, name)[1] for name in group])
    return bool(len(values) and values.min() > 0 and values.max() / values.min() > _LOG_FROM)
