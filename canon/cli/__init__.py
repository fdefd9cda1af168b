"""The command line: one small file per verb, arguments in, printing out; heavy imports inside the verb.

A user's mistake (CanonError) is one sentence on stderr and exit code 2; a traceback is always a bug.
"""

from __future__ import annotations

import sys

import typer

from canon.errors import CanonError

app = typer.Typer(
    name="canon",
    help="Train, compare and use the classic systems of deep learning, on your own data with one command.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    from canon.cli import check, compare, data, describe, evaluate, list_, plot, predict, train

    for verb in (train, check, evaluate, predict, compare, list_, describe, plot, data):
        verb.register(app)
    try:
        app()
    except CanonError as mistake:
        print(f"canon: {mistake}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)  # the reader of our output, such as head, has gone
