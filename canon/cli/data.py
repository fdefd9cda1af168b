"""canon data fetch NAME; canon data cache [--clear]"""

from __future__ import annotations

from typing import Annotated

import typer

from canon.cli.options import Json, print_result

MADE = ("corpora", "kernels", "inductor")  # what canon makes itself
PARTS = {
    "corpora": "text that was counted or tokenized",
    "kernels": "compiled kernels",
    "inductor": "what torch.compile made",
    "data": "fetched data sets",
}


def fetch(
    name: Annotated[str, typer.Argument(help="The name of a set in canon list datasets.")],
    json: Json = False,
) -> None:
    """Download a named data set and check its sha256.

    Examples:
    canon data fetch fashion-mnist
    """
    from canon.data.catalogue import fetch as download

    path = download(name)
    print_result(json, {"dataset": name, "path": str(path)}, path)


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove what can be made again: corpora, compiled code.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what canon keeps between commands: counted and tokenized text, compiled kernels, fetched sets.

    Examples:
    canon data cache
    canon data cache --clear
    """
    from canon.storage import cache_folder, clear_cache, size_of

    folder = cache_folder()
    if clear:
        clear_cache(MADE)
    rows = [{"what": what, "megabytes": size_of(folder / name) / 1e6} for name, what in PARTS.items()]
    print_result(json, {"folder": str(folder), "parts": rows}, rows)
    if not json:
        print(folder)
