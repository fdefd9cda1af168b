"""Learners without a run: what they are given to learn from."""

from __future__ import annotations

from canon.data.schema import Columns, Data, Schema


def data_of(columns: Columns) -> Data:
    """Data whose training split these columns are."""
    return Data("columns", Schema(), {"train": columns})
