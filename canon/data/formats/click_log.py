"""Click logs: which document was shown at which position for which query, and whether it was clicked.

| column | |
| --- | --- |
| query (qid, query_id), document (doc, item, id) | what was asked, and what was shown |
| position (rank) | from 1 |
| clicked (click, label) | 0 or 1 |
| session (view, impression), user, time | a view of a list is one session, else rows of one user, query and time |
| dwell | seconds that a reader stayed, of clicks |
| hop (second_hop) | of clicks: 1 where the reader clicked on from the document, else 0 |

Chinese names are 查询, 文档 or 商品, 位置, 点击, 会话. Without a session column, a new view begins wherever user,
query or time change, or the position does not rise.
Shapes: N rows, V views.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from canon.data.formats.row_dicts import column_of
from canon.data.formats.tables import Table, read_table
from canon.data.paths import find_path
from canon.data.settings import Columns
from canon.errors import CanonError

_QUERY = ("query", "qid", "query_id", "查询")
_DOCUMENT = ("document", "doc", "docid", "item", "item_id", "id", "文档", "商品")
_POSITION, _CLICKED = ("position", "rank", "pos", "位置"), ("clicked", "click", "label", "点击", "是否点击")
_HOP = ("hop", "second_hop", "hops")
_VIEW = ("session", "view", "impression", "session_id", "会话")


@dataclass(frozen=True)
class ClickLog:
    queries: list[str]
    documents: list[str]
    query: np.ndarray  # int64 [N], of queries
    document: np.ndarray  # int64 [N], of documents
    position: np.ndarray  # int64 [N], from 1
    clicked: np.ndarray  # bool [N]
    view: np.ndarray  # int64 [N], rising: rows of one list come together
    dwell: np.ndarray | None = None  # [N], NaN where unknown
    hop: np.ndarray | None = None  # [N] 0 or 1, NaN where unknown

    def __len__(self) -> int:
        return len(self.query)


def read_click_log(path: str | Path) -> ClickLog:
    file = find_path(path, named=False)
    table = read_table(file, Columns())
    if not len(table):
        raise CanonError(f"{file} has no rows.")
    names = table.names
    query_name = column_of(names, _QUERY, "the query", file)
    queries, query = table.factor(query_name)
    documents, document = table.factor(
        column_of([name for name in names if name != query_name], _DOCUMENT, "the document", file)
    )
    position = _whole(table, column_of(names, _POSITION, "the position", file), 1, None)
    clicked = _whole(table, column_of(names, _CLICKED, "the click", file), 0, 1).astype(bool)
    known = {name.lower(): name for name in names}
    dwell = _known(table, known["dwell"], np.inf, "seconds from 0") if "dwell" in known else None
    hops = next((known[name] for name in _HOP if name in known), "")
    hop = _known(table, hops, 1, "0 or 1") if hops else None
    parts = [known[name] for name in _VIEW if name in known][:1]
    if parts:
        view = table.factor(parts[0])[1]
        order = np.lexsort((position, view))
    else:
        others = [table.factor(known[name])[1] for name in ("user", "time") if name in known]
        change = np.zeros(len(query), dtype=bool)
        for column in (query, *others):
            change[1:] |= column[1:] != column[:-1]
        change[1:] |= position[1:] <= position[:-1]
        view, order = np.cumsum(change), np.arange(len(query))
    columns = (query, document, position, clicked, view)
    query, document, position, clicked, view = (column[order] for column in columns)
    dwell, hop = (None if column is None else column[order] for column in (dwell, hop))
    return ClickLog(queries, documents, query, document, position, clicked, view, dwell, hop)


def _known(table: Table, name: str, high: float, accepted: str) -> np.ndarray:
    """Numbers from 0 to `high` [N], NaN where a cell is empty."""
    values, bad = table.numbers(name)
    wrong = bad | (values < 0) | (values > high)
    if wrong.any():
        row = int(wrong.argmax())
        raise table.mistake(row, f'{name} must be {accepted}, or empty, got "{table.text(name, row)}".')
    return values


def _whole(table: Table, name: str, low: int, high: int | None) -> np.ndarray:
    values, bad = table.numbers(name)
    wrong = bad | np.isnan(values) | (values < low) | (values != np.floor(values))
    if high is not None:
        wrong |= values > high
    if wrong.any():
        row = int(wrong.argmax())
        accepted = f"a whole number from {low}" if high is None else f"{low} or {high}"
        raise table.mistake(row, f'{name} must be {accepted}, got "{table.text(name, row)}".')
    return values.astype(np.int64)
