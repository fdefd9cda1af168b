"""A pipeline that was built: queries in, documents out, and why each is where it is.

| file of the run | |
| --- | --- |
| pipeline.json | that it is one: names of recalls and features, sizes, versions |
| recipe.json | the recipe as it was given |
| documents/ · index/ · recall/ | the documents; postings of their fields; what recalls need beside these |
| rank/ | candidates of judged queries as Parquet, and the run of the ranker that was trained on them |
| test.jsonl · result.json · report.html | judged test queries; scores stage by stage |

Shapes: Q queries, p pairs of a query and a candidate, F features, k candidates of one query.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError
from canon.storage import read_json
from canon.use.features.index import FeatureIndex
from canon.use.features.text import Candidates
from canon.use.pipeline import recall as of_recall
from canon.use.pipeline.documents import StoredDocuments
from canon.use.pipeline.rank import RankScorer, open_scorer
from canon.use.pipeline.recall import PipelineRequest, Recall, Recalled, feature_names, names_of, recall
from canon.use.pipeline.rerank import Likeness, Moment, Ordered, Step, step_of
from canon.use.pipeline.settings import PipelineRecipe, recipe_of

_CHUNK = 200  # queries at once
_SHOWN = 200  # characters of a body


Asked = str | PipelineRequest


def requested(query: Asked) -> PipelineRequest:
    return PipelineRequest(query) if isinstance(query, str) else query


@dataclass(frozen=True)
class Answered:
    """What happened to one query's candidates: how they were ordered after each stage."""

    recalled: Recalled  # of this query alone
    features: np.ndarray  # [k, F]; F is 0 without a ranker
    stages: dict[str, Ordered]  # in order; "recall" is the first

    @property
    def last(self) -> Ordered:
        return list(self.stages.values())[-1]


class Pipeline:
    """A search engine that was built: recalls, a ranker and later steps over one collection of documents."""

    def __init__(
        self,
        recipe: PipelineRecipe,
        rows: StoredDocuments,
        index: FeatureIndex,
        recalls: Sequence[Recall],
        scorer: RankScorer | None,
        path: Path,
    ) -> None:
        self.recipe, self.rows, self.index, self.recalls = recipe, rows, index, recalls
        self.scorer, self.path = scorer, path
        likeness = Likeness(index.whole, index.words_of_rows)
        named: dict[str, Step] = {}
        for name, config in recipe.reranks:
            named[name if name not in named else f"{name}-{len(named) + 1}"] = step_of(name, config, rows, likeness)
        self.steps = named

    @classmethod
    def open(cls, path: str | Path, ranked: bool = True) -> Pipeline:
        """The pipeline of a run.

        path: the run directory.
        ranked: with its ranker, which exists only after it was trained.
        """
        folder = Path(path)
        record = read_json(folder / "pipeline.json")
        recipe = recipe_of(record["name"], read_json(folder / "recipe.json"))
        rows = StoredDocuments(folder / "documents")
        index = FeatureIndex.load(folder / "index", rows.ids)
        recalls = [
            of_recall.open_recall(name, kind, config, folder / "recall" / name, rows)
            for name, (kind, config) in zip(names_of(recipe.recalls), recipe.recalls, strict=True)
        ]
        scorer = open_scorer(recipe.rank, folder, feature_names([one.name for one in recalls])) if ranked else None
        return cls(recipe, rows, index, recalls, scorer, folder)

    def candidates(self, queries: Sequence[Asked]) -> Recalled:
        """What the recalls find for the queries, before any ranking."""
        requests = list(map(requested, queries))
        for one in requests:
            if not (one.text.strip() or one.user or one.items):
                raise CanonError("A query is empty.")
        return recall(self.recalls, requests, [self._known(one) for one in requests])

    def _known(self, request: PipelineRequest) -> np.ndarray:
        """Documents that the user has."""
        names = {*request.items, *(name for one in self.recalls for name in one.known(request))}
        return np.array([self.rows.places[name] for name in names if name in self.rows.places], dtype=np.int64)

    def features(self, queries: Sequence[Asked], recalled: Recalled, names: Sequence[str]) -> np.ndarray:
        """float32 [p, F]: those of text and documents by name, then those of the recalls."""
        texts = [requested(query).text for query in queries]
        return np.concatenate([self.index.features(names, texts, recalled.candidates), recalled.features()], axis=1)

    def how(self, query: Asked) -> dict[str, str]:
        """What each recommender knows of the query's user: trained, fold-in or popular."""
        return {one.name: knowledge for one in self.recalls if (knowledge := one.how(requested(query)))}

    def answer(self, queries: Sequence[Asked], now: float = 0.0) -> list[Answered]:
        """Each query through all stages; now: seconds since 1970, 0 for those of the clock."""
        moment = Moment(now or time.time())
        answers: list[Answered] = []
        for start in range(0, len(queries), _CHUNK):
            some = queries[start : start + _CHUNK]
            recalled = self.candidates(some)
            values = scores = None
            if self.scorer is not None:
                values = self.features(some, recalled, self.scorer.names)
                scores = self.scorer.scores(values, recalled.candidates.offsets)
            fused = recalled.fused()
            for query in range(len(some)):
                low, high = recalled.candidates.offsets[query : query + 2].tolist()
                part = _part(recalled, low, high)
                stages = {"recall": Ordered.by(part.candidates.docs, fused[low:high])}
                if scores is not None:
                    stages["rank"] = Ordered.by(part.candidates.docs, scores[low:high])
                for name, step in self.steps.items():
                    stages[name] = step(list(stages.values())[-1], moment)
                features = np.empty((high - low, 0)) if values is None else values[low:high]
                answers.append(Answered(part, features, stages))
        return answers

    def search(
        self, queries: Sequence[Asked], top: int = 10, *, now: float = 0.0, explain: bool = False
    ) -> list[list[dict[str, Any]]]:
        """For each query the first documents, with their rank and score.

        queries: texts, or a PipelineRequest each, which has text, user and items.
        top: documents for each.
        now: seconds since 1970 for steps that weigh by age; 0 is the clock's.
        explain: with the recalls that found a document, its place after each stage, and its features.
        """
        return [self._results(answer, top, explain) for answer in self.answer(queries, now)]

    def _results(self, answer: Answered, top: int, explain: bool) -> list[dict[str, Any]]:
        results = []
        last = answer.last
        for rank, (doc, score) in enumerate(zip(last.docs[:top].tolist(), last.scores.tolist(), strict=False), start=1):
            row = self.rows.row(doc)
            body = " ".join(str(row.pop("body", "")).split())
            row.pop("anchor", None)
            shown = {name: cell for name, cell in row.items() if cell not in (None, "")}
            shown["text"] = body if len(body) <= _SHOWN else f"{body[:_SHOWN]}…"
            results.append({"rank": rank, "score": score, **shown, **(self._why(answer, doc) if explain else {})})
        return results

    def _why(self, answer: Answered, doc: int) -> dict[str, Any]:
        """Which recalls found a document, its place after each stage, and its features."""
        place = int(np.flatnonzero(answer.recalled.candidates.docs == doc)[0])
        recalls = {
            one.name: {"rank": int(rank), "score": float(score)}
            for one, rank, score in zip(
                self.recalls, answer.recalled.ranks[place], answer.recalled.scores[place], strict=True
            )
            if rank
        }
        stages = {}
        for name, ordered in answer.stages.items():
            at = int(np.flatnonzero(ordered.docs == doc)[0])
            stages[name] = {"rank": at + 1, "score": float(ordered.scores[at])}
        why: dict[str, Any] = {"found": recalls, "stages": stages}
        if self.scorer is not None:
            names = (*self.scorer.names, *feature_names([one.name for one in self.recalls]))
            why["features"] = dict(zip(names, answer.features[place].tolist(), strict=True))
        return why


def _part(recalled: Recalled, low: int, high: int) -> Recalled:
    offsets = np.array([0, high - low], dtype=np.int64)
    return Recalled(
        Candidates(offsets, recalled.candidates.docs[low:high]), recalled.ranks[low:high], recalled.scores[low:high]
    )
