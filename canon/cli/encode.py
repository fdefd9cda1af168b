"""canon encode MODEL FILE … --out V [--add] [--precision KIND] · canon encode V --remove ID … [--compact]"""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, print_result
from canon.cli.streams import files_of, with_piped
from canon.errors import CanonError


def encode(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A run of embed, a folder of sentence-transformers, a pre-trained network; or V."
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Texts: a line or a row of a table each; without them, or with -, standard input; or a text itself.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of vectors, V.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Append to V.")] = False,
    remove: Annotated[list[str] | None, typer.Option(metavar="ID", help="Take the row of this id out of V.")] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Write V again without the rows taken out.")] = False,
    precision: Annotated[str, typer.Option(help="float32, float16, int8 or binary.")] = "float32",
    pooling: Annotated[
        list[str] | None, typer.Option(help="Of a network that does not say how it pools: mean, cls, last …")
    ] = None,
    prompt: Annotated[str, typer.Option(help="The name of a prompt of the model, to put before each text.")] = "",
    column: Annotated[str, typer.Option(help="Tables: the column of text; default: text, else the longest.")] = "",
    json: Json = False,
) -> None:
    """Turn texts into vectors: vectors.npy, in the order of the input, rows.jsonl and meta.json in a folder; texts as
    arguments are printed as JSON lines.

    Examples:
    canon encode runs/embed corpus.txt --out vectors
    canon encode runs/embed "A text"
    canon encode all-MiniLM-L6-v2 docs.jsonl --column body --out vectors --precision int8
    canon encode all-MiniLM-L6-v2 more.jsonl --out vectors --add
    grep volcano corpus.txt | canon encode runs/embed - --out vectors
    canon encode vectors --remove 17 --compact
    """
    from canon.data.paths import file_of
    from canon.use.search.folder import VectorFolder, texts_of
    from canon.use.search.folder import encode as encode_files

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    if remove or compact:
        if files or out or add:
            raise CanonError(
                "--remove and --compact take the folder of vectors alone, as in canon encode V --remove ID."
            )
        folder = VectorFolder.open(model)
        record = {"folder": model, "removed": folder.remove(remove) if remove else 0}
        if compact:
            record["compacted"] = folder.compact()
    else:
        if out is None and files and all(name != "-" and file_of(name) is None for name in files):
            rows = texts_of(model, files, pooling or (), prompt)
            print(dumps(rows, indent=1) if json else "\n".join(map(dumps, rows)))
            return
        if out is None:
            raise CanonError("canon encode needs files of texts and --out V, the folder of their vectors.")
        how = {"add": add, "precision": precision, "pooling": pooling or (), "prompt": prompt, "column": column}
        with files_of(with_piped(files, f"files of texts, as in canon encode {model} FILE --out {out}")) as sources:
            folder = encode_files(model, sources, out, say=say, **how)  # type: ignore[arg-type]
        record = {"folder": str(out), "truncated": folder.store.meta["truncated"], "empty": folder.store.meta["empty"]}
    meta = folder.store.meta
    record |= {"rows": len(folder), "dim": meta["dim"], "precision": meta["precision"]}
    print_result(json, record, f"{record['folder']}: {len(folder):,} vectors of {meta['dim']} in {meta['precision']}")
