"""What a run's best weights say of its test set, drawn: a confusion matrix, a scatter, or texts with attention."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from canon.inspect.attention import Attention, attention_figure
from canon.report import curves
from canon.report.facts import Facts
from canon.report.page import Html, drawing, note, table


def predictions(facts: Facts, draw: bool) -> str:
    warnings = "".join(note(f"Not shown: {warning}") for warning in facts["warnings"])
    shown = facts["predictions"]
    if shown is None:
        return warnings
    values = shown["values"]
    part = note(f"Of {shown['examples']:,} test examples." if shown["examples"] < shown["of"] else "")
    if shown["kind"] == "confusion":
        return confusion_matrix(values["counts"], values["classes"]) + part
    if shown["kind"] == "numbers":
        if not draw:
            return ""
        figure = curves.scatter_figure(np.array(values["true"]), np.array(values["predicted"]), values["label"])
        return f'<div class="figures">{drawing(figure)}</div>' + part
    rows = [
        {
            "given": row["given"],
            "said": Html(
                f'<span class="{"good" if row["said"] in row["right"] else "bad"}">{escape(row["said"])}</span>'
            ),
            "right": "" if row["said"] in row["right"] else " or ".join(row["right"]),
        }
        for row in values["rows"]
    ]
    spread = note(f"{shown['examples']} of {shown['of']:,} test examples, spread over all of them.")
    return table(rows) + spread + _attention(facts, draw)


def _attention(facts: Facts, draw: bool) -> str:
    """Where the network looked in one of the texts."""
    if facts["attention"] is None or not draw:
        return ""
    shown = Attention.from_json(facts["attention"])
    return f'<h3>Attention</h3><div class="figures">{drawing(attention_figure(shown))}</div>' + note(
        f'Of "{shown.source}"; others: canon inspect attention {facts["path"]} TEXT.'
    )


def confusion_matrix(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
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
