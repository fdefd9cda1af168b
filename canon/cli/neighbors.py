"""canon neighbors RUN_OR_FILE WORD … [--top N]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, print_json, print_table

if TYPE_CHECKING:
    from canon.use.vectors import Neighbor, Vectors

SOURCE_HELP = "A run of word vectors, or a file of them: word2vec, GloVe, fastText, numpy or safetensors."
ERRORS_HELP = "Of files: words that are not UTF-8 are an error (strict), or replace, ignore, surrogateescape."
PARTIAL_HELP = "Of files: read what is there of one that is cut short."
LIMIT_HELP = "Read the first so many words only; 0 all."
TOP_HELP = "How many words to give."
_EPILOG = """Examples:

canon neighbors runs/words king paris

canon neighbors glove.6B.100d.txt king --top 5 --limit 100000

canon neighbors cc.en.300.bin unknownish --json"""


def neighbors(
    source: Annotated[str, typer.Argument(metavar="RUN_OR_FILE", help=SOURCE_HELP)],
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="The words to look around.")],
    top: Annotated[int, typer.Option(min=1, help=TOP_HELP)] = 10,
    limit: Annotated[int, typer.Option(min=0, help=LIMIT_HELP)] = 0,
    errors: Annotated[str, typer.Option(help=ERRORS_HELP)] = "strict",
    partial: Annotated[bool, typer.Option("--partial", help=PARTIAL_HELP)] = False,
    json: Json = False,
) -> None:
    """List the words whose vectors are nearest by cosine."""
    vectors = open_vectors(source, limit, errors, partial)
    found = dict(zip(words, vectors.neighbors_of(words, top), strict=True))
    if json:
        print_json([{"word": word, "neighbors": as_rows(near)} for word, near in found.items()])
        return
    print_table([{"word": word, **row} for word, near in found.items() for row in as_rows(near)])


def open_vectors(source: str, limit: int, errors: str, partial: bool) -> Vectors:
    """The vectors, and what there is to note about them on stderr."""
    from canon.use.vectors import Vectors

    vectors = Vectors.open(source, limit=limit, errors=errors, partial=partial)
    for note in vectors.notes:
        print(note, file=sys.stderr)
    return vectors


def as_rows(near: list[Neighbor]) -> list[dict[str, Any]]:
    return [{"neighbor": one.word, "similarity": round(one.similarity, 6)} for one in near]


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(neighbors)
