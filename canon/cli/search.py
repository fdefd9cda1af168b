"""canon search V QUERY … [--top N] [--method NAME] [--index exact|hnsw] · canon search V PAIRS --mine K --out FILE
· canon search RUN QUERY … [--explain] [--now TIME], where RUN is a pipeline"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import AsText, Json, print_result
from canon.cli.streams import files_of
from canon.errors import CanonError

_QUERIES = ("query", "question", "text")  # columns of tables of queries


def search(
    folder: Annotated[
        str, typer.Argument(metavar="V|RUN", help="A folder of vectors, made by canon encode; or a pipeline's run.")
    ],
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY", help="Texts, or files with one on each line or in each row; - for standard input."
        ),
    ],
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows to list.")] = 10,
    method: Annotated[str, typer.Option(help="vectors, bm25 (words, without the model) or hybrid (both).")] = "vectors",
    index: Annotated[str, typer.Option(help="exact, or hnsw, a graph of neighbours.")] = "exact",
    ef: Annotated[int, typer.Option(min=0, help="hnsw: how widely to search; 0: 4 times --top, 64 at least.")] = 0,
    prompt: Annotated[str, typer.Option(help="The name of a prompt of the model, to put before each query.")] = "",
    column: Annotated[
        str, typer.Option(help="Tables of queries: their column; default: query, question or text, else the longest.")
    ] = "",
    model: Annotated[str, typer.Option(help="Where the model of V is now, if it was moved.")] = "",
    mine: Annotated[
        int, typer.Option(min=0, help="QUERY is a file of pairs: write so many hard negatives of each.")
    ] = 0,
    margin: Annotated[
        float, typer.Option(help="--mine: a negative scores so much less than the pair, at least.")
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="--mine: the .jsonl file to write.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Pipelines: what found each document, its place after each stage, why.")
    ] = False,
    now: Annotated[
        str, typer.Option(help="Pipelines: the time that freshness counts from; default: the clock's.")
    ] = "",
    text: AsText = False,
    json: Json = False,
) -> None:
    """Find the rows that are nearest to a text, by vectors, by words or by both; ask a pipeline; mine hard negatives.

    Examples:
    canon search vectors "How are volcanoes formed?" --top 5
    canon search vectors questions.txt --method hybrid --json
    canon search runs/pydocs "parse a date" --explain
    canon search vectors pairs.csv --mine 5 --margin 0.05 --out triples.jsonl
    """
    from canon.use.pipeline.settings import is_pipeline_run
    from canon.use.search.folder import VectorFolder

    if is_pipeline_run(folder):
        if mine or out or margin or prompt or model or ef or method != "vectors" or index != "exact":
            raise CanonError(
                f"{folder} is a pipeline, whose recipe says how it searches: give --top, --explain, --now."
            )
        _ask(folder, _asked(queries, text, column), top, explain, now, json)
        return
    if explain or now:
        raise CanonError(f"--explain and --now belong to pipelines; {folder} is not one.")
    vectors = VectorFolder.open(folder, model)
    if mine and column:
        raise CanonError("--column is for tables of queries: leave it out with --mine, which reads pairs.")
    if mine:
        _mine(vectors, queries, mine, margin, prompt, out, json)
        return
    if margin or out:
        raise CanonError("--margin and --out belong to --mine.")
    texts = _asked(queries, text, column)
    results = vectors.search(texts, top, method=method, index=index, prompt=prompt, ef=ef, say=_remark)
    _remark_nothing(texts, results)
    record = [{"query": query, "results": rows} for query, rows in zip(texts, results, strict=True)]
    several = len(texts) > 1
    shown = [
        {**({"query": query[:40]} if several else {}), **{name: row[name] for name in ("rank", "score", "id", "text")}}
        for query, rows in zip(texts, results, strict=True)
        for row in rows
    ]
    print_result(json, record, [{**row, "id": str(row["id"])} for row in shown])


def _ask(folder: str, texts: list[str], top: int, explain: bool, now: str, json: bool) -> None:
    from canon.errors import border
    from canon.use.pipeline.documents import seconds_of
    from canon.use.pipeline.pipeline import Pipeline

    with border(f'--now "{now}"', "is not a time, as 2026-11-19 or seconds since 1970"):
        seconds = seconds_of(now) if now else 0.0
    results = Pipeline.open(folder).search(texts, top, now=seconds, explain=explain)
    record = [{"query": query, "results": rows} for query, rows in zip(texts, results, strict=True)]
    shown = []
    for query, rows in zip(texts, results, strict=True):
        for row in rows:
            of_query = {"query": query[:40]} if len(texts) > 1 else {}
            shown.append(
                {**of_query, "rank": row["rank"], "score": row["score"], "id": row["id"], **_shown(row, explain)}
            )
    _remark_nothing(texts, results)
    print_result(json, record, shown)


def _remark(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _remark_nothing(texts: list[str], results: list[list[dict[str, Any]]]) -> None:
    for query, rows in zip(texts, results, strict=True):
        if not rows:
            _remark(f"Nothing found for {query[:40]!r}.")


def _shown(row: dict[str, Any], explain: bool) -> dict[str, str]:
    """A document in a line; explained: by which recalls at which ranks, and its rank after each stage."""
    if not explain:
        return {"title": str(row.get("title", ""))[:40], "text": row["text"][:80]}
    recalls = " ".join(f"{name}:{one['rank']}" for name, one in row["found"].items())
    stages = " → ".join(f"{name} {one['rank']}" for name, one in row["stages"].items())
    return {"found": recalls, "stages": stages}


def _asked(queries: list[str], text: bool, column: str) -> list[str]:
    with files_of([] if text else queries) as files:
        return _texts(queries if text else files, text, column)


def _texts(sources: list[str], text: bool, column: str) -> list[str]:
    from canon.data.paths import file_of
    from canon.use.search.inputs import rows_of

    texts: list[str] = []
    for source in sources:
        path = file_of(source, text)
        rows: Iterable[dict[str, Any]] = (
            [{"text": source}] if path is None else rows_of([path], column, _remark, _QUERIES)
        )
        texts += [row["text"] for row in rows if path is None or row["text"].strip()]
    if not texts:
        raise CanonError(f"{', '.join(sources)} holds no query.")
    return texts


def _mine(
    vectors: Any, queries: list[str], count: int, margin: float, prompt: str, out: Path | None, json: bool
) -> None:
    from json import dumps

    from canon.data.config import DataConfig
    from canon.data.kinds.sentences import SENTENCES
    from canon.storage import write_text

    if len(queries) != 1 or out is None:
        raise CanonError("--mine takes one file of pairs, and --out, the .jsonl file to write.")
    rows = SENTENCES.source(DataConfig(source=queries[0], valid=0.0, test=0.0)).parts["train"]
    if rows.width < 2:
        raise CanonError(f"{queries[0]} has one text in each row; --mine needs a text and the one that belongs to it.")
    if rows.scores is not None or rows.labels is not None:
        raise CanonError(
            f"{queries[0]} has {'scores' if rows.labels is None else 'classes'}, but --mine needs pairs that all "
            "belong together: leave out the others, and their column."
        )
    mined = vectors.mine([row[:2] for row in rows.sentences], count, margin, prompt)
    write_text(out, "".join(dumps(row, ensure_ascii=False) + "\n" for row in mined))
    record = {"file": str(out), "pairs": len(rows), "mined": len(mined)}
    print_result(json, record, f"{out}: {len(mined):,} of {len(rows):,} pairs have {count} negatives")
