"""canon neighbors RUN_OR_FILE WORD … [--top N] · canon analogy RUN_OR_FILE A B C [--top N]"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, print_result

if TYPE_CHECKING:
    from canon.use.vectors import Vectors

ERRORS_HELP = "Files: words that are not UTF-8 are an error (strict), or replace, ignore, surrogateescape."
PARTIAL_HELP = "Files: read as much as there is of a truncated one."
_SOURCE_HELP = "A run of word vectors, or a file of them: word2vec, GloVe, fastText, numpy or safetensors."
Source = Annotated[str, typer.Argument(metavar="RUN_OR_FILE", help=_SOURCE_HELP)]
Top = Annotated[int, typer.Option(min=1, help="How many words to list.")]
Limit = Annotated[int, typer.Option(min=0, help="Read only the first N words; 0 reads all.")]
Errors = Annotated[str, typer.Option(help=ERRORS_HELP)]
Partial = Annotated[bool, typer.Option("--partial", help=PARTIAL_HELP)]


def neighbors(
    source: Source,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="The words to look around.")],
    top: Top = 10,
    limit: Limit = 0,
    errors: Errors = "strict",
    partial: Partial = False,
    json: Json = False,
) -> None:
    """List the words whose vectors are nearest by cosine.

    Examples:
    canon neighbors runs/words king paris
    canon neighbors glove.6B.100d.txt king --top 5 --limit 100000
    canon neighbors cc.en.300.bin unknownish --json
    """
    nearest = _open(source, limit, errors, partial).neighbors_of(words, top)
    rows: dict[str, list[dict[str, Any]]] = {
        word: [{"neighbor": one.word, "similarity": round(one.similarity, 6)} for one in near]
        for word, near in zip(words, nearest, strict=True)
    }
    record = [{"word": word, "neighbors": near} for word, near in rows.items()]
    print_result(json, record, [{"word": word, **row} for word, near in rows.items() for row in near])


def analogy(
    source: Source,
    a: Annotated[str, typer.Argument(metavar="A", help="As this is …")],
    b: Annotated[str, typer.Argument(metavar="B", help="… to this, …")],
    c: Annotated[str, typer.Argument(metavar="C", help="… so is this to the answer.")],
    top: Top = 10,
    limit: Limit = 0,
    errors: Errors = "strict",
    partial: Partial = False,
    json: Json = False,
) -> None:
    """Answer A : B = C : ? by the words nearest to B - A + C.

    Examples:
    canon analogy runs/words man king woman
    canon analogy glove.6B.100d.txt berlin germany paris --top 1 --json
    """
    nearest = _open(source, limit, errors, partial).analogy(a, b, c, top)
    rows: list[dict[str, Any]] = [{"answer": one.word, "similarity": round(one.similarity, 6)} for one in nearest]
    print_result(json, {"question": [a, b, c], "answers": rows}, rows)


def _open(source: str, limit: int, errors: str, partial: bool) -> Vectors:
    """The vectors; notes about them go to stderr."""
    from canon.use.vectors import Vectors

    vectors = Vectors.open(source, limit=limit, errors=errors, partial=partial)
    for note in vectors.notes:
        print(note, file=sys.stderr)
    return vectors
