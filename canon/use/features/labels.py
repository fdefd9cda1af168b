"""Labels of pairs of a query and a document that no judge gave: from clicks, from preferences, from another ranking.

| `--labels` | label |
| --- | --- |
| skip-above, last-click, skip-next | grades 0 to 2 by the preferences that a click log shows |
| ctr | clicks / views |
| ips | Σ over its clicks of min(1/θ_k, 10) / views, θ_k the chance that position k is seen, estimated from the log |
| a table of query, better, worse | grades 0 to 2: a document that won more often than it lost has 2, else 0, or 1 |
| a run of TREC | the score less the lowest of the query: a ranker, or a list in order, is learned from |
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from canon.data.formats.click_log import ClickLog
from canon.data.formats.files import lines
from canon.data.formats.row_dicts import column_of, row_dicts
from canon.data.formats.tables import ENDINGS
from canon.data.formats.trec import read_run
from canon.data.paths import find_path
from canon.errors import CanonError
from canon.use.features import clicks as of_clicks
from canon.use.features.clicks import EVEN, LOST, STRATEGIES, WON, LoggedPairs

Labels = dict[str, dict[str, float]]  # query -> document -> label
RATES = ("ctr", "ips")
FROM_CLICKS = (*STRATEGIES, *RATES)
_BETTER, _WORSE = ("better", "winner", "preferred", "chosen"), ("worse", "loser", "rejected")
_QUERY = ("query", "qid", "query_id")


def of_log(log: ClickLog, name: str, least_views: int = 1) -> Labels:
    """Labels of all pairs that were shown, of queries with `least_views` views or more."""
    pairs = LoggedPairs.of(log)
    views_Q = np.bincount(np.unique(np.stack([log.view, log.query]), axis=1)[1], minlength=len(log.queries))
    if name in RATES:
        weight_N = log.clicked.astype(np.float64)
        if name == "ips":
            weight_N = of_clicks.weights(log, of_clicks.propensities_by_em(log, pairs))
        values = pairs.sum(weight_N) / pairs.sum(np.ones(len(log)))
    else:
        values = of_clicks.labels(log, pairs, name)
    labels: Labels = {}
    for query, document, value in zip(pairs.query.tolist(), pairs.document.tolist(), values.tolist(), strict=True):
        if views_Q[query] >= least_views:
            labels.setdefault(log.queries[query], {})[log.documents[document]] = value
    if not labels:
        raise CanonError(f"No query of the click log has {least_views:,} views (--views); ask for fewer.")
    return labels


def of_file(path: str | Path) -> Labels:
    """Of a table of preferences, or a run of TREC."""
    file = find_path(path, named=False)
    first = next((line.split() for line in lines(file) if line.strip()), [])
    if file.suffix.lower() in ENDINGS or len(first) != 6:
        return _of_preferences(file)
    return {query: _above_lowest(dict(listed)) for query, listed in read_run(file).items()}


def _above_lowest(scores: dict[str, float]) -> dict[str, float]:
    lowest = min(scores.values())
    return {document: score - lowest for document, score in scores.items()}


def _of_preferences(file: Path) -> Labels:
    wins: Counter[tuple[str, str]] = Counter()
    named: tuple[str, str, str] | None = None
    for where, row in row_dicts(file):
        if named is None:
            query = column_of(row, _QUERY, "the query", file)
            named = (
                query,
                column_of(row, _BETTER, "the better document", file),
                column_of(row, _WORSE, "the worse", file),
            )
        query, better, worse = (str(row.get(name) or "").strip() for name in named)
        if not (query and better and worse) or better == worse:
            raise CanonError(f"{where}: a preference is a query and two documents, the better and the worse.")
        wins[query, better] += 1
        wins[query, worse] -= 1
    if named is None:
        raise CanonError(f"{file} has no preferences.")
    labels: Labels = {}
    for (query, document), count in wins.items():
        labels.setdefault(query, {})[document] = WON if count > 0 else LOST if count < 0 else EVEN
    return labels
