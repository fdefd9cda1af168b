"""canon check PATH"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from canon.cli.options import Json, Sets, changes_of, print_result
from canon.config import Table, assign, parse
from canon.errors import CanonError


def check(
    source: Annotated[str, typer.Argument(help="A file, a folder or a named set.")],
    set_: Sets = [],  # noqa: B006
    json: Json = False,
) -> None:
    """Read your data: counts, duplicates, lengths, missing values, and which systems it suits.

    Examples:
    canon check reviews.csv --set data.label=stars
    """
    from canon.data.checking.check import check as examine
    from canon.data.config import DataConfig
    from canon.tasks.records import TASK_RECORDS

    changes = changes_of(set_)
    for key in changes:
        if not key.startswith("data."):
            raise CanonError(f"canon check takes only data settings, as in --set data.label=stars; got {key}.")
    table: Table = {}
    for key, value in changes.items():
        assign(table, key.removeprefix("data."), value)
    config = parse(DataConfig, {**table, "source": source}, "data", dict.fromkeys(changes, "--set"))
    report = examine(config, lambda task: TASK_RECORDS[task].targets)
    print_result(json, asdict(report), "\n".join(report.render()))
