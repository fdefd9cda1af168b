"""A file of transitions to learn from in place of acting: a table with a row for each step.

Its columns are state, action, reward, next_state and terminated; states and actions are counted from 0. Without
`terminated` an end would look like a limit of steps, after which the value of the next state counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.contracts import Environment, Transitions
from canon.data.formats.tables import Table, read_table
from canon.data.paths import find_path
from canon.errors import CanonError

COLUMNS = ("state", "action", "reward", "next_state", "terminated")
_ENDS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def read(source: str, environment: Environment, name: str, config: Any) -> Transitions:
    table = read_table(find_path(source, named=False), config)
    if missing := [column for column in COLUMNS if column not in table]:
        raise CanonError(f"{source} has no column {missing[0]}: transitions need the columns {', '.join(COLUMNS)}.")
    states, actions = environment.observation.size, environment.num_actions
    rewards = _numbers(table, "reward")
    return Transitions(
        _places(table, "state", states, f"one of the {states:,} states of {name}, counted from 0"),
        _places(table, "action", actions, f"one of the {actions:,} actions of {name}, counted from 0"),
        rewards,
        _places(table, "next_state", states, f"one of the {states:,} states of {name}, counted from 0"),
        _flags(table),
        np.zeros(len(table), bool),
    )


def _numbers(table: Table, column: str) -> np.ndarray:
    values, _ = table.numbers(column)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise table.mistake(int(bad[0]), f'{column} "{table.text(column, int(bad[0]))}" is not a number.')
    return values


def _places(table: Table, column: str, count: int, what: str) -> np.ndarray:
    values = _numbers(table, column)
    bad = np.flatnonzero((values < 0) | (values >= count) | (values != np.floor(values)))
    if len(bad):
        raise table.mistake(int(bad[0]), f"{column} {table.text(column, int(bad[0]))} is not {what}.")
    return values.astype(np.int64)


def _flags(table: Table) -> np.ndarray:
    texts = np.char.lower(table.texts("terminated").astype(str))
    bad = np.flatnonzero(~np.isin(texts, list(_ENDS)))
    if len(bad):
        raise table.mistake(int(bad[0]), f'terminated "{texts[bad[0]]}" is not true or false, 1 or 0.')
    return np.isin(texts, [text for text, ends in _ENDS.items() if ends])
