"""What a run's best weights say of its test set, and what guesses without input would reach.

Needs the data and a checkpoint; where one is missing, the report says so and goes without.
"""

from __future__ import annotations

from html import escape

import numpy as np

from canon.data.schema import Data
from canon.errors import CanonError
from canon.report import curves
from canon.report.page import drawing, note
from canon.training.run import Run
from canon.training.trainer import read_data
from canon.use.model import Model

_MOST_CLASSES = 30  # of a confusion matrix that can still be read
_MOST_EXAMPLES = 10_000  # of the test set that predictions are shown for


def predictions(run: Run, draw: bool, shown: bool) -> tuple[dict[str, float], str]:
    """Floors of the loss by name; and, if `shown`, a confusion matrix or a scatter as HTML."""
    try:
        data = read_data(run.recipe)
        run.check_same_data(data)
        model = Model(run)
    except CanonError as mistake:
        return {}, note(f"Not shown: {mistake}")
    targets = data.splits["train"].get("target")
    floors = model.task.floors(targets) if isinstance(targets, np.ndarray) and len(targets) else {}
    test = _test_rows(data)
    if test is None or not shown:
        return floors, ""
    outputs = model.learner.outputs({"input": test[0]})
    true, told = test[1], f"Of {len(test[1]):,} test examples." if len(test[1]) == _MOST_EXAMPLES else ""
    if hasattr(model.task, "scores") and len(run.schema.classes) <= _MOST_CLASSES:
        predicted = model.task.scores(outputs).argmax(dim=1).numpy()
        return floors, confusion_matrix(true, predicted, run.schema.classes) + note(told)
    if run.schema.target == "number" and draw:
        predicted = model.task.predictions(outputs)  # type: ignore[attr-defined]
        figure = curves.scatter_figure(true, predicted, run.schema.label)
        return floors, f'<div class="figures">{drawing(figure)}</div>' + note(told)
    return floors, ""


def _test_rows(data: Data) -> tuple[np.ndarray, np.ndarray] | None:
    columns = data.splits.get("test", {})
    if "target" not in columns or "input" not in columns:
        return None
    inputs, index = columns["input"], np.arange(min(_MOST_EXAMPLES, len(columns["input"])))
    rows = inputs[index] if isinstance(inputs, np.ndarray) else inputs.take(index)
    return rows, np.asarray(columns["target"])[index]


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
