"""TREC's files: qrels (query, 0, document, relevance) and runs (query, Q0, document, rank, score, name).

Columns are separated by blanks, so ids hold none. A run is read in the order of its scores, as trec_eval does;
canon.use.ranking writes one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from canon.data.formats.files import lines
from canon.data.paths import find_path
from canon.errors import CanonError

Qrels = dict[str, dict[str, int]]  # query -> document -> relevance
Run = dict[str, list[tuple[str, float]]]  # query -> documents and scores, best first


def read_qrels(path: str | Path) -> Qrels:
    """Relevance by query and document, 0 where it is less (spam), as trec_eval counts it; a pair with two labels is
    refused."""
    qrels: Qrels = {}
    for where, (query, _, document, label) in _columns(path, 4, "query 0 document relevance"):
        try:
            relevance = max(int(label), 0)
        except ValueError:
            raise CanonError(f'{where}: a relevance is a whole number, got "{label}".') from None
        known = qrels.setdefault(query, {})
        if known.setdefault(document, relevance) != relevance:
            raise CanonError(
                f"{where}: query {query} and document {document} have the labels {known[document]} and {label}."
            )
    return qrels


def read_run(path: str | Path) -> Run:
    """Documents of each query by falling score; equal scores by falling id, as trec_eval has them."""
    run: dict[str, dict[str, float]] = {}
    for where, (query, _, document, _, text, _) in _columns(path, 6, "query Q0 document rank score name"):
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if math.isnan(score):
            raise CanonError(f'{where}: a score is a number, got "{text}".')
        if document in run.setdefault(query, {}):
            raise CanonError(f"{where}: document {document} comes twice for query {query}.")
        run[query][document] = score
    return {
        query: sorted(sorted(scores.items(), reverse=True), key=lambda pair: -pair[1]) for query, scores in run.items()
    }


def _columns(path: str | Path, count: int, example: str) -> Iterator[tuple[str, list[str]]]:
    file = find_path(path, named=False)
    for number, line in enumerate(lines(file), start=1):
        if not (cells := line.split()):
            continue
        if len(cells) != count:
            raise CanonError(f"{file}, line {number}: a line is {example}, got {len(cells)} columns.")
        yield f"{file}, line {number}", cells
