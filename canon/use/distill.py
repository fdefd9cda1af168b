"""Soft labels of unlabelled texts by several runs together, for another network to learn (pattern-exploiting training).

Schick and Schütze 2021 (arXiv:2001.07676), section 3.3: the probabilities of the classes of a text x are
softmax(Σ_p w_p s_p(x) / (T Σ_p w_p)), s_p the scores of run p, T = 2, w_p the accuracy of its prompt on the training
set before training, or 1 → `soften`. A new network (`finetune`) then learns them; the columns are p(CLASS).
Deviations: none. Shapes: n texts, C classes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from canon.contracts import World
from canon.data.encodings.framed import FramedSchema
from canon.data.progress import bar
from canon.data.read import inputs as read_inputs
from canon.data.schema import num_examples, take
from canon.data.targets import Class
from canon.errors import CanonError
from canon.storage import write_text
from canon.tasks.finetune_text import TextClasses
from canon.training.data import read_data
from canon.training.origin import start_from_elsewhere
from canon.training.plan import build
from canon.use.model import Model, load

_AT_ONCE = 512


def distill(
    runs: Sequence[str | Path],
    texts: str | Path,
    out: str | Path,
    temperature: float = 2.0,
    weights: Literal["uniform", "accuracy"] = "uniform",
) -> dict[str, Any]:
    """Writes the texts of a file with the runs' soft labels as JSON lines; returns what was done."""
    if not runs:
        raise CanonError("Give the runs that label the texts, as in canon distill runs/a runs/b --texts FILE.")
    if not temperature > 0:
        raise CanonError(f"--temperature must be positive, got {temperature}.")
    if Path(out).suffix not in (".jsonl", ".json"):
        raise CanonError(f"--out must be a .jsonl file, got {out}.")
    models = [load(run) for run in runs]
    first = models[0].schema
    for run, model in zip(runs, models, strict=True):
        if not isinstance(model.schema.target, Class) or not isinstance(model.task, TextClasses):
            raise CanonError(f"{run} does not predict a class of a text, so it cannot label texts.")
        if model.schema.classes != first.classes:
            one, other = ", ".join(first.classes), ", ".join(model.schema.classes)
            raise CanonError(f"{runs[0]} has the classes {one}, but {run} has {other}: they cannot label together.")
    shares = [1.0 if weights == "uniform" else accuracy_before(model) for model in models]
    if not sum(shares):
        raise CanonError("No run has any right answer before training: give --weights uniform.")
    scores = [scores_of(model, texts) for model in models]
    soft_nC = soften(scores, shares, temperature)
    assert isinstance(first, FramedSchema)
    names = first.columns or ("text",)
    config = models[0].run.recipe.data
    rows = _rows(models[0], texts, config)
    lines = []
    for row, soft in zip(rows, soft_nC.tolist(), strict=True):
        label = first.classes[int(np.argmax(soft))]
        marks = {f"p({name})": round(value, 6) for name, value in zip(first.classes, soft, strict=True)}
        lines.append(json.dumps({**dict(zip(names, row, strict=False)), "label": label, **marks}, ensure_ascii=False))
    write_text(Path(out), "".join(f"{line}\n" for line in lines))
    counts = np.bincount(soft_nC.argmax(1).numpy(), minlength=len(first.classes)).tolist()
    return {
        "texts": len(lines),
        "out": str(out),
        "weights": dict(zip(map(str, runs), shares, strict=True)),
        "temperature": temperature,
        "labels": dict(zip(first.classes, counts, strict=True)),
    }


def soften(scores: Sequence[Tensor], weights: Sequence[float], temperature: float) -> Tensor:
    """softmax(Σ w s / (T Σ w)), [n, C]."""
    total = sum(weight * score for weight, score in zip(weights, scores, strict=True))
    return (torch.as_tensor(total) / (temperature * sum(weights))).softmax(1)


def scores_of(model: Model, texts: str | Path) -> Tensor:
    """s(x) of each text of a file, [n, C]."""
    columns, names = read_inputs(model.schema, str(texts), model.run.recipe.data, False, str(model.run.path))
    return _logits(model.learner, columns, len(names))


def accuracy_before(model: Model) -> float:
    """On the training set, before any training."""
    recipe, run = model.run.recipe, model.run
    learner, _ = build(recipe, run.schema, World())
    start_from_elsewhere(learner, recipe, run.schema)
    columns = read_data(recipe, run.path).splits["train"]
    logits = _logits(learner, columns, num_examples(columns))
    return float((logits.argmax(1).numpy() == np.asarray(columns["target"])).mean())


def _logits(learner: Any, columns: Any, size: int) -> Tensor:
    parts = []
    with bar("labelling", size) as progress:
        for start in range(0, size, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, size))
            parts.append(torch.from_numpy(learner.outputs(take(columns, rows))["logits"]))
            progress.advance(len(rows))
    return torch.cat(parts)


def _rows(model: Model, texts: str | Path, config: Any) -> list[tuple[str, ...]]:
    """The texts themselves."""
    from canon.data.encodings.framed_inputs import read_rows

    rows, _ = read_rows(model.schema, [str(texts)], config, False)  # type: ignore[arg-type]
    return list(zip(rows.first, *([rows.second] if rows.second else []), strict=True))  # type: ignore[union-attr]
