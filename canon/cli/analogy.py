"""canon analogy RUN_OR_FILE A B C [--top N]"""

from __future__ import annotations

from typing import Annotated

import typer

from canon.cli.neighbors import (
    ERRORS_HELP,
    LIMIT_HELP,
    PARTIAL_HELP,
    SOURCE_HELP,
    TOP_HELP,
    as_rows,
    open_vectors,
)
from canon.cli.options import Json, print_json, print_table

_EPILOG = """Examples:

canon analogy runs/words man king woman

canon analogy glove.6B.100d.txt berlin germany paris --top 1 --json"""


def analogy(
    source: Annotated[str, typer.Argument(metavar="RUN_OR_FILE", help=SOURCE_HELP)],
    a: Annotated[str, typer.Argument(metavar="A", help="As this is …")],
    b: Annotated[str, typer.Argument(metavar="B", help="… to this, …")],
    c: Annotated[str, typer.Argument(metavar="C", help="… so is this to the answer.")],
    top: Annotated[int, typer.Option(min=1, help=TOP_HELP)] = 10,
    limit: Annotated[int, typer.Option(min=0, help=LIMIT_HELP)] = 0,
    errors: Annotated[str, typer.Option(help=ERRORS_HELP)] = "strict",
    partial: Annotated[bool, typer.Option("--partial", help=PARTIAL_HELP)] = False,
    json: Json = False,
) -> None:
    """Answer A : B = C : ? by the words nearest to B - A + C."""
    found = open_vectors(source, limit, errors, partial).analogy(a, b, c, top)
    rows = [{"answer": row["neighbor"], "similarity": row["similarity"]} for row in as_rows(found)]
    if json:
        print_json({"question": [a, b, c], "answers": rows})
    else:
        print_table(rows)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(analogy)
