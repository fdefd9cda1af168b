"""report.html of a pipeline: its stages with their scores, the queries that gained and lost most, its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from canon import figures
from canon.config import Table
from canon.report import page
from canon.storage import read_json

_SHOWN = 3  # cards: the last stage's measures


def write_pipeline_report(path: Path) -> Path:
    facts = {**read_json(path / "result.json"), "recipe": read_json(path / "recipe.json"), "path": str(path)}
    return page.write_page(path / "report.html", render, facts)


def render(facts: Mapping[str, Any], draw: bool) -> str:
    stages: list[Table] = facts.get("stages", [])
    names = [name for name in stages[0] if name not in ("stage", "p")] if stages else []
    queries = facts.get("queries", {})
    about = f"{facts['documents']:,} documents" + "".join(
        f", {count:,} {name} queries" for name, count in queries.items()
    )
    rows = [{**row, "p": "–" if row["p"] is None else f"{row['p']:.2g}"} for row in stages]
    moves = [{**row, "gain": row["after"] - row["before"]} for row in facts.get("moves", [])]
    ranker = '<p><a href="rank/run/report.html">The report of its ranker</a></p>' if facts["recipe"].get("rank") else ""
    first = "" if not stages else f"{names[-1]} of {stages[0]['stage']} alone, and after the last stage"
    return page.document(
        facts["pipeline"],
        "canon pipeline",
        about,
        page.cards(
            page.card(f"{stages[-1]['stage']}: {name}", page.number(stages[-1][name])) for name in names[:_SHOWN]
        )
        if stages
        else "",
        {
            "Stage by stage": page.table(rows)
            + (page.drawing(_bars(stages, names)) if draw else page.note(page.NO_FIGURES))
            if stages
            else "",
            "Queries that gained and lost most": page.table(moves) + page.note(first) if moves else "",
            "Recipe": "".join(_section(name, part) for name, part in facts["recipe"].items()) + ranker,
            "Ask it": page.code(f'canon search {facts["path"]} "…" --explain'),
        },
    )


def _section(name: str, part: Any) -> str:
    listed = part if isinstance(part, list) else [part]
    return "".join(f"<h3>{escape(name)}</h3>{page.pairs(one)}" for one in listed)


def _bars(stages: list[Table], names: list[str]) -> figures.Figure:
    """Every measure after every stage."""
    figure, ((axes,),) = figures.new_figure(size=(7.0, 1.0 + 0.45 * len(stages)))
    with figures.style():
        height = 0.8 / len(names)
        for number, name in enumerate(names):
            places = [place + number * height for place in range(len(stages))]
            axes.barh(places, [row[name] for row in stages], height * 0.9, color=figures.COLORS[number], label=name)
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(stages))], [row["stage"] for row in stages])
        axes.invert_yaxis()
        figures.legend(axes)
    return figure
