"""Control: planning with known probabilities, and learning by acting."""

from __future__ import annotations

from functools import partial

from canon.registry.record import System

_planner = partial(
    System,
    chapter="control",
    encodings=("dynamics",),
    task="control",
    objective="bellman",
    loop="environment",
    torch="never",
    presets={"tiny": {}},
    logs={
        "change": "max over states of abs(V after the step − V before)",
        "start_value": "Σ_s p(start s) V(s)",
        "episodes": "that ended since the last line",
    },
    parameters="states",
)

SYSTEMS: tuple[System, ...] = (
    _planner(
        name="policy-iteration",
        title="Policy iteration",
        title_zh="策略迭代",
        paper="Howard 1960, Dynamic programming and Markov processes",
        module="canon.systems.control.planning:PolicyIteration",
        recipe="control/dynamic",
        deviations=(
            "of actions whose values are equal but for rounding the first is taken",
            "at γ = 1 the first policy takes moves by which episodes can end soonest, since one that circles has no "
            "value",
        ),
    ),
    _planner(
        name="value-iteration",
        title="Value iteration",
        title_zh="价值迭代",
        paper="Bellman 1957, Dynamic programming",
        module="canon.systems.control.planning:ValueIteration",
        recipe="control/dynamic-sweeps",
        deviations=("at γ = 1 it ends when V changes by less than `tol` in a sweep",),
    ),
)
