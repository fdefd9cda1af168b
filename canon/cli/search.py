"""canon search V QUERY … [--top N] [--method NAME] [--index exact|hnsw] · canon search V PAIRS --mine K --out FILE"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import AsText, Json, print_result
from canon.cli.streams import files_of
from canon.errors import CanonError


def search(
    folder: Annotated[str, typer.Argument(metavar="V", help="A folder of vectors, made by canon encode.")],
    queries: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="Texts, or files with one on each line; - for standard input.")
    ],
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows to list.")] = 10,
    method: Annotated[str, typer.Option(help="vectors, bm25 (words, without the model) or hybrid (both).")] = "vectors",
    index: Annotated[str, typer.Option(help="exact, or hnsw, a graph of neighbours.")] = "exact",
    ef: Annotated[int, typer.Option(min=0, help="hnsw: how widely to search; 0: 4 times --top, 64 at least.")] = 0,
    prompt: Annotated[str, typer.Option(help="The name of a prompt of the model, to put before each query.")] = "",
    mine: Annotated[
        int, typer.Option(min=0, help="QUERY is a file of pairs: write so many hard negatives of each.")
    ] = 0,
    margin: Annotated[
        float, typer.Option(help="--mine: a negative scores so much less than the pair, at least.")
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="--mine: the .jsonl file to write.")] = None,
    text: AsText = False,
    json: Json = False,
) -> None:
    """Find the rows that are nearest to a text, by vectors, by words or by both; or mine hard negatives.

    Examples:
    canon search vectors "How are volcanoes formed?" --top 5
    canon search vectors questions.txt --method hybrid --json
    canon search vectors pairs.csv --mine 5 --margin 0.05 --out triples.jsonl
    """
    from canon.use.search.folder import VectorFolder

    found = VectorFolder.open(folder)
    if mine:
        _mine(found, queries, mine, margin, prompt, out, json)
        return
    if margin or out:
        raise CanonError("--margin and --out belong to --mine.")
    with files_of([] if text else queries) as given:
        asked = _texts(queries if text else given, text)

    def say(sentence: str) -> None:
        print(sentence, file=sys.stderr)

    results = found.search(asked, top, method=method, index=index, prompt=prompt, ef=ef, say=say)
    record = [{"query": query, "results": rows} for query, rows in zip(asked, results, strict=True)]
    several = len(asked) > 1
    shown = [
        {**({"query": query[:40]} if several else {}), **{name: row[name] for name in ("rank", "score", "id", "text")}}
        for query, rows in zip(asked, results, strict=True)
        for row in rows
    ]
    print_result(json, record, [{**row, "id": str(row["id"])} for row in shown])


def _texts(sources: list[str], text: bool) -> list[str]:
    from canon.data.formats.files import lines
    from canon.data.paths import file_of

    texts: list[str] = []
    for source in sources:
        path = file_of(source, text)
        texts += [source] if path is None else [line.strip() for line in lines(path) if line.strip()]
    if not texts:
        raise CanonError(f"{', '.join(sources)}: there is no query.")
    return texts


def _mine(found: Any, queries: list[str], count: int, margin: float, prompt: str, out: Path | None, json: bool) -> None:
    from json import dumps

    from canon.data.config import DataConfig
    from canon.data.kinds.sentences import SENTENCES
    from canon.storage import write_text

    if len(queries) != 1 or out is None:
        raise CanonError("--mine takes one file of pairs, and --out, the .jsonl file to write.")
    rows = SENTENCES.source(DataConfig(source=queries[0], valid=0.0, test=0.0)).parts["train"]
    if rows.width < 2:
        raise CanonError(f"{queries[0]} has one text in each row; --mine needs a text and the one that belongs to it.")
    mined = found.mine([row[:2] for row in rows.sentences], count, margin, prompt)
    write_text(out, "".join(dumps(row, ensure_ascii=False) + "\n" for row in mined))
    record = {"file": str(out), "pairs": len(rows), "mined": len(mined)}
    print_result(json, record, f"{out}: {len(mined):,} of {len(rows):,} pairs have {count} negatives")
