"""Recalls: each finds some documents for a query; their union is what is ranked.

| recall | finds |
| --- | --- |
| bm25 | documents that share words with the query, in one field or in all |
| vectors | documents whose vectors are nearest to the query's, by comparing all or by a graph |
| recommender | what a run recommends to a user, or to one who has some items; nothing for a text |
| popular | documents with the largest numbers in a column |
| recent | the newest documents |

Without a ranker, a document's score is Σ 1/(60 + rank) over the recalls that found it (Cormack, Clarke and Büttcher
2009); with one, each recall gives two features, 1 / rank and score, 0 where it did not find the document.
Shapes: Q queries, K results, n documents, p pairs of a query and a candidate, R recalls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError, unknown
from canon.storage import write_text
from canon.training.trainer import train
from canon.use.features.index import ALL_FIELDS, FeatureIndex
from canon.use.features.text import Candidates
from canon.use.pipeline import settings as s
from canon.use.pipeline.documents import StoredDocuments
from canon.use.search.bm25 import BM25
from canon.use.search.folder import VectorFolder, encode

RUN = "run"  # in the folder of a recommender: one that the pipeline has trained
FUSED = 60  # of reciprocal ranks
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PipelineRequest:
    """A query: a text, a user, or the ids of items that someone has."""

    text: str = ""
    user: str = ""
    items: tuple[str, ...] = ()


Find = Callable[
    [Sequence[PipelineRequest]], tuple[np.ndarray, np.ndarray]
]  # rows [Q, K], −1 for none, and scores [Q, K]


@dataclass(frozen=True)
class Recall:
    name: str
    find: Find
    how: Callable[[PipelineRequest], str] = lambda request: ""  # trained, fold-in or popular: of a recommender
    known: Callable[[PipelineRequest], Sequence[str]] = lambda request: ()  # items that the user has


@dataclass(frozen=True)
class Recalled:
    """The candidates of queries, with the rank and score that each recall gave them; rank 0: it did not find them."""

    candidates: Candidates
    ranks: np.ndarray  # int64 [p, R]
    scores: np.ndarray  # float64 [p, R]

    def features(self) -> np.ndarray:
        """[p, 2 R]"""
        inverse = np.divide(1.0, self.ranks, out=np.zeros(self.ranks.shape), where=self.ranks > 0)
        columns = np.stack([inverse, self.scores], axis=2)
        return columns.reshape(len(columns), 2 * self.ranks.shape[1]).astype(np.float32)

    def fused(self) -> np.ndarray:
        """[p]"""
        return np.where(self.ranks > 0, 1 / (FUSED + self.ranks), 0.0).sum(axis=1)


def names_of(recalls: Sequence[tuple[str, Any]]) -> list[str]:
    """A name for each recall: its own, then the field that it searches, then a number where two are the same."""
    names: list[str] = []
    for name, config in recalls:
        field = config.field if isinstance(config, s.Bm25Recall) else "whole"
        full = name if field == "whole" else f"{name}-{field}"
        if isinstance(config, s.RecommenderRecall) and config.recipe:
            full = config.recipe.rpartition("/")[2].replace(":", "-")
        names.append(full if full not in names else f"{full}-{len(names) + 1}")
    return names


def feature_names(recalls: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}-{what}" for name in recalls for what in ("inverse-rank", "score"))


def build(
    name: str, config: Any, folder: Path, index: FeatureIndex, rows: StoredDocuments, say: Callable[[str], None]
) -> None:
    """Writes what a recall needs in addition to the index of features."""
    where = f"recall.{name}"
    if isinstance(config, s.Bm25Recall):
        if config.field not in ALL_FIELDS:
            raise unknown(f"field ({where}.field)", config.field, ALL_FIELDS)
        BM25.over(index.fields[config.field], config.variant).save(folder)
    elif isinstance(config, s.VectorRecall):
        folder.mkdir(parents=True)
        texts = (" ".join(rows.row(place).get(key, "") for key in ("title", "body")) for place in range(len(rows)))
        lines = (json.dumps({"id": name, "text": text}) for name, text in zip(rows.ids, texts, strict=True))
        write_text(folder / "texts.jsonl", "\n".join(lines) + "\n")
        vectors = encode(config.model, [folder / "texts.jsonl"], folder / "vectors", say=say)
        (folder / "texts.jsonl").unlink()
        if config.index == "hnsw":
            vectors.graph(say)
    elif isinstance(config, s.RecommenderRecall):
        if config.recipe:
            say(f"training {config.recipe}")
            train(config.recipe, "", folder / RUN, changes=s.flat("", config.set), quiet=True)
        _recommender(name, config, folder, rows)  # which must be there
    elif isinstance(config, s.PopularRecall):
        rows.numbers(config.column, f"{where}.column")
    else:
        rows.seconds(config.column, f"{where}.column")


def open_recall(name: str, kind: str, config: Any, folder: Path, rows: StoredDocuments) -> Recall:
    where = f"recall.{kind}"
    if isinstance(config, s.Bm25Recall):
        bm25 = BM25.load(folder)
        assert bm25 is not None
        return Recall(name, lambda requests: bm25.search([one.text for one in requests], config.top, _NONE))
    if isinstance(config, s.VectorRecall):
        vectors = VectorFolder.open(folder / "vectors")
        return Recall(name, lambda requests: _nearest(vectors, requests, config))
    if isinstance(config, s.RecommenderRecall):
        return _recommender(name, config, folder, rows)
    popular = isinstance(config, s.PopularRecall)
    read = rows.numbers if popular else rows.seconds
    values_n = np.nan_to_num(read(config.column, f"{where}.column"), nan=-np.inf)
    best = np.argsort(-values_n, kind="stable")[: config.top]
    best = best[np.isfinite(values_n[best])]
    return Recall(name, lambda requests: (_repeated(best, requests), _repeated(values_n[best], requests)))


def _repeated(values: np.ndarray, requests: Sequence[PipelineRequest]) -> np.ndarray:
    return np.tile(values, (len(requests), 1))


def _nearest(
    folder: VectorFolder, requests: Sequence[PipelineRequest], config: s.VectorRecall
) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = _nothing(len(requests), config.top)
    asked = [place for place, one in enumerate(requests) if one.text]
    if asked:
        texts = [requests[place].text for place in asked]
        vectors_QD = folder.encoder.encode(texts, folder.encoder.prompt("")).vectors
        nearest, values = folder.nearest(vectors_QD, config.top, config.index)
        rows[asked, : nearest.shape[1]], scores[asked, : nearest.shape[1]] = nearest, values
    return rows, scores


def run_of(config: s.RecommenderRecall, folder: Path) -> str:
    """Of a recommender: one that was there, or the one that is in its folder."""
    return config.run or str(folder / RUN)


def _recommender(name: str, config: s.RecommenderRecall, folder: Path, rows: StoredDocuments) -> Recall:
    from canon.contracts import Recommends
    from canon.data.encodings.events import EventSchema
    from canon.use.model import load
    from canon.use.recommend import recommend

    run = run_of(config, folder)
    model = load(run)
    schema, learner = model.schema, model.learner
    if not isinstance(schema, EventSchema) or not isinstance(learner, Recommends):
        raise CanonError(f"recall.recommender: {run} is not a run of a system that recommends.")
    if not set(schema.items) & set(rows.ids):
        raise CanonError(
            f"recall.recommender: no item of {run} ({schema.items[0]} …) is the id of a document ({rows.ids[0]} …)."
        )

    def of(request: PipelineRequest, top: int) -> dict[str, Any]:
        return recommend(model, request.user, () if request.user else request.items, top)

    def find(requests: Sequence[PipelineRequest]) -> tuple[np.ndarray, np.ndarray]:
        places, scores = _nothing(len(requests), config.top)
        for place, request in enumerate(requests):
            if request.user or request.items:
                best = [one for one in of(request, config.top)["items"] if one["item"] in rows.places]
                places[place, : len(best)] = [rows.places[one["item"]] for one in best]
                scores[place, : len(best)] = [one["score"] for one in best]
        return places, scores

    def known(request: PipelineRequest) -> Sequence[str]:
        place = schema.users.index(request.user) if request.user in schema.users else -1
        trained: Any = learner
        return [schema.items[item] for item in trained.known[place]] if place >= 0 else ()

    return Recall(name, find, lambda request: str(of(request, 1)["how"]), known)


def _nothing(queries: int, top: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((queries, top), -1, dtype=np.int64), np.full((queries, top), -np.inf)


def recall(
    recalls: Sequence[Recall], requests: Sequence[PipelineRequest], left_out: Sequence[np.ndarray] = ()
) -> Recalled:
    """The union of what all recalls find, each document once, in the order of the recalls and of their ranks.

    left_out: for each request, the documents to leave out of its answer."""
    lists = [one.find(requests) for one in recalls]
    docs: list[np.ndarray] = []
    ranks: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    for query in range(len(requests)):
        gone = left_out[query] if left_out else _NONE
        wanted = [(rows[query] >= 0) & ~np.isin(rows[query], gone) for rows, _ in lists]
        kept = [(rows[query][some], values[query][some]) for (rows, values), some in zip(lists, wanted, strict=True)]
        every = np.concatenate([rows for rows, _ in kept])
        different, first = np.unique(every, return_index=True)
        union = every[np.sort(first)]
        rank_kR, score_kR = np.zeros((len(union), len(lists)), dtype=np.int64), np.zeros((len(union), len(lists)))
        order = np.argsort(union)
        for number, (rows, values) in enumerate(kept):
            places = order[np.searchsorted(different, rows)]
            rank_kR[places, number] = np.arange(1, len(rows) + 1)
            score_kR[places, number] = values
        docs.append(union)
        ranks.append(rank_kR)
        scores.append(score_kR)
    return Recalled(Candidates.of(docs), np.concatenate(ranks), np.concatenate(scores))
