"""What a run's best weights say of its test set, and what guesses without input would reach.

Needs the data and a checkpoint; where one is missing, the report says so and goes without.
"""

from __future__ import annotations

from html import escape

import numpy as np

from canon.data.schema import Columns, Data
from canon.data.targets import Number
from canon.errors import CanonError
from canon.inspect.attention import attention, attention_figure
from canon.report import curves
from canon.report.page import Html, drawing, note, table
from canon.tasks.transduction import Transduction
from canon.training.data import read_data
from canon.training.plan import floors_of
from canon.training.run import Run
from canon.use.model import Model

_MOST_CLASSES = 30  # of a confusion matrix that can still be read
_MOST_SHOWN = 20  # translations
_MOST_EXAMPLES = 10_000  # of the test set that predictions are shown for


def predictions(run: Run, draw: bool, shown: bool, data: Data | None = None) -> tuple[dict[str, float], str]:
    """Floors of the loss by name; and, if `shown`, a confusion matrix or a scatter as HTML."""
    try:
        data = data or read_data(run.recipe, run.path)
        run.check_same_data(data)
        model = Model(run)
    except CanonError as mistake:
        return {}, note(f"Not shown: {mistake}")
    floors = floors_of(model.task, data)
    if isinstance(model.task, Transduction):
        return floors, _translations(model.task, model, data, draw) if shown and "test" in data.splits else ""
    test = _test_rows(data)
    if test is None or not shown:
        return floors, ""
    outputs = model.learner.outputs({"input": test[0]})
    true, told = test[1], f"Of {len(test[1]):,} test examples." if len(test[1]) == _MOST_EXAMPLES else ""
    if hasattr(model.task, "scores") and len(run.schema.classes) <= _MOST_CLASSES:
        predicted = model.task.scores(outputs).argmax(dim=1).numpy()
        return floors, confusion_matrix(true, predicted, run.schema.classes) + note(told)
    if isinstance(run.schema.target, Number) and draw:
        predicted = model.task.predictions(outputs)  # type: ignore[attr-defined]
        figure = curves.scatter_figure(true, predicted, run.schema.target.label)
        return floors, f'<div class="figures">{drawing(figure)}</div>' + note(told)
    return floors, ""


def _test_rows(data: Data) -> tuple[np.ndarray, np.ndarray] | None:
    columns = data.splits.get("test", {})
    if not isinstance(columns.get("target"), np.ndarray):
        return None
    inputs, index = columns["input"], np.arange(min(_MOST_EXAMPLES, len(columns["input"])))
    rows = inputs[index] if isinstance(inputs, np.ndarray) else inputs.take(index)
    return rows, np.asarray(columns["target"])[index]


def _translations(task: Transduction, model: Model, data: Data, draw: bool) -> str:
    """What the network says of some test examples, beside what is right; and where it looked in one of them."""
    test = data.splits["test"]
    rows = np.linspace(0, len(test["input"]) - 1, min(_MOST_SHOWN, len(test["input"]))).astype(np.int64)
    some: Columns = {name: c[rows] if isinstance(c, np.ndarray) else c.take(rows) for name, c in test.items()}
    lines = []
    for given, said, right in task.shown(model.learner.outputs(some), some):
        good = said in right
        mark = "" if good else escape(" or ".join(right))
        lines.append(
            {
                "given": given,
                "said": Html(f'<span class="{"good" if good else "bad"}">{escape(said)}</span>'),
                "right": Html(mark),
            }
        )
    told = table(lines) + note(f"{len(lines)} of {len(test['input']):,} test examples, spread over all of them.")
    if not draw or not hasattr(model.network, "attention"):
        return told
    text = lines[len(lines) // 2]["given"]
    figure = attention_figure(attention(model, str(text)))
    return (
        told
        + f'<h3>Attention</h3><div class="figures">{drawing(figure)}</div>'
        + note(f'Of "{text}"; others: canon inspect attention {model.run.path} TEXT.')
    )


def confusion_matrix(true: np.ndarray, predicted: np.ndarray, classes: tuple[str, ...]) -> str:
    """Counts with the share of their row as the depth of colour."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    head = "".join(f'<th class="column" title="{escape(name)}">{escape(name)}</th>' for name in classes)
    lines = []
    for name, row in zip(classes, counts, strict=True):
        cells = []
        for count in row:
            share = count / max(row.sum(), 1)
            kind = "zero" if count == 0 else "dark" if share > 0.5 else ""
            color = f' style="background: rgb(var(--heat) / {0.12 + 0.78 * share:.2f})"' if count else ""
            cells.append(f'<td class="{kind}"{color}>{count}</td>')
        lines.append(f'<tr><th class="row" title="{escape(name)}">{escape(name)}</th>{"".join(cells)}</tr>')
    told = note("Rows are true classes, columns predicted ones; the colour is the share of the row.")
    return f'<div class="scroll"><table class="matrix"><tr><th></th>{head}</tr>{"".join(lines)}</table></div>{told}'
