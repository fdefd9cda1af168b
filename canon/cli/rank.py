"""canon rank RUN FILE … [--top N] [--trec NAME] [--out FILE]"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from canon.cli.options import Json
from canon.cli.streams import (
    STANDARD_INPUT,
    Format,
    Out,
    format_of,
    output,
    standard_input_as_file,
    with_piped,
    write_rows,
)
from canon.errors import CanonError


def rank(
    run: Annotated[str, typer.Argument(help="A run that ranks documents.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files of queries with documents, as the run was trained on; or -, standard input."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="So many documents of each query; 0: all.")] = 0,
    trec: Annotated[str, typer.Option(metavar="NAME", help="Write a run of TREC with this name.")] = "",
    format: Format = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Rank the documents of each query, the best first.

    Examples:
    canon rank runs/lambdarank queries.txt --top 5
    canon rank runs/lambdarank queries.txt --trec canon --out canon.run
    """
    from canon.data import encodings
    from canon.use.model import load
    from canon.use.ranking import MOST, ranked, trec_lines

    if trec and (format or json):
        raise CanonError("--trec is a format itself: leave out --format and --json.")
    if trec and trec.split() != [trec]:
        raise CanonError(f'--trec takes one word, as in --trec canon, got "{trec}".')
    form = format_of(format, None if trec else out, json)
    files = with_piped(sources, f"a file, as in canon rank {run} FILE")
    model = load(run)
    with ExitStack() as stack:
        piped = ""
        if "-" in files:
            ending = encodings.find(model.schema.encoding).piped_ending
            piped = str(stack.enter_context(standard_input_as_file(ending)))
        rows = list(ranked(model, [piped if piped and name == "-" else name for name in files], top or MOST))
    if trec:
        with output(out) as write:
            for line in trec_lines(iter(rows), trec):
                write(line)
    else:
        named = [row.source.replace(piped, STANDARD_INPUT) if piped else row.source for row in rows]
        plain = [
            {"source": source, "rank": row.rank, "document": row.document, "score": row.score}
            for source, row in zip(named, rows, strict=True)
        ]
        write_rows(plain, form, out)
    if out is not None:
        print(out)
