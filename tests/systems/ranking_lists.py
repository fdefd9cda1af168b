"""Small rankings, and learners of them without a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from canon.contracts import Context, Learner
from canon.data.batching.lists import Grades, Lists
from canon.data.schema import Columns
from canon.objectives.choosing import settings_for
from canon.registry import find
from tests.learners import data_of


def lists(queries: int, documents: int, features: int, seed: int = 0, grades: int = 3) -> Columns:
    """Queries of unequal length whose grades depend on the features, with noise; some features have few values."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, documents + 1, queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    values = draw.random((offsets[-1], features)).astype(np.float32)
    values[:, 1::2] = np.round(values[:, 1::2], 1)
    merit = values @ np.linspace(1, -0.5, features) + 0.3 * draw.standard_normal(len(values))
    labels = np.searchsorted(np.quantile(merit, np.linspace(0.5, 1, grades)[:-1]), merit).astype(np.float32)
    names = np.array([f"q{query}" for query in range(queries)], dtype=object)
    return {"input": Lists(values, offsets), "target": Grades(labels, offsets), "query": names}


def learner(name: str, columns: Columns, *, objective: str = "", batch: int = 0, seed: int = 0, **more: Any) -> Learner:
    """Ready to learn. Settings of the objective are among `more`, as objective_NAME; every is checkpoint_every."""
    system, _ = find(name)
    train = SimpleNamespace(checkpoint_every=more.pop("every", 50), threads=1)
    chosen = {key.removeprefix("objective_"): more.pop(key) for key in list(more) if key.startswith("objective_")}
    objective = objective or system.objective
    choice = SimpleNamespace(name=objective, settings=settings_for(system, objective)(**chosen))
    cls, network = system.load()
    recipe = SimpleNamespace(train=train, objective=choice)
    shape = columns["input"].values.shape[1:]  # type: ignore[union-attr]
    built: Learner = network(cls(shape=shape, **more), Context(recipe=recipe, seed=seed))
    built.begin(data_of(columns), batch, 100)
    return built


def take(built: Learner, steps: int, first: int = 1) -> Learner:
    for number in range(first, first + steps):
        if not built.step(number):
            break
    return built


def scores(built: Learner, columns: Columns) -> np.ndarray:
    return np.asarray(built.outputs(columns)["scores"])


def pairs(built: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of the training documents all (i, j) of one query with l_i > l_j, one by one."""
    of = built.documents
    measures = [
        (i, j)
        for first, end in zip(of.offsets[:-1], of.offsets[1:], strict=True)
        for i in range(first, end)
        for j in range(first, end)
        if of.labels[i] > of.labels[j]
    ]
    return np.array(measures).T[0], np.array(measures).T[1]
