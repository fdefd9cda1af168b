"""canon help [TOPIC]"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from canon.errors import unknown


def help_(
    topic: Annotated[str, typer.Argument(help="One of the topics; all are listed where none is named.")] = "",
) -> None:
    """Print a short page about a topic, as data, runs or search.

    Examples:
    canon help
    canon help data
    """
    folder = files("canon") / "help"
    pages = {page.name.removesuffix(".md"): page for page in folder.iterdir() if page.name.endswith(".md")}
    if not topic:
        for name in sorted(pages):
            title = pages[name].read_text(encoding="utf-8").partition("\n")[0]
            print(f"canon help {name:<16}{title.partition(': ')[2]}")
    elif topic in pages:
        print(pages[topic].read_text(encoding="utf-8"), end="")
    else:
        raise unknown("topic", topic, pages)
