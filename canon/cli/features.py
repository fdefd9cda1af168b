"""canon features DOCS … QUERIES --out F [--qrels F] [--run F] [--clicks F] [--labels NAME|F] [--preset letor]"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, print_result
from canon.errors import CanonError


def features(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="DOCS … QUERIES", help="Tables of documents (id, title, body, anchor, url, links); queries."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The file to write, in LETOR's format; names of features go beside it.")],
    qrels: Annotated[str, typer.Option(help="Labels: a TREC file of query, 0, document, relevance.")] = "",
    run: Annotated[str, typer.Option(help="The documents of each query: a TREC run; default: the first of BM25.")] = "",
    clicks: Annotated[
        str, typer.Option(help="A click log, for CTR and dwell: query, document, position, clicked.")
    ] = "",
    labels: Annotated[
        str,
        typer.Option(
            help="Labels of --clicks: skip-above, last-click, skip-next, ctr or ips; or a file: a table of query, "
            "better and worse, or a TREC run, whose scores are the labels."
        ),
    ] = "",
    views: Annotated[int, typer.Option(min=1, help="Labels of --clicks only for queries with so many views.")] = 1,
    preset: Annotated[str, typer.Option(help="all, or letor: the 46 features of LETOR 4.0.")] = "all",
    column: Annotated[
        list[str] | None, typer.Option(help="A column of numbers of the documents to use too, such as spam.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Without --run: how many documents BM25 finds for a query.")] = 100,
    json: Json = False,
) -> None:
    """Turn documents and queries into features for learning to rank.

    Examples:
    canon features docs.jsonl queries.tsv --out letor.txt --qrels qrels.txt
    canon features docs.jsonl queries.tsv --out letor.txt --qrels qrels.txt --preset letor
    canon features docs.jsonl queries.tsv --out letor.txt --clicks log.csv --labels skip-above
    canon features docs.jsonl queries.tsv --out learned.txt --run cheap.run --labels fine.run
    """
    from canon.use.features.letor import names_file, write_features

    if len(files) < 2:
        raise CanonError("canon features needs a table of documents and then the queries.")
    *documents, queries = files
    how = {"preset": preset, "qrels": qrels, "run": run, "clicks": clicks, "labels": labels, "columns": column or ()}
    record = write_features(documents, queries, out, top=top, least_views=views, **how)  # type: ignore[arg-type]
    shown = f"{out}: {record['rows']:,} documents of {record['queries']:,} queries, {record['features']} features"
    print_result(json, {**record, "names": str(names_file(out))}, f"{shown}; labels {_shares(record['labels'])}")


def _shares(labels: dict[str, float]) -> str:
    if "different" in labels:
        return f"from {labels['lowest']:.4g} to {labels['highest']:.4g}, {labels['different']:,} different"
    return ", ".join(f"{label}: {count:,}" for label, count in labels.items())
