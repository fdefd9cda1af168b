"""Curves over steps from metrics.jsonl: what `report.html`, comparisons and `canon plot` draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from canon import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, float]]
Band = Sequence[Sequence[float]]  # (step, low, high)

SIZE = (4.9, 3.0)
_LONGEST = 32  # letters of a name beside a figure
_LOG_FROM = 30  # ratio of the largest to the smallest loss from which its axis is logarithmic
_WORDS = {"lr": "learning rate", "mse": "MSE", "mae": "MAE", "auc": "AUC", "r2": "R²"}
_NOT_LOSSES = ("lr", "gradient_norm", "skipped_steps")


def names(rows: Rows) -> list[str]:
    """All metrics that the rows hold, in the order they appear."""
    return list(dict.fromkeys(key for row in rows for key in row if key not in ("step", "epoch")))


def points(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one metric."""
    found = [(row["step"], row[name]) for row in rows if name in row]
    steps, values = zip(*found, strict=True) if found else ((), ())
    return np.array(steps, dtype=float), np.array(values, dtype=float)


def training_losses(rows: Rows) -> list[str]:
    """What training minimises: train/loss, or what a learner logs in its place."""
    own = [name for name in names(rows) if name.startswith("train/")]
    losses = [name for name in own if name.split("/")[1] == "loss"]
    return losses or [name for name in own if name.split("/")[1] not in _NOT_LOSSES]


def run_figures(rows: Rows, curve: Mapping[str, Band], floors: Mapping[str, float], best: int | None) -> list[Figure]:
    """Losses, validation metrics (shares of one together, others each by itself), what the task observed, the rate."""
    losses = [name for name in (*training_losses(rows), "valid/loss") if len(points(rows, name)[0])]
    metrics = [name for name in names(rows) if name.startswith("valid/") and name != "valid/loss"]
    together = [name for name in metrics if _is_share(points(rows, name)[1])]
    observed = [name for name in names(rows) if name.startswith("train/") and name not in losses]
    observed = [name for name in observed if name.split("/")[1] not in _NOT_LOSSES]
    groups = [losses, together, *([name] for name in metrics if name not in together), observed]
    groups += [[name for name in names(rows) if name.startswith(f"train/{kind}")] for kind in ("lr", "gradient_norm")]
    made = []
    for group in groups:
        if group:
            is_loss = group is losses
            axis_floors = floors if is_loss and any(name.endswith("/loss") for name in group) else {}
            made.append(_panel(rows, group, curve, axis_floors, best, _log_scale(rows, group) if is_loss else False))
    return made


def _panel(
    rows: Rows, group: list[str], curve: Mapping[str, Band], floors: Mapping[str, float], best: int | None, log: bool
) -> Figure:
    figure, axes = figures.new_figure(size=SIZE)
    axis = axes[0, 0]
    with figures.style():
        for i, (color, name) in enumerate(zip(figures.COLORS, group, strict=False)):
            if name in curve:
                steps, low, high = np.array(curve[name], dtype=float).T
                label = "expected" if len(group) == 1 else f"expected {name}"
                axis.fill_between(steps, low, high, color=color, alpha=0.16, lw=0, label=label)
            steps, values = points(rows, name)
            marker = "o" if len(steps) == 1 else None
            axis.plot(steps, values, color=color, label=name, marker=marker, zorder=3 - 0.01 * i)  # the first on top
            if name.startswith("valid/") and best in steps:
                axis.plot(best, values[list(steps).index(best)], "o", color=color, ms=5)
        if log:
            axis.set_yscale("log")
        draw_floors(axis, floors)
        axis.set(title=_title(group), xlabel="step")
        if group[0].startswith("train/lr"):
            axis.set_ylim(bottom=0)
        if len(group) > 1 or group[0] in curve:
            axis.legend(fontsize=8)
    return figure


def draw_floors(axis: Axes, floors: Mapping[str, float]) -> None:
    """Dotted lines at the losses of guesses; those that nearly meet share a name."""
    told: dict[float, list[str]] = {}
    for name, value in floors.items():
        near = next((known for known in told if abs(known - value) < 0.05 * abs(value)), value)
        told.setdefault(near, []).append(name)
    for value, guesses in told.items():
        axis.axhline(value, color=figures.FAINT, lw=1.1, ls=(0, (1, 2)))
        text = f"a guess by {' or '.join(guesses)}"
        place = axis.get_yaxis_transform()
        axis.text(0.99, value, text, color=figures.FAINT, fontsize=8, ha="right", va="bottom", transform=place)


def metric_figure(runs: Mapping[str, Rows], wanted: Sequence[str]) -> Figure:
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
            axes.flat[0].legend(fontsize=8)
    return figure


def spread_figure(groups: Mapping[str, Sequence[Rows]], name: str, xlabel: str = "step") -> Figure | None:
    """Mean of one metric over the runs of each group, with the range of the runs as a band."""
    figure, axes = figures.new_figure(size=SIZE)
    axis = axes[0, 0]
    drawn = 0
    with figures.style():
        for color, (label, runs) in zip(_colors(len(groups)), groups.items(), strict=True):
            curves = [points(rows, name) for rows in runs]
            if not all(len(steps) for steps, _ in curves):
                continue
            # Runs that stopped early end their own curve; the mean goes as far as all of them do.
            common = sorted(set.intersection(*(set(steps.tolist()) for steps, _ in curves)))
            values = np.array([np.interp(common, steps, value) for steps, value in curves])
            if not common:
                continue
            axis.plot(
                common, values.mean(axis=0), color=color, label=_short(label), marker="o" if len(common) == 1 else None
            )
            if len(values) > 1:
                axis.fill_between(common, values.min(axis=0), values.max(axis=0), color=color, alpha=0.16, lw=0)
            drawn += 1
        axis.set(title=name, xlabel=xlabel)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8)
    return figure if drawn else None


def dots_figure(values: Mapping[str, Sequence[float]], intervals: Mapping[str, Any], name: str) -> Figure:
    """One dot per seed, the mean as a bar and its 95 % interval as a line."""
    figure, axes = figures.new_figure(size=(SIZE[0], 0.9 + 0.45 * len(values)))
    axis = axes[0, 0]
    with figures.style():
        for row, (color, (label, found)) in enumerate(zip(_colors(len(values)), values.items(), strict=True)):
            axis.plot(found, [row] * len(found), "o", color=color, ms=5, alpha=0.55, mew=0)
            if intervals.get(label):
                axis.plot(intervals[label], [row, row], color=color, lw=1.4)
            axis.plot([np.mean(found)], [row], "|", color=color, ms=16, mew=2.2)
        axis.set(
            title=name,
            yticks=range(len(values)),
            yticklabels=[_short(label) for label in values],
            ylim=(len(values) - 0.5, -0.5),
        )
        axis.grid(False, axis="y")
    return figure


def scatter_figure(true: np.ndarray, predicted: np.ndarray, label: str) -> Figure:
    """Predicted against true numbers, with the diagonal where they agree."""
    figure, axes = figures.new_figure(size=(4.9, 4.3))
    axis = axes[0, 0]
    with figures.style():
        ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
        axis.plot(ends, ends, color=figures.FAINT, lw=1.1, ls=(0, (1, 2)))
        # Thousands of vector dots would make the page heavy.
        axis.plot(true, predicted, "o", color=figures.COLORS[0], ms=4, alpha=0.45, mew=0, rasterized=len(true) > 3000)
        axis.set(title="Predicted and true", xlabel=f"true {label}".strip(), ylabel=f"predicted {label}".strip())
    return figure


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
