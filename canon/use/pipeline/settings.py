"""The settings of a pipeline's recipe: documents, queries, recalls, ranker, steps after it.

[[recall]] and [[rerank]] are lists; the `name` of each chooses the class of its other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from canon.config import Table, assign, parse, read_toml, settings
from canon.errors import CanonError, unknown
from canon.registry.recipes import PIPELINES

Top = Annotated[int, Field(gt=0, le=100_000)]
Share = Annotated[float, Field(ge=0, le=1)]


@settings
class DocumentSettings:
    source: str | tuple[str, ...] = Field(description="pydocs, movielens, or tables of documents")
    columns: tuple[str, ...] = Field(default=(), description="columns of numbers that are features too")


@settings
class QuerySourceSettings:
    source: str = Field(default="", description="a table or text of queries, to train and to evaluate by")
    qrels: str = Field(default="", description="their judged documents, in TREC's format")
    users: bool = Field(
        default=False,
        description="the queries are users, by the items that they have, and what the data of the first recommender "
        "holds out of each is to be found: its test part to evaluate by, its validation part to train a ranker",
    )
    valid: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.2, description="share of queries to choose by")
    test: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.2, description="share of queries to evaluate by")
    seed: int = Field(default=0, description="decides the split")
    relevant: int = Field(default=1, ge=1, description="least grade that recall and MRR count")


@settings
class Bm25Recall:
    top: Top = Field(default=100, description="how many documents it finds")
    field: str = Field(default="whole", description="body, anchor, title, url, or whole, all of them")
    variant: str = Field(default="lucene", description="lucene, robertson, atire, bm25l or bm25+")


@settings
class VectorRecall:
    model: str = Field(description="a run or folder that encodes texts, as canon encode takes it")
    top: Top = Field(default=100, description="how many documents it finds")
    index: Literal["exact", "hnsw"] = Field(default="exact", description="exact, or hnsw, a graph of neighbours")


@settings
class RecommenderRecall:
    run: str = Field(
        default="", description="a run that recommends items, whose ids are those of documents: factors, neighbours …"
    )
    recipe: str = Field(default="", description="or a recipe of one, which is trained")
    set: dict[str, Any] = Field(default_factory=dict, description="settings of its recipe, as --set has them")
    top: Top = Field(default=100, description="how many documents it finds")


@settings
class PopularRecall:
    column: str = Field(description="column of numbers: views, sales, the number of ratings")
    top: Top = Field(default=20, description="how many documents it finds")


@settings
class RecentRecall:
    column: str = Field(description="column of seconds since 1970, or of dates")
    top: Top = Field(default=20, description="how many documents it finds")


@settings
class Ranker:
    run: str = Field(description="a run of a ranker")
    weight: float = Field(default=1.0, description="of its scores, which are standardised over the candidates")


@settings
class RankSettings:
    recipe: str = Field(default="", description="a recipe of a ranker, which is trained on the queries; or runs")
    runs: tuple[Ranker, ...] = Field(default=(), description="existing runs, with weights")
    features: str | tuple[str, ...] = Field(default="all", description="all, letor, or names")
    queries: Annotated[int, Field(ge=0)] = Field(default=0, description="train on so many queries; 0: all")
    set: dict[str, Any] = Field(default_factory=dict, description="settings of its recipe, as for --set")


@settings
class Mmr:
    weight: Share = Field(default=0.7, description="λ: of relevance, against likeness to the results above")
    top: Top = Field(default=50, description="how many documents are chosen so; the others follow")


@settings
class Freshness:
    column: str = Field(description="column of seconds since 1970, or of dates")
    half_life: Annotated[float, Field(gt=0)] = Field(default=30.0, description="days")
    weight: Share = Field(default=0.5, description="of freshness, against the score")


@settings
class Novelty:
    column: str = Field(description="column of numbers, whose share of the sum is a document's popularity")
    beta: float = Field(default=0.02, description="of −log2 share, which is added")


@settings
class Filter:
    when: str = Field(description="keep the documents for which this holds")


@settings
class Boost:
    when: str = Field(description="of which documents")
    by: float = Field(default=0.5, description="what is added to their score, which is 0 to 1")


@settings
class Pin:
    when: str = Field(description="which documents")
    position: Annotated[int, Field(gt=0)] = Field(
        default=1, description="where the first of them goes; the others follow"
    )


@settings
class Cap:
    by: str = Field(description="column whose values are counted")
    most: Annotated[int, Field(gt=0)] = Field(default=2, description="how many")
    within: Annotated[int, Field(gt=0)] = Field(default=10, description="the first so many places; others go below")


RECALLS: Mapping[str, type] = {
    "bm25": Bm25Recall,
    "vectors": VectorRecall,
    "recommender": RecommenderRecall,
    "popular": PopularRecall,
    "recent": RecentRecall,
}
RERANKS: Mapping[str, type] = {
    "mmr": Mmr,
    "freshness": Freshness,
    "novelty": Novelty,
    "filter": Filter,
    "boost": Boost,
    "pin": Pin,
    "cap": Cap,
}
_SECTIONS = ("documents", "queries", "recall", "rank", "rerank", "expect")


@dataclass(frozen=True)
class PipelineRecipe:
    name: str
    documents: DocumentSettings
    queries: QuerySourceSettings
    recalls: tuple[tuple[str, Any], ...]  # name and settings
    rank: RankSettings | None
    reranks: tuple[tuple[str, Any], ...]
    expect: Table
    table: Table  # as it was given


def is_pipeline(name: str) -> bool:
    """Whether it is a pipeline's recipe: one of canon's, a TOML file with [[recall]], or the run of one."""
    if (PIPELINES / f"{name.removeprefix('pipeline/')}.toml").is_file() and name.startswith("pipeline/"):
        return True
    path = Path(name)
    if path.is_dir():
        return is_pipeline_run(path)
    return path.suffix == ".toml" and path.is_file() and "recall" in read_toml(path)


def is_pipeline_run(path: str | Path) -> bool:
    return (Path(path) / "pipeline.json").is_file()


def load_recipe(name: str, changes: Table) -> PipelineRecipe:
    builtin = PIPELINES / f"{name.removeprefix('pipeline/')}.toml"
    table = read_toml(builtin if name.startswith("pipeline/") and builtin.is_file() else Path(name))
    for key, value in changes.items():
        assign(table, key, value)
    return recipe_of(name.removesuffix(".toml"), table)


def recipe_of(name: str, table: Table) -> PipelineRecipe:
    for section in table:
        if section not in _SECTIONS:
            raise unknown("section", section, _SECTIONS)
    recalls = _several("recall", table.get("recall", []), RECALLS)
    if not recalls:
        raise CanonError(f'{name} finds nothing: give at least one recall, such as [[recall]] name = "bm25".')
    rank = table.get("rank")
    if rank is not None:
        runs = tuple(parse(Ranker, one, f"rank.runs.{number}") for number, one in enumerate(rank.get("runs", [])))
        rank = parse(RankSettings, {**rank, "runs": runs}, "rank")
        if bool(rank.recipe) == bool(rank.runs):
            raise CanonError("[rank] takes either `recipe`, which is trained, or `runs`, which exist already.")
    queries = parse(QuerySourceSettings, table.get("queries", {}), "queries")
    if queries.users and not any(isinstance(config, RecommenderRecall) for _, config in recalls):
        raise CanonError("queries.users asks for the users of a recommender: give a [[recall]] of that name.")
    return PipelineRecipe(
        name,
        parse(DocumentSettings, table.get("documents", {}), "documents"),
        queries,
        recalls,
        rank,
        _several("rerank", table.get("rerank", []), RERANKS),
        table.get("expect", {}),
        table,
    )


def flat(prefix: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """{"train": {"steps": 3}} as {"train.steps": 3}."""
    parts = (
        flat(f"{prefix}{key}.", value) if isinstance(value, dict) else {f"{prefix}{key}": value}
        for key, value in table.items()
    )
    return {key: value for part in parts for key, value in part.items()}


def _several(section: str, tables: Any, classes: Mapping[str, type]) -> tuple[tuple[str, Any], ...]:
    if not isinstance(tables, list):
        raise CanonError(f"{section} is a list: write [[{section}]], not [{section}].")
    parsed: list[tuple[str, Any]] = []
    for number, table in enumerate(tables, start=1):
        name = table.get("name", "")
        if name not in classes:
            raise unknown(f"{section} (number {number})", str(name), classes)
        rest = {key: value for key, value in table.items() if key != "name"}
        own: Any = parse(classes[name], rest, f"{section}.{name}")
        if isinstance(own, RecommenderRecall) and bool(own.run) == bool(own.recipe):
            raise CanonError(
                "recall.recommender takes a run, which is there, or a recipe, which is trained: one of both."
            )
        parsed.append((name, own))
    return tuple(parsed)
