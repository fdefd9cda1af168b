"""Documents with fields, and queries: what a search engine is made from.

| column of documents | |
| --- | --- |
| id (doc, docid, document, item) | names the document; its number from 0 where there is none |
| title (name) · body (text, content) · anchor (anchors) · url (address, path) | the fields; each may be missing |
| links (outlinks) | ids or addresses of other documents: a list, or a text with blanks between them |
| any other | numbers that features or rules use, or texts that rules use and answers show |

Queries are a table with a column query (text) and perhaps id (qid, query_id); or a text with one on each line.
Shapes: n documents, M links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.formats.files import ending, lines
from canon.data.formats.row_dicts import given, row_dicts
from canon.data.formats.tables import ENDINGS, canonical
from canon.data.paths import find_path
from canon.errors import CanonError

FIELDS = ("body", "anchor", "title", "url")
_ID = ("id", "doc", "docid", "document", "item", "item_id")
_COLUMNS = {
    "body": ("body", "text", "content"),
    "anchor": ("anchor", "anchors"),
    "title": ("title", "name"),
    "url": ("url", "address", "path"),
}
_LINKS = ("links", "outlinks")
_QUERY, _QUERY_ID = ("query", "text", "question"), ("id", "qid", "query_id", "question_id")


@dataclass(frozen=True)
class FieldedDocuments:
    ids: list[str]
    fields: dict[str, list[str]]  # of FIELDS
    links: np.ndarray = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))  # [2, M] from, to
    more: dict[str, list[Any]] = field(default_factory=dict)  # other columns

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, place: int) -> dict[str, Any]:
        """A document as columns by name."""
        texts = {name: column[place] for name, column in self.fields.items()}
        return {"id": self.ids[place], **texts, **{name: column[place] for name, column in self.more.items()}}


def read_documents(paths: Sequence[str | Path]) -> FieldedDocuments:
    return documents_of(pair for path in paths for pair in row_dicts(path))


def documents_of(rows: Iterable[tuple[str, dict[str, Any]]]) -> FieldedDocuments:
    """Documents from where each is written and its columns."""
    ids: dict[str, int] = {}
    fields: dict[str, list[str]] = {name: [] for name in FIELDS}
    pointed: list[Sequence[str]] = []
    more: dict[str, list[Any]] = {}
    known = {name.replace("_", ""): name for names in (_ID, *_COLUMNS.values(), _LINKS) for name in names}
    for place, (where, row) in enumerate(rows):
        cell = given(row, _ID)
        name = canonical(cell) if isinstance(cell, int | float) else str(place if cell is None else cell)
        if name in ids:
            raise CanonError(f"{where}: the id {name} comes twice.")
        ids[name] = place
        for key, names in _COLUMNS.items():
            fields[key].append(str(given(row, names) or ""))
        pointed.append(_listed(given(row, _LINKS)))
        for key, value in row.items():
            if key.lower().replace("_", "") not in known:
                column = more.setdefault(key, [])
                column += [None] * (place - len(column))
                column.append(value)
    if not ids:
        raise CanonError("There are no documents.")
    if not any(any(column) for name, column in fields.items() if name != "url"):
        raise CanonError("The documents have no text: columns title, body and anchor are read, and url.")
    for column in more.values():
        column += [None] * (len(ids) - len(column))
    return FieldedDocuments(list(ids), fields, _links(pointed, ids, fields["url"]), more)


def _listed(cell: Any) -> Sequence[str]:
    if cell is None:
        return ()
    return cell.split() if isinstance(cell, str) else [str(each) for each in cell]


def _links(pointed: list[Sequence[str]], ids: dict[str, int], urls: Sequence[str]) -> np.ndarray:
    """[2, M]; what is not one of our documents is left out."""
    places = {**{url: place for place, url in enumerate(urls) if url}, **ids}
    pairs = [(start, places[name]) for start, names in enumerate(pointed) for name in names if name in places]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def read_queries(path: str | Path) -> dict[str, str]:
    """The text of each query by its id."""
    file = find_path(path, named=False)
    queries: dict[str, str] = {}
    if ending(file) not in ENDINGS:
        texts = (line.strip() for line in lines(file))
        return {str(number): text for number, text in enumerate(filter(None, texts), start=1)} or _none(file)
    for number, (where, row) in enumerate(row_dicts(file), start=1):
        text, cell = given(row, _QUERY), given(row, _QUERY_ID)
        if text is None:
            raise CanonError(f"{where}: a query has its text in a column query (or text).")
        name = canonical(cell) if isinstance(cell, int | float) else str(number if cell is None else cell)
        if queries.setdefault(name, str(text)) != str(text):
            raise CanonError(f"{where}: the query {name} comes twice, with two texts.")
    return queries or _none(file)


def _none(file: Path) -> dict[str, str]:
    raise CanonError(f"{file} has no queries.")
