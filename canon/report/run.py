"""report.html of a run: figures at the top, curves, scores, risks, mistakes, cost, settings, data, environment.

Reads the run directory; for the floors and the confusion matrix also the data and the best weights, if they exist.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shlex import quote
from typing import Any

from canon.config import Table
from canon.data.encodings.features import FeatureSchema
from canon.data.schema import Data
from canon.recipe import Recipe, effective_settings
from canon.report import curves
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
from canon.tasks import TASKS
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
    write_text(path, render(run, draw, data))
    return path


@dataclass(frozen=True)
class Facts:
    """What the parts of the page are made of."""

    run: Run
    name: str  # of the recipe
    recipe: Recipe
    settings: dict[str, list[tuple[str, str, str]]]  # section -> (key, value, origin)
    rows: list[dict[str, float]]
    result: Table
    data: Table

    @classmethod
    def of(cls, run: Run) -> Facts:
        _, settings = effective_settings(run.read_recipe())
        return cls(run, run.recipe.name, run.recipe, settings, run.metrics(), run.result or {}, run.data)

    @property
    def monitor(self) -> str:
        return self.recipe.train.monitor or TASKS[self.recipe.system.task].monitor

    @property
    def step(self) -> int:
        return int(self.result.get("steps") or max((row["step"] for row in self.rows), default=0))


def render(run: Run, draw: bool, read: Data | None) -> str:
    facts = Facts.of(run)
    recipe, data = facts.recipe, facts.data
    floors, mistakes = predictions(run, draw, shown=bool(facts.result), data=read)
    about = (
        f"{escape(recipe.system_name)} on {escape(str(data['name']))} by the recipe {escape(facts.name)}, "
        f"seed {recipe.train.seed}. {escape(recipe.system.paper)}."
    )
    drawn = ""
    if draw:
        best = facts.result.get("best_step") if "valid" in data["examples"] else None
        drawn = drawings(curves.run_figures(facts.rows, recipe.expected().get("curve", {}), floors, best))
    return page(
        recipe.system.title,
        "canon run",
        about,
        (
            "" if facts.result else _unfinished(facts),
            _cards(facts),
            section("Curves", drawn if draw else note(NO_FIGURES), _curve_note(facts)),
            section("Samples", _pictures(facts)),
            section("Scores", _scores(facts)),
            section("Risk", _risks(facts)),
            section("Predictions on the test set", mistakes),
            section("Cost", _cost(facts)),
            section("Settings", _settings(facts)),
            section("Data", _data(facts)),
            section("Environment", _environment(facts)),
            section("Again", _commands(facts)),
        ),
    )


def _unfinished(facts: Facts) -> str:
    total = facts.recipe.total_steps(int(facts.data["examples"]["train"]))
    told = f"This run is not finished: it is at step {facts.step:,} of {total:,}."
    return note(told, "warn") + code(f"canon train {facts.run.path} --resume")


def _cards(facts: Facts) -> str:
    result, monitor = facts.result, facts.monitor
    cost = result.get("cost", {})
    made = []
    if result:
        split = "test" if "test" in result["scores"] else list(result["scores"])[-1]
        made.append(card(f"{split} {monitor}", cell(result["scores"][split].get(monitor)), _inside(facts, split)))
        ended = f"{result['steps']:,} steps; {result['ended']}"
        made.append(card("training time", duration(cost["seconds"]), escape(ended)))
    else:
        _, values = curves.points(facts.rows, f"valid/{monitor}")
        if len(values):
            made.append(card(f"valid {monitor}, last", number(values[-1])))
    timings = facts.run.timings()
    if timings or cost:
        last = timings[-1] if timings else {}
        rate = cost.get("examples_per_second", last.get("examples_per_second", 0.0))
        share = last.get("share_of_peak", 0.0)
        memory = size(cost.get("memory_bytes", last.get("memory_bytes", 0)))
        about = f"{_share(share)} of peak, {memory}" if share else memory
        made.append(card("examples per second", f"{rate:,.0f}", about))
    if cost:
        made.append(card("parameters", f"{cost['parameters']:,}", escape(facts.recipe.system_name)))
    return cards(made)


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.001 else "less than 0.1%"


def _inside(facts: Facts, split: str) -> str:
    bounds = facts.result["expected"].get(f"{split}/{facts.monitor}")
    value = facts.result["scores"][split].get(facts.monitor)
    if value is None:
        return f"undefined for this {split} set"
    if not bounds:
        return "no expected range for these settings"
    inside = bounds[0] <= value <= bounds[1]
    verdict = '<span class="good">inside</span>' if inside else '<span class="bad">outside</span>'
    return f"{verdict} the expected {bounds[0]:.4g}–{bounds[1]:.4g}"


def _curve_note(facts: Facts) -> str:
    told = []
    if "best_step" in facts.result and "valid" in facts.data["examples"]:
        told.append(f"Dots mark the best {facts.monitor}, at step {facts.result['best_step']:,}.")
    if facts.recipe.expected().get("curve"):
        told.append("The band is what this recipe is known to do.")
    return note(" ".join(told)) if told else ""


def _pictures(facts: Facts) -> str:
    """The newest picture of each folder, and the one of the weights that are used, where that is another."""
    shown = []
    for folder in sorted({path.parent for path in facts.run.path.glob("*/step-*.png")}):
        newest = max(folder.glob("step-*.png"))
        best = folder / f"step-{int(facts.result.get('best_step', 0)):08d}.png"
        for path in dict.fromkeys((best, newest)):
            if path.is_file():
                shown.append(picture(path.read_bytes(), f"{folder.name} at step {int(path.stem[5:]):,}"))
    return f'<div class="figures">{"".join(shown)}</div>' if shown else ""


def _scores(facts: Facts) -> str:
    if not facts.result:
        return ""
    rows = []
    for split, scores in facts.result["scores"].items():
        count = int(facts.data["examples"].get(split, 0))
        if split == "train":
            count = min(count, TASKS[facts.recipe.system.task].risk_examples)
        row: dict[str, Any] = {"split": split, "examples": count}
        for name, value in scores.items():
            bounds = facts.result["expected"].get(f"{split}/{name}")
            told = cell(value)
            if bounds and value is not None:
                inside = "good" if bounds[0] <= value <= bounds[1] else "bad"
                told += f' <span class="{inside} note">[{bounds[0]:.4g}–{bounds[1]:.4g}]</span>'
            row[name] = Right(told)
        rows.append(row)
    best = f"Of the weights at step {facts.result['best_step']:,}."
    return table(rows) + note(best)


def _risks(facts: Facts) -> str:
    rows = []
    for key, value in facts.result.get("risk", {}).items():
        title, formula, meaning = _RISKS[key]
        rows.append({"risk": title, "value": value, "formula": Html(f"<i>{formula}</i>"), "meaning": meaning})
    return table(rows)


def _cost(facts: Facts) -> str:
    timings = facts.run.timings()
    cost = facts.result.get("cost", {})
    if not timings and not cost:
        return ""
    last = timings[-1] if timings else {}
    told: dict[str, Any] = {
        "training time": duration(cost.get("seconds", last.get("seconds", 0.0))),
        "examples seen": int(cost.get("examples", facts.step * facts.recipe.train.batch)),
        "rate": f"{cost.get('examples_per_second', last.get('examples_per_second', 0)):,.0f} examples/s",
    }
    if last.get("share_of_peak"):
        told["share of the device's peak"] = _share(last["share_of_peak"])
    told["peak memory"] = size(cost.get("memory_bytes", last.get("memory_bytes", 0)))
    if cost:
        told["device"] = cost["device"] + (f", {cost['processes']} processes" if cost["processes"] > 1 else "")
        told["parameters"] = int(cost["parameters"])
    return pairs(told)


def _settings(facts: Facts) -> str:
    parts = []
    for part, lines in facts.settings.items():
        rows = "".join(
            f'<tr class="{"default" if origin == "default" else ""}"><td class="mono">{escape(key)}</td>'
            f'<td class="mono">{escape(value)}</td><td>{escape(_origin(origin))}</td></tr>'
            for key, value, origin in lines
        )
        parts.append(f"<section><h3>{escape(part)}</h3><table>{rows}</table></section>")
    return f'<div class="settings">{"".join(parts)}</div>'


def _origin(origin: str) -> str:
    return "recipe" if origin.startswith("recipe ") else origin


def _data(facts: Facts) -> str:
    data = facts.data
    files = [
        {"file": record["name"], "size": size(record["bytes"]), "sha256": Html(f"<code>{record['sha256']}</code>")}
        for record in data["files"][:_MOST_FILES]
    ]
    more = len(data["files"]) - len(files)
    told = {**{f"{name} examples": int(count) for name, count in data["examples"].items()}, **data["protocol"]}
    told.pop("sizes", None)
    told["fingerprint"] = Html(f"<code>{data['fingerprint']}</code>")
    schema = facts.run.schema
    kinds = Counter(encoder.kind for encoder in schema.encoders) if isinstance(schema, FeatureSchema) else {}
    if kinds:
        told["columns"] = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return (
        "".join(f"<p>{escape(text)}</p>" for text in data["notes"])
        + pairs({str(name).replace("_", " "): value for name, value in told.items()})
        + ("<h3>Files</h3>" + table(files) if files else "")
        + (note(f"and {more:,} more files, in data.json") if more > 0 else "")
    )


def _environment(facts: Facts) -> str:
    told = {name: value for name, value in facts.run.env.items() if value != ""}
    return pairs(told)


def _commands(facts: Facts) -> str:
    words = [f"canon train {facts.name}"]
    for part, lines in facts.settings.items():
        for key, value, origin in lines:
            if origin == "--data":
                words.append(f"--data {quote(tomllib.loads(f'value = {value}')['value'])}")
            elif origin in ("--set", "keyword"):
                words.append(f"--set {quote(f'{part}.{key}={value}')}")
    exact = f"canon train {facts.run.path / 'recipe.toml'} --out {facts.run.path}-again"
    return code(" ".join(words)) + note("Or with every setting as it was, whatever defaults become:") + code(exact)
