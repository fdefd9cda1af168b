"""report.html of a comparison, in the look of a run's."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from canon.compare.result import Comparison, Entry, told_p
from canon.report import curves
from canon.report.page import (
    NO_FIGURES,
    Html,
    Right,
    can_draw,
    card,
    cards,
    code,
    drawings,
    duration,
    note,
    number,
    page,
    pairs,
    section,
    table,
)


def render(found: Comparison) -> str:
    draw = can_draw()
    runs = sum(len(entry.runs) for entry in found.entries)
    about = (
        f"{len(found.entries)} recipes, {runs} runs on {escape(str(found.protocol.get('source', 'the same data')))}; "
        f"scores of the {found.split} set."
    )
    seen = {entry.label: f"{round(entry.cost['examples']):,}" for entry in found.entries}
    verdicts = [note(text, "verdict") for text in found.verdicts()]
    protocol = {key: value for key, value in found.protocol.items() if key != "data"}
    protocol |= {"fingerprint": Html(f"<code>{found.protocol['data']}</code>"), "seeds": _seeds(found)}
    return page(
        " and ".join(entry.label for entry in found.entries) if len(found.entries) < 3 else "A comparison of recipes",
        "canon comparison",
        about,
        (
            cards(_card(found, entry) for entry in found.entries),
            section("Result", *verdicts, _results(found), *map(note, found.notes)),
            section("Runs by seed", _dots(found) if draw else note(NO_FIGURES)),
            section("Curves", _curves(found) if draw else ""),
            section("Cost", table(found.costs()), note("Means over the runs.")),
            section("Every run", _runs(found)),
            section("Protocol", pairs(protocol | {"examples seen": seen})),
            section("Again", code(found.command)),
        ),
    )


def _card(found: Comparison, entry: Entry) -> str:
    main, against = entry.summary[found.main], entry.against.get(found.main)
    about = f"mean of {main.n} runs"
    if main.low is not None and main.high is not None:
        about = f"± {number((main.high - main.low) / 2)} (95 %, {main.n} seeds)"
    if against and against.p_holm is not None:
        about += f"<br>{number(against.mean)} against the first, p = {told_p(against.p_holm)}"
    return card(f"{entry.label}: {found.split} {found.main}", number(main.mean), about)


def _results(found: Comparison) -> str:
    """For each metric a line per recipe; the best mean is not marked, since it may be chance."""
    parts = []
    for name in found.metrics:
        rows = []
        for entry in found.entries:
            of, against = entry.summary[name], entry.against.get(name)
            row = {"recipe": entry.label, "runs": of.n, "mean": of.mean, "sd": of.sd}
            row["95 % interval"] = _interval(of.low, of.high)
            if len(found.entries) > 1:
                row["minus the first"] = against.mean if against else None
                row["95 % interval of it"] = _interval(against.low, against.high) if against else None
                row["p"] = told_p(against.p_holm) if against and against.p_holm is not None else None
            rows.append(row)
        parts.append(f"<h3>{escape(name)}</h3>{table(rows)}")
    return "".join(parts)


def _interval(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{number(low)} to {number(high)}"


def _dots(found: Comparison) -> str:
    made = []
    for name in found.metrics:
        values = {entry.label: list(entry.values[name].values()) for entry in found.entries}
        ends = {entry.label: entry.summary[name] for entry in found.entries}
        intervals = {label: (of.low, of.high) for label, of in ends.items() if of.low is not None}
        made.append(curves.dots_figure(values, intervals, f"{found.split} {name}"))
    return drawings(made) + note("A dot is a run, a bar the mean, a line its 95 % interval.")


def _curves(found: Comparison) -> str:
    """Over examples seen, so that other batch sizes share an axis."""
    groups = {}
    for entry in found.entries:
        groups[entry.label] = [_by_examples(run.metrics(), run.recipe.train.batch) for run in entry.runs.values()]
    everything = [row for runs in groups.values() for rows in runs for row in rows]
    wanted = [f"valid/{found.main}"]
    if "loss" in found.metrics:
        wanted += ["valid/loss", *curves.training_losses(everything)]
    made = [curves.spread_figure(groups, name, "examples seen") for name in dict.fromkeys(wanted)]
    return drawings(figure for figure in made if figure) + note(
        "Means over seeds; the band is from the least to the most."
    )


def _by_examples(rows: curves.Rows, batch: int) -> curves.Rows:
    return [{**row, "step": row["step"] * batch} for row in rows]


def _runs(found: Comparison) -> str:
    rows = []
    for entry in found.entries:
        for seed, run in entry.runs.items():
            page_of = run.path / "report.html"
            told = escape(str(run.path))
            link = escape(Path(os.path.relpath(page_of, found.folder)).as_posix())
            scores = {name: values[seed] for name, values in entry.values.items()}
            seconds = Right(duration((run.result or {})["cost"]["seconds"]))
            name = Html(f'<a href="{link}">{told}</a>' if page_of.is_file() else told)
            rows.append({"recipe": entry.label, "seed": str(seed), **scores, "time": seconds, "run": name})
    return table(rows)


def _seeds(found: Comparison) -> str:
    return ", ".join(map(str, found.seeds))
