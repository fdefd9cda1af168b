"""`canon features`: documents and queries to a file in LETOR's format, with the names of its features beside it.

A line is `label qid:N 1:v … # docid = D query = Q`; NAME.features.txt has the name of feature i on line i. The
candidates of a query come from a TREC run, or are the first K rows of BM25 over the whole text and every document that
qrels judge. A pair without a judgement has label 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from canon.data.formats.click_log import ClickLog, read_click_log
from canon.data.formats.documents import read_documents, read_queries
from canon.data.formats.trec import read_qrels, read_run
from canon.errors import CanonError, unknown
from canon.storage import writing
from canon.use.features import clicks as of_clicks
from canon.use.features.clicks import LoggedPairs
from canon.use.features.index import PRESETS, FeatureIndex
from canon.use.features.labels import FROM_CLICKS, of_file, of_log
from canon.use.features.text import Candidates
from canon.use.search.bm25 import BM25

_TOP = 100
_CHUNK = 200  # queries at once
_SHOWN = 10  # labels that are counted one by one
_Value = TypeVar("_Value")
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class LoggedFeatures:
    """Features of pairs in a click log."""

    values: dict[tuple[str, str], tuple[float, ...]]
    names: tuple[str, ...]
    missing: tuple[float, ...]  # of pairs that were never shown

    @classmethod
    def of(cls, log: ClickLog) -> LoggedFeatures:
        pairs = LoggedPairs.of(log)
        rates = of_clicks.rates(log, pairs)
        keys = [(log.queries[q], log.documents[d]) for q, d in zip(pairs.query, pairs.document, strict=True)]
        values = dict(zip(keys, zip(*(column.tolist() for column in rates.values()), strict=True), strict=True))
        missing = tuple(float(log.clicked.mean()) if name == "ctr" else 0.0 for name in rates)
        return cls(values, tuple(rates), missing)


def write_features(
    documents: Sequence[str | Path],
    queries: str | Path,
    out: str | Path,
    *,
    preset: str = "all",
    qrels: str | Path = "",
    run: str | Path = "",
    clicks: str | Path = "",
    labels: str | Path = "",
    least_views: int = 1,
    columns: Sequence[str] = (),
    top: int = _TOP,
) -> dict[str, Any]:
    """Writes the file and what it holds: queries, rows, features; labels by value."""
    if preset not in PRESETS:
        raise unknown("preset of features (--preset)", preset, PRESETS)
    target = Path(out)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise CanonError(f"{target} is a device: give a file; the names of features are written next to it.")
    if labels and qrels:
        raise CanonError("--labels and --qrels both say what the labels are: leave out one.")
    if labels in FROM_CLICKS and not clicks:
        raise CanonError(f"--labels {labels} makes labels from a click log: give --clicks.")
    if labels and labels not in FROM_CLICKS and not Path(labels).exists():
        raise unknown("way to make labels, or file (--labels)", str(labels), FROM_CLICKS)
    table, texts = read_documents(documents), read_queries(queries)
    index = FeatureIndex.of(table, columns)
    log = read_click_log(clicks) if clicks else None
    logged = None if log is None else LoggedFeatures.of(log)
    judged: Mapping[str, Mapping[str, float]] = {}
    if labels in FROM_CLICKS and log is not None:
        judged = of_log(log, str(labels), least_views)
    elif labels or qrels:
        judged = _by_name(of_file(labels) if labels else read_qrels(qrels), texts)
    ranked_lists = _by_name(read_run(run), texts) if run else None
    places = {name: place for place, name in enumerate(index.ids)}
    lists = _candidates(index, texts, places, judged, ranked_lists, top)
    if labels in FROM_CLICKS and log is not None:
        few = set(log.queries) - set(judged)
        lists = [_NONE if name in few else found for name, found in zip(texts, lists, strict=True)]
    names = (*PRESETS[preset], *columns)
    header = (*names, *(logged.names if logged else ()))
    counts: dict[float, int] = {}
    rows = 0
    with writing(target, names_file(target)) as (part, beside):
        beside.write_text("".join(f"{name}\n" for name in header))
        with part.open("w", encoding="utf-8") as file:
            for number, query, document, label, values in _rows(index, texts, lists, names, judged, logged):
                filled = " ".join(f"{place}:{value:.7g}" for place, value in enumerate(values, start=1))
                file.write(f"{label:.9g} qid:{number} {filled} # docid = {document} query = {query}\n")
                counts[label] = counts.get(label, 0) + 1
                rows += 1
        if not rows:
            raise CanonError(f"No query of {queries} shares a word with a document: there is nothing to write.")
    return {
        "file": str(target),
        "queries": sum(len(one) > 0 for one in lists),
        "rows": rows,
        "features": len(header),
        "labels": _shown(counts),
    }


def _shown(counts: dict[float, int]) -> dict[str, float]:
    """How many rows have each label, or between which numbers many labels are."""
    if len(counts) > _SHOWN:
        return {"lowest": min(counts), "highest": max(counts), "different": len(counts)}
    return {f"{label:g}": count for label, count in sorted(counts.items())}


def names_file(out: Path) -> Path:
    return out.parent / f"{out.name.removesuffix(out.suffix)}.features.txt"


def _candidates(
    index: FeatureIndex,
    texts: Mapping[str, str],
    places: Mapping[str, int],
    judged: Mapping[str, Mapping[str, float]],
    run: Mapping[str, Sequence[tuple[str, float]]] | None,
    top: int,
) -> list[np.ndarray]:
    for what, names in (("labels", judged), ("run", run or {})):
        if names and not set(names) & set(texts):
            raise CanonError(
                f"No query of the {what} ({next(iter(names))} …) is among the queries ({next(iter(texts))} …)."
            )
    documents = [document for name in texts for document in judged.get(name, ())]
    if documents and not set(documents) & set(places):
        raise CanonError(
            f"No document of the labels ({documents[0]} …) is among the documents ({next(iter(places), '')} …)."
        )
    if run is None:
        best, _ = BM25.over(index.whole).search(list(texts.values()), min(top, len(index.ids)), _NONE)
    lists = []
    for place, name in enumerate(texts):
        judged_documents = [places[document] for document in judged.get(name, {}) if document in places]
        ranked = best[place][best[place] >= 0].tolist() if run is None else _placed(run.get(name, ()), places)
        lists.append(np.array(list(dict.fromkeys([*ranked, *judged_documents])), dtype=np.int64))
    return lists


def _numbered(texts: Mapping[str, str]) -> list[str]:
    """What qid has for each query: its id, or its place from 1 where ids are not all numbers."""
    keys = list(texts)
    return keys if all(key.isdecimal() for key in keys) else [str(n) for n in range(1, len(keys) + 1)]


def _by_name(of_queries: Mapping[str, _Value], texts: Mapping[str, str]) -> dict[str, _Value]:
    """By the ids of queries, where all are given as qid has them: by a ranker that read a file of features."""
    names = dict(zip(_numbered(texts), texts, strict=True))
    if set(of_queries) <= set(names) and not set(of_queries) & set(texts):
        return {names[number]: value for number, value in of_queries.items()}
    return dict(of_queries)


def _placed(listed: Sequence[tuple[str, float]], places: Mapping[str, int]) -> list[int]:
    for document, _ in listed:
        if document not in places:
            raise CanonError(f"The run has the document {document}, which is not among the documents.")
    return [places[document] for document, _ in listed]


def _rows(
    index: FeatureIndex,
    texts: Mapping[str, str],
    lists: Sequence[np.ndarray],
    names: Sequence[str],
    judged: Mapping[str, Mapping[str, float]],
    logged: LoggedFeatures | None,
) -> Iterator[tuple[str, str, str, float, list[float]]]:
    keys, numbered = list(texts), _numbered(texts)
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        candidates = Candidates.of(lists[start : start + _CHUNK])
        values = index.features(names, [texts[key] for key in some], candidates)
        for query, place, row in zip(candidates.query_of.tolist(), candidates.docs.tolist(), values, strict=True):
            key, document = some[query], index.ids[place]
            more = logged.values.get((key, document), logged.missing) if logged else ()
            label = judged.get(key, {}).get(document, 0)
            yield numbered[start + query], key, document, label, [*row.tolist(), *more]
