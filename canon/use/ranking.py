"""The documents of queries in the order of a run's scores, as rows and as a run of TREC.

A line of TREC's form is `query Q0 document rank score name`; trec_eval sorts by score, so equal scores are a little
apart there. Names lose their white space, which separates the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from canon.errors import CanonError
from canon.tasks.base import OfLists
from canon.use.model import Model

MOST = 1 << 30  # documents of a query: all


class RankedDocument(NamedTuple):
    query: str
    source: str  # the query, and its file where there are several
    rank: int
    document: str
    score: float


def ranked(model: Model, sources: list[Any], top: int = MOST) -> Iterator[RankedDocument]:
    """The first `top` documents of each query of files, rows or an array."""
    if not isinstance(model.task, OfLists):
        raise CanonError(
            f"{model.run.path} does not rank documents; train a ranker first, as in canon train queries.txt."
        )
    for row in model.predict(sources, top):
        for rank, choice in enumerate(row["top"], start=1):
            yield RankedDocument(row["query"], row["source"], rank, choice["document"], choice["score"])


def trec_lines(rows: Iterator[RankedDocument], name: str) -> Iterator[str]:
    """A run of TREC, whose scores fall strictly."""
    before = math.inf
    for row in rows:
        before = row.score if row.rank == 1 else min(row.score, math.nextafter(before, -math.inf))
        query, document = ("_".join(text.split()) or "_" for text in (row.query, row.document))
        yield f"{query} Q0 {document} {row.rank} {before!r} {name}"
