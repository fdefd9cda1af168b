"""canon data fetch NAME"""

from __future__ import annotations

from typing import Annotated

import typer

from canon.cli.options import Json, print_json


def fetch(
    name: Annotated[str, typer.Argument(help="A named set of canon list datasets.")],
    json: Json = False,
) -> None:
    """Download a named data set, checked by its sha256."""
    from canon.data.catalogue import fetch as download

    path = download(name)
    if json:
        print_json({"dataset": name, "path": str(path)})
    else:
        print(path)


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Fetch named data sets.", rich_markup_mode=None)
    # A callback keeps the group a group although it has one verb.
    group.callback()(lambda: None)
    group.command(epilog="Example: canon data fetch fashion-mnist")(fetch)
    app.add_typer(group, name="data")
