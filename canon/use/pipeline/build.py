"""Builds a pipeline by its recipe: documents, indexes, candidates of judged queries, ranker, scores stage by stage.

A complete stage is kept: after a kill, the same command with --resume continues where it stopped.
The candidates of a split are partitions of a Parquet table, with columns qid, document, label and the features.
Shapes: p pairs of a query and a candidate.
"""

from __future__ import annotations

import json
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from canon.config import Table
from canon.data.catalogue.movielens import movielens
from canon.data.catalogue.pydocs import SearchData, pydocs
from canon.data.formats.documents import FieldedDocuments, read_documents, read_queries
from canon.data.formats.trec import read_qrels
from canon.data.progress import bar
from canon.errors import CanonError
from canon.storage import parse_json, read_json, write_text
from canon.use.features.index import FeatureIndex
from canon.use.pipeline import recall as of_recall
from canon.use.pipeline.documents import StoredDocuments
from canon.use.pipeline.evaluate import MEASURES, JudgedQueries, evaluate
from canon.use.pipeline.pipeline import Pipeline
from canon.use.pipeline.rank import RUN, feature_list
from canon.use.pipeline.recall import PipelineRequest, feature_names, names_of
from canon.use.pipeline.settings import PipelineRecipe, flat, is_pipeline_run, load_recipe, recipe_of
from canon.use.pipeline.users import users_of

SPLITS = ("train", "valid", "test")
_CHUNK = 500  # queries of a partition
_BUILTIN: Mapping[str, Callable[[], SearchData]] = {"pydocs": pydocs, "movielens": movielens}

Say = Callable[[str], None]


def build(name: str, out: str | Path | None, resume: bool, changes: Table, quiet: bool) -> tuple[Path, Table]:
    """The run directory of a pipeline, and what result.json holds."""
    if is_pipeline_run(name):
        if changes or out:
            raise CanonError(f"{name} is an existing pipeline; --resume continues it with its own recipe.")
        record = read_json(Path(name) / "pipeline.json")
        path, table, resume = Path(name), read_json(Path(name) / "recipe.json"), True
        recipe = recipe_of(record["name"], table)
    else:
        recipe = load_recipe(name, changes)
        path = Path(out) if out is not None else Path("runs") / Path(recipe.name).name

    def say(text: str) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    if path.exists() and not resume:
        raise CanonError(f"{path} already exists: add --resume to continue it, or give another --out.")
    path.mkdir(parents=True, exist_ok=True)
    if (path / "recipe.json").is_file() and read_json(path / "recipe.json") != json.loads(json.dumps(recipe.table)):
        raise CanonError(f"{path} was begun with another recipe: give another --out.")
    write_text(path / "recipe.json", json.dumps(recipe.table, ensure_ascii=False, indent=1) + "\n")
    _index(recipe, path, say)
    write_text(path / "pipeline.json", json.dumps({"name": recipe.name}) + "\n")
    judged = {split: _judged(path, split) for split in SPLITS}
    if recipe.rank is not None and recipe.rank.recipe:
        _train(recipe, path, judged, say, quiet)
    result: Table = {"pipeline": recipe.name, "documents": len(StoredDocuments(path / "documents"))}
    pipeline = Pipeline.open(path)
    if judged["test"].requests:
        result |= {"queries": {split: len(judged[split].requests) for split in SPLITS}}
        evaluation = evaluate(pipeline, judged["test"])
        result |= {"stages": evaluation.stages, "moves": evaluation.moves, "expected": recipe.expect}
    write_text(path / "result.json", json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    return path, result


def evaluate_run(path: str | Path) -> list[dict[str, Any]]:
    """The stages of a run on its judged test queries."""
    judged = _judged(Path(path), "test")
    if not judged.requests:
        raise CanonError(
            f"{path} was built without judged queries: give queries.source and queries.qrels to its recipe."
        )
    return evaluate(Pipeline.open(path), judged).stages


@contextmanager
def _whole(folder: Path) -> Iterator[Path | None]:
    """A folder to fill, which appears only when it is complete; None where it already exists."""
    if folder.exists():
        yield None
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    yield part
    part.rename(folder)


def _index(recipe: PipelineRecipe, path: Path, say: Say) -> None:
    """Documents, postings, what recalls need, and judged queries."""
    names = names_of(recipe.recalls)
    needed = [path / "documents", path / "index", path / "queries", *(path / "recall" / name for name in names)]
    if all(folder.exists() for folder in needed):
        return
    data = _data(recipe)
    with _whole(path / "documents") as part:
        if part:
            StoredDocuments.write(data.documents, part)
    with _whole(path / "index") as part:
        if part:
            FeatureIndex.of(data.documents, recipe.documents.columns).save(part)
    rows = StoredDocuments(path / "documents")
    index = FeatureIndex.load(path / "index", rows.ids)
    say(f"{len(rows):,} documents, {len(index.whole.words):,} words")
    for name, (kind, config) in zip(names, recipe.recalls, strict=True):
        with _whole(path / "recall" / name) as part:
            if part:
                part.mkdir()
                of_recall.build(kind, config, part, index, rows, say)
    with _whole(path / "queries") as part:
        if part:
            part.mkdir()
            held = users_of(recipe, path, rows) if recipe.queries.users else {}
            for split in SPLITS:
                lines = iter(held[split]) if held else _query_lines(data, split, rows)
                write_text(part / f"{split}.jsonl", "".join(f"{line}\n" for line in lines))


def _query_lines(data: SearchData, split: str, rows: StoredDocuments) -> Iterator[str]:
    for name, text in data.queries.get(split, {}).items():
        grades = {str(rows.places[doc]): grade for doc, grade in data.qrels.get(name, {}).items() if doc in rows.places}
        yield json.dumps({"id": name, "query": text, "grades": grades}, ensure_ascii=False)


def _judged(path: Path, split: str) -> JudgedQueries:
    lines = (path / "queries" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [parse_json(line, path / "queries") for line in lines]
    grades = [{int(doc): grade for doc, grade in row["grades"].items()} for row in rows]
    requests = [PipelineRequest(row["query"], items=tuple(row.get("items", ()))) for row in rows]
    return JudgedQueries(requests, [row["query"] or f"user {row['id']}" for row in rows], grades)


def _data(recipe: PipelineRecipe) -> SearchData:
    source, settings = recipe.documents.source, recipe.queries
    if isinstance(source, str) and source in _BUILTIN and not Path(source).exists():
        if settings.source or settings.qrels:
            raise CanonError(f"queries.source and queries.qrels belong to documents of your own, not to {source}.")
        return _BUILTIN[source]()
    documents: FieldedDocuments = read_documents([source] if isinstance(source, str) else source)
    if settings.users and (settings.source or settings.qrels):
        raise CanonError("queries.users takes users for queries: leave queries.source and queries.qrels out.")
    if not settings.source:
        return SearchData(documents)
    if not settings.qrels:
        raise CanonError("queries.qrels is missing: the judged documents of queries.source.")
    texts, qrels = read_queries(settings.source), read_qrels(settings.qrels)
    judged = {name: text for name, text in texts.items() if name in qrels}
    if not judged:
        raise CanonError(f"No query of {settings.source} is in {settings.qrels}.")
    queries: dict[str, dict[str, str]] = {split: {} for split in SPLITS}
    for name, text in judged.items():
        share = zlib.crc32(f"{settings.seed} {name}".encode()) / 2**32
        split = "test" if share < settings.test else "valid" if share < settings.test + settings.valid else "train"
        queries[split][name] = text
    return SearchData(documents, queries, qrels)


def _train(recipe: PipelineRecipe, path: Path, judged: Mapping[str, JudgedQueries], say: Say, quiet: bool) -> None:
    """Writes the candidates of training and validation queries, and trains the ranker on them."""
    from canon.training.trainer import train

    rank = recipe.rank
    assert rank is not None
    run = path / "rank" / RUN
    if (run / "result.json").is_file():
        return
    if not judged["train"].requests or not judged["valid"].requests:
        raise CanonError(
            "rank.recipe trains a ranker: give judged queries, as queries.source and queries.qrels, or queries.users."
        )
    data = path / "rank" / "data"
    with _whole(data) as part:
        if part:
            part.mkdir()
            bare = Pipeline.open(path, ranked=False)
            for split in SPLITS[:2]:
                _write_candidates(bare, judged[split], feature_list(rank), part / f"{split}.parquet", rank.queries)
    changes = {"data.test": 0.0, "data.valid": str(data / "valid.parquet"), **flat("", rank.set)}
    count = len(judged["train"].requests)
    say(f"training {rank.recipe} on the candidates of {min(rank.queries or count, count):,} queries")
    train(rank.recipe, str(data / "train.parquet"), run, resume=run.exists(), changes=changes, quiet=quiet)


def _write_candidates(pipeline: Pipeline, judged: JudgedQueries, names: Sequence[str], file: Path, most: int) -> None:
    """Candidates as the recalls find them, with features and grades: one Parquet table, a group of rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = (*names, *feature_names([one.name for one in pipeline.recalls]))
    kinds = [("qid", pa.string()), ("document", pa.string()), ("label", pa.int32())]
    schema = pa.schema([*kinds, *((name, pa.float32()) for name in columns)])
    requests, grades = judged.requests[: most or None], judged.grades[: most or None]
    with parquet.ParquetWriter(file, schema) as writer, bar("features", len(requests), unit="queries") as progress:
        for start in range(0, len(requests), _CHUNK):
            some = requests[start : start + _CHUNK]
            recalled = pipeline.candidates(some)
            values = pipeline.features(some, recalled, names)
            query, docs = recalled.candidates.query_of + start, recalled.candidates.docs
            called = [f"{file.stem}-{number}" for number in query.tolist()]  # unlike those of other splits
            labels = [grades[q].get(doc, 0) for q, doc in zip(query.tolist(), docs.tolist(), strict=True)]
            cells = [called, [pipeline.rows.ids[doc] for doc in docs.tolist()], np.array(labels, dtype=np.int32)]
            writer.write_table(pa.table([*cells, *values.T], schema=schema))
            progress.advance(len(some))


def lines_of(result: Table) -> list[dict[str, Any]]:
    """The table of stages, for a person."""
    return [
        {"stage": row["stage"], **{name: row[name] for name in MEASURES}, "p": _shown(row["p"])}
        for row in result.get("stages", [])
    ]


def _shown(p: float | None) -> str:
    return "–" if p is None else f"{p:.2g}"
