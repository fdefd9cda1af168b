"""report.html of a run, drawn from its facts: curves, scores, risks, mistakes, cost, settings, data, environment."""

from __future__ import annotations

import base64
import sys
from html import escape
from pathlib import Path
from typing import Any

from canon.data.schema import Data
from canon.report import curves
from canon.report.facts import Cost, Facts, Score, gather
from canon.report.page import (
    NO_FIGURES,
    Html,
    Right,
    can_draw,
    card,
    cards,
    cell,
    code,
    drawings,
    duration,
    note,
    number,
    page,
    pairs,
    picture,
    section,
    size,
    table,
)
from canon.report.predictions import predictions
from canon.storage import write_text
from canon.training.run import Run

_MOST_FILES = 12
_RISKS = {
    "empirical": ("empirical risk", "1/N Σ L(yᵢ, f(xᵢ))", "mean loss on the training set"),
    "structural": ("structural risk", "1/N Σ L(yᵢ, f(xᵢ)) + λ J(f)", "with the objective's penalty"),
    "generalization": ("generalization", "E L(y, f(x)) ≈ 1/M Σ L(yⱼ, f(xⱼ))", "estimated on the test set"),
}


def write_report(run: Run, data: Data | None = None) -> Path:
    """Writes report.html into the run directory; without matplotlib it has no figures, and that is said.

    data: the run's, where it is read already.
    """
    draw = can_draw()
    if not draw:
        print(f"report.html is written without figures. {NO_FIGURES}", file=sys.stderr)
    path = run.path / "report.html"
    write_text(path, render(gather(run, data), draw))
    return path


def render(facts: Facts, draw: bool) -> str:
    """The page; `facts` may have been to JSON and back."""
    system, curve = facts["system"], facts["curves"]
    about = (
        f"{escape(system['name'])} on {escape(str(facts['data']['name']))} by the recipe {escape(facts['recipe'])}, "
        f"seed {facts['seed']}. {escape(system['paper'])}."
    )
    drawn = note(NO_FIGURES)
    if draw:
        figures = curves.run_figures(curve["rows"], curve["expected"], curve["floors"], curve["best_step"])
        drawn = drawings(figures)
    return page(
        system["title"],
        "canon run",
        about,
        (
            "" if facts["ended"] else _unfinished(facts),
            _cards(facts),
            section("Curves", drawn, _curve_note(facts)),
            section("Samples", _pictures(facts)),
            section("Scores", _scores(facts)),
            section("Risk", _risks(facts)),
            section("Predictions on the test set", predictions(facts, draw)),
            section("Cost", _cost(facts["cost"])),
            section("Settings", _settings(facts)),
            section("Data", _data(facts)),
            section("Environment", pairs({name: value for name, value in facts["environment"].items() if value != ""})),
            section("Again", _commands(facts)),
        ),
    )


def _unfinished(facts: Facts) -> str:
    sentence = f"This run is not finished: it is at step {facts['step']:,} of {facts['total_steps']:,}."
    return note(sentence, "warn") + code(facts["commands"]["resume"])


def _cards(facts: Facts) -> str:
    monitor, cost = facts["monitor"], facts["cost"]
    items = []
    if facts["ended"]:
        splits = list(dict.fromkeys(score["split"] for score in facts["scores"]))
        split = "test" if "test" in splits else splits[-1]
        chosen = (score for score in facts["scores"] if score["split"] == split and score["metric"] == monitor)
        score = next(chosen, None)
        items.append(card(f"{split} {monitor}", cell(score and score["value"]), _inside(score, split)))
        assert cost is not None
        ended = f"{facts['step']:,} steps; {facts['ended']}"
        items.append(card("training time", duration(cost["seconds"]), escape(ended)))
    else:
        _, values = curves.points(facts["curves"]["rows"], f"valid/{monitor}")
        if len(values):
            items.append(card(f"valid {monitor}, last", number(values[-1])))
    if cost:
        share, memory = cost["share_of_peak"], size(cost["memory_bytes"])
        about = f"{_share(share)} of peak, {memory}" if share else memory
        items.append(card("examples per second", f"{cost['examples_per_second']:,.0f}", about))
        if cost["parameters"] is not None:
            items.append(card("parameters", f"{cost['parameters']:,}", escape(facts["system"]["name"])))
    return cards(items)


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.001 else "less than 0.1%"


def _inside(score: Score | None, split: str) -> str:
    if score is None or score["value"] is None:
        return f"undefined for this {split} set"
    if not (bounds := score["expected"]):
        return "no expected range for these settings"
    inside = bounds[0] <= score["value"] <= bounds[1]
    verdict = '<span class="good">inside</span>' if inside else '<span class="bad">outside</span>'
    return f"{verdict} the expected {bounds[0]:.4g}–{bounds[1]:.4g}"


def _curve_note(facts: Facts) -> str:
    sentences = []
    if (best := facts["curves"]["best_step"]) is not None:
        sentences.append(f"Dots mark the best {facts['monitor']}, at step {best:,}.")
    if facts["curves"]["expected"]:
        sentences.append("The band is what this recipe is known to do.")
    return note(" ".join(sentences)) if sentences else ""


def _pictures(facts: Facts) -> str:
    shown = [
        picture(base64.b64decode(one["png"]), f"{one['folder']} at step {one['step']:,}") for one in facts["pictures"]
    ]
    return f'<div class="figures">{"".join(shown)}</div>' if shown else ""


def _scores(facts: Facts) -> str:
    if not facts["scores"]:
        return ""
    rows: dict[str, dict[str, Any]] = {}
    for score in facts["scores"]:
        value, bounds = score["value"], score["expected"]
        shown = cell(value)
        if bounds and value is not None:
            inside = "good" if bounds[0] <= value <= bounds[1] else "bad"
            shown += f' <span class="{inside} note">[{bounds[0]:.4g}–{bounds[1]:.4g}]</span>'
        row = rows.setdefault(score["split"], {"split": score["split"], "examples": score["examples"]})
        row[score["metric"]] = Right(shown)
    return table(list(rows.values())) + note(f"Of the weights at step {facts['best_step']:,}.")


def _risks(facts: Facts) -> str:
    rows = []
    for key, value in facts["risks"].items():
        title, formula, meaning = _RISKS[key]
        rows.append({"risk": title, "value": value, "formula": Html(f"<i>{formula}</i>"), "meaning": meaning})
    return table(rows)


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return ""
    shown: dict[str, Any] = {
        "training time": duration(cost["seconds"]),
        "examples seen": cost["examples"],
        "rate": f"{cost['examples_per_second']:,.0f} examples/s",
    }
    if cost["share_of_peak"]:
        shown["share of the device's peak"] = _share(cost["share_of_peak"])
    shown["peak memory"] = size(cost["memory_bytes"])
    if cost["device"]:
        shown["device"] = cost["device"] + (f", {cost['processes']} processes" if cost["processes"] > 1 else "")
        shown["parameters"] = cost["parameters"]
    return pairs(shown)


def _settings(facts: Facts) -> str:
    parts = []
    for part, lines in facts["settings"].items():
        rows = "".join(
            f'<tr class="{"default" if origin == "default" else ""}"><td class="mono">{escape(key)}</td>'
            f'<td class="mono">{escape(value)}</td><td>{escape(_origin(origin))}</td></tr>'
            for key, value, origin in ((line["key"], line["value"], line["origin"]) for line in lines)
        )
        parts.append(f"<section><h3>{escape(part)}</h3><table>{rows}</table></section>")
    return f'<div class="settings">{"".join(parts)}</div>'


def _origin(origin: str) -> str:
    return "recipe" if origin.startswith("recipe ") else origin


def _data(facts: Facts) -> str:
    data = facts["data"]
    files = [
        {"file": record["name"], "size": size(record["bytes"]), "sha256": Html(f"<code>{record['sha256']}</code>")}
        for record in data["files"][:_MOST_FILES]
    ]
    more = len(data["files"]) - len(files)
    shown = {**{f"{name} examples": int(count) for name, count in data["examples"].items()}, **data["protocol"]}
    shown.pop("sizes", None)
    shown["fingerprint"] = Html(f"<code>{data['fingerprint']}</code>")
    if data["columns"]:
        shown["columns"] = ", ".join(f"{count} {kind}" for kind, count in data["columns"].items())
    return (
        "".join(f"<p>{escape(text)}</p>" for text in data["notes"])
        + pairs({str(name).replace("_", " "): value for name, value in shown.items()})
        + ("<h3>Files</h3>" + table(files) if files else "")
        + (note(f"and {more:,} more files, in data.json") if more > 0 else "")
    )


def _commands(facts: Facts) -> str:
    commands = facts["commands"]
    exact = note("Or with every setting as it was, whatever defaults become:") + code(commands["exact"])
    return code(commands["again"]) + exact
