"""report.html of a run, drawn from its facts: curves, scores, predictions, uses, cost, settings, data, environment."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from canon.config import Table
from canon.data.schema import Data
from canon.report import curves, orders, page, policy
from canon.report.facts import Cost, RunFacts, ScoreFacts, gather
from canon.report.page import Html, Right, note
from canon.training.run import Run

_MOST_FILES = 12
_LONGEST = 280  # characters of a text
_RISKS = {
    "empirical": ("empirical risk", "1/N Σ L(yᵢ, f(xᵢ))", "mean loss on the training set"),
    "structural": ("structural risk", "1/N Σ L(yᵢ, f(xᵢ)) + λ J(f)", "with the objective's penalty"),
    "generalization": ("generalization", "E L(y, f(x)) ≈ 1/M Σ L(yⱼ, f(xⱼ))", "estimated on the test set"),
}


def write_report(run: Run, data: Data | None = None) -> Path:
    """Writes report.html into the run directory; data: the run's, if it has been read already."""
    return page.write_page(run.path / "report.html", render, gather(run, data))


def render(facts: RunFacts, draw: bool) -> str:
    """The page; `facts` may have been to JSON and back."""
    system, curve = facts["system"], facts["curves"]
    about = (
        f"{escape(system['name'])} on {escape(str(facts['data']['name']))} by the recipe {escape(facts['recipe'])}, "
        f"seed {facts['seed']}. {escape(system['paper'])}."
    )
    panels = curves.run_charts(
        curve["rows"], curve["expected"], curve["floors"], curve["best_step"], curve["guess"], curve["together"]
    )
    commands = facts["commands"]
    unfinished = note(f"This run is not finished: it is at step {facts['step']:,} of {facts['total_steps']:,}.", "warn")
    exact = note("Or with every setting as it was, whatever defaults become:") + page.code(commands["exact"])
    return page.document(
        system["title"],
        "canon run",
        about,
        ("" if facts["ended"] else unfinished + page.code(commands["resume"]))
        + "".join(note(escape(warning), "warn") for warning in facts["warnings"])
        + "\n"
        + _cards(facts),
        {
            "Curves": page.charts(panels) + _curve_note(facts),
            "Samples": page.side_by_side(
                page.picture(one["png"], f"{one['folder']} at step {one['step']:,}") for one in facts["pictures"]
            ),
            "Scores": _scores(facts),
            "Policy": policy.section(facts["policy"], draw),
            "Predictions on the test set": _predictions(facts, draw),
            "Order of the test set": orders.section(facts["orders"], draw),
            "Features that count most": page.table(facts["importances"]),
            "Tokens of the prompt": _prompt(facts),
            "Use it": _uses(facts),
            "Data": _data(facts),
            "Risk": _risks(facts),
            "Cost": _cost(facts["cost"]),
            "Settings": _settings(facts),
            "Environment": page.pairs({name: value for name, value in facts["environment"].items() if value != ""}),
            "Again": page.code(commands["again"]) + exact,
        },
    )


def _prompt(facts: RunFacts) -> str:
    """Each soft token or trigger, and the tokens that its vector is nearest to."""
    rows = []
    for row in facts["prompt"]:
        near = ", ".join(f"{one['token']} ({one['cosine']:.2f})" for one in row["nearest"])
        rows.append({"piece": row["piece"], "nearest tokens, by cosine": near})
    return page.table(rows)


def _cards(facts: RunFacts) -> str:
    monitor, cost = facts["monitor"], facts["cost"]
    items = []
    if facts["ended"]:
        splits = list(dict.fromkeys(score["split"] for score in facts["scores"]))
        split = "test" if "test" in splits or not splits else splits[-1]
        chosen = (score for score in facts["scores"] if score["split"] == split and score["metric"] == monitor)
        score = next(chosen, None)
        items.append(page.card(f"{split} {monitor}", page.cell(score and score["value"]), _inside(score, split)))
        assert cost is not None
        ended = f"{facts['step']:,} steps; {facts['ended']}"
        items.append(page.card("training time", page.duration(cost["seconds"]), escape(ended)))
    else:
        _, values = curves.points(facts["curves"]["rows"], f"valid/{monitor}")
        if len(values):
            items.append(page.card(f"valid {monitor}, last", page.number(values[-1])))
    if cost:
        share, memory = cost["share_of_peak"], page.size(cost["memory_bytes"])
        about = f"{_share(share)} of peak, {memory}" if share else memory
        items.append(page.card("examples per second", f"{cost['examples_per_second']:,.0f}", about))
        if cost["parameters"] is not None:
            items.append(page.card("parameters", f"{cost['parameters']:,}", escape(facts["system"]["name"])))
    return page.cards(items)


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.001 else "less than 0.1%"


def _inside(score: ScoreFacts | None, split: str) -> str:
    if score is None or score["value"] is None:
        return f"undefined for this {split} set"
    if not (bounds := score["expected"]):
        return "no expected range for these settings"
    inside = bounds[0] <= score["value"] <= bounds[1]
    verdict = '<span class="good">inside</span>' if inside else '<span class="bad">outside</span>'
    return f"{verdict} the expected {bounds[0]:.4g}–{bounds[1]:.4g}"


def _curve_note(facts: RunFacts) -> str:
    sentences = []
    if (best := facts["curves"]["best_step"]) is not None:
        sentences.append(f"Dots mark the best {facts['monitor']}, at step {best:,}.")
    if facts["curves"]["expected"]:
        sentences.append("The band is the range expected of this recipe.")
    return note(" ".join(sentences)) if sentences else ""


def _scores(facts: RunFacts) -> str:
    if not facts["scores"]:
        return ""
    rows: dict[str, dict[str, Any]] = {}
    for score in facts["scores"]:
        value, bounds = score["value"], score["expected"]
        shown = page.cell(value)
        if bounds and value is not None:
            inside = "good" if bounds[0] <= value <= bounds[1] else "bad"
            shown += f' <span class="{inside} note">[{bounds[0]:.4g}–{bounds[1]:.4g}]</span>'
        row = rows.setdefault(score["split"], {"split": score["split"], "examples": score["examples"]})
        row[score["metric"]] = Right(shown)
    return page.table(list(rows.values())) + note(f"Of the weights at step {facts['best_step']:,}.")


def _risks(facts: RunFacts) -> str:
    rows = []
    for key, value in facts["risks"].items():
        title, formula, meaning = _RISKS[key]
        rows.append({"risk": title, "value": value, "formula": Html(f"<i>{formula}</i>"), "meaning": meaning})
    return page.table(rows)


def _predictions(facts: RunFacts, draw: bool) -> str:
    """Scores of classes with a confusion matrix and mistakes, a scatter, or texts with attention."""
    shown = facts["predictions"]
    if shown is None:
        return "".join(note(f"Not shown: {warning}") for warning in facts["unshown"])
    values = shown["values"]
    part = note(f"Of {shown['examples']:,} test examples." if shown["examples"] < shown["of"] else "")
    if shown["kind"] == "classes":
        matrix = confusion_table(values["counts"], values["classes"]) if values["counts"] else ""
        return _class_scores(values["scores"], len(values["classes"])) + matrix + part + _mistakes(values)
    if shown["kind"] == "tags":
        return _class_scores(values["scores"], len(values["scores"])) + part
    if shown["kind"] == "numbers":
        true, predicted = np.array(values["true"]), np.array(values["predicted"])
        return page.charts([curves.scatter_chart(true, predicted, values["label"])]) + part
    rows = []
    for row in values["rows"]:
        right = row["said"] in row["right"]
        answer = Html(f'<span class="{"good" if right else "bad"}">{escape(row["said"])}</span>')
        rows.append({"given": row["given"], "said": answer, "right": "" if right else " or ".join(row["right"])})
    html = page.table(rows) + note(f"{shown['examples']} of {shown['of']:,} test examples, spread over all of them.")
    if facts["attention"] is None:
        return html
    if not draw:
        return html + note(page.NO_FIGURES)
    from canon.inspect.attention import Attention, attention_figure

    weights = Attention.from_json(facts["attention"])
    html += "<h3>Attention</h3>" + page.drawings([attention_figure(weights)])
    return html + note(f'Of "{weights.source}"; others: canon inspect attention {facts["path"]} TEXT.')


def _class_scores(scores: list[Table], total: int) -> str:
    fewer = note(f"The {len(scores)} of {total:,} classes with the lowest F1.") if len(scores) < total else ""
    return page.table(scores) + fewer


def _mistakes(values: Table) -> str:
    """What was predicted wrongly and with the highest score."""
    rows = []
    for mistake in values["mistakes"]:
        row: dict[str, Any] = {}
        if any(one["picture"] for one in values["mistakes"]):
            row["picture"] = Html(f'<img src="data:image/png;base64,{mistake["picture"]}" alt="">')
        if any(one["given"] for one in values["mistakes"]):
            row["given"] = Html(f'<div class="given">{escape(_short(mistake["given"]))}</div>')
        rows.append(row | {name: mistake[name] for name in ("true", "predicted", "score")})
    if not rows:
        return ""
    some = f"The {len(rows)} most confident of {values['wrong']:,}." if len(rows) < values["wrong"] else ""
    return "<h3>Mistakes</h3>" + page.table(rows) + note(some)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rsplit(' ', 1)[0]} …"


def _uses(facts: RunFacts) -> str:
    return page.pairs(
        {one["use"]: Html(f'<code class="command">{escape(one["command"])}</code>') for one in facts["use"]}
    )


def confusion_table(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """Counts with the share of their row as the depth of colour."""
    head = "".join(f'<th class="column" title="{escape(name)}">{escape(name)}</th>' for name in classes)
    lines = []
    for name, row in zip(classes, counts, strict=True):
        cells = []
        for count in row:
            share = count / max(sum(row), 1)
            kind = "zero" if count == 0 else "dark" if share > 0.5 else ""
            color = f' style="background: rgb(var(--heat) / {0.12 + 0.78 * share:.2f})"' if count else ""
            cells.append(f'<td class="{kind}"{color}>{count}</td>')
        lines.append(f'<tr><th class="row" title="{escape(name)}">{escape(name)}</th>{"".join(cells)}</tr>')
    legend = note("Rows are true classes, columns predicted ones; the colour is the share of the row.")
    return f'<div class="scroll"><table class="matrix"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>{legend}'


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return ""
    shown: dict[str, Any] = {
        "training time": page.duration(cost["seconds"]),
        "examples seen": cost["examples"],
        "rate": f"{cost['examples_per_second']:,.0f} examples/s",
    }
    if cost["share_of_peak"]:
        shown["share of the device's peak"] = _share(cost["share_of_peak"])
    shown["peak memory"] = page.size(cost["memory_bytes"])
    if cost["device"]:
        shown["device"] = cost["device"] + (f", {cost['processes']} processes" if cost["processes"] > 1 else "")
        shown["parameters"] = cost["parameters"]
    return page.pairs(shown)


def _settings(facts: RunFacts) -> str:
    parts = []
    for part, lines in facts["settings"].items():
        rows = ""
        for line in lines:
            origin = "recipe" if line["origin"].startswith("recipe ") else line["origin"]
            rows += (
                f'<tr class="{"default" if origin == "default" else ""}"><td class="mono">{escape(line["key"])}</td>'
                f'<td class="mono">{escape(line["value"])}</td><td>{escape(origin)}</td></tr>'
            )
        columns = '<colgroup><col class="key"><col><col class="origin"></colgroup>'
        parts.append(f"<section><h3>{escape(part)}</h3><table>{columns}{rows}</table></section>")
    return f'<div class="settings">{"".join(parts)}</div>'


def _data(facts: RunFacts) -> str:
    data = facts["data"]
    files = [
        {"file": record["name"], "size": page.size(record["bytes"]), "sha256": Html(f"<code>{record['sha256']}</code>")}
        for record in data["files"][:_MOST_FILES]
    ]
    more = len(data["files"]) - len(files)
    shown = {**{f"{name} examples": int(count) for name, count in data["examples"].items()}, **data["protocol"]}
    shown.pop("sizes", None)
    shown["fingerprint"] = Html(f"<code>{data['fingerprint']}</code>")
    if data["columns"]:
        shown["columns"] = ", ".join(f"{count} {kind}" for kind, count in data["columns"].items())
    decided = "".join(f"<tr><td>{escape(text)}</td></tr>" for text in data["notes"])
    return (
        (f'<h3>What was decided</h3><table class="notes"><tbody>{decided}</tbody></table>' if decided else "")
        + "<h3>Examples and split</h3>"
        + page.pairs({str(name).replace("_", " "): value for name, value in shown.items()})
        + ("<h3>Files</h3>" + page.table(files) if files else "")
        + (note(f"and {more:,} more files, in data.json") if more > 0 else "")
    )
