"""The command line: one small file per verb, arguments in, printing out; heavy imports inside the verb.

A user's mistake (CanonError) is one sentence on stderr and exit code 2; a traceback is always a bug.
"""

from __future__ import annotations

import sys

import typer

from canon.errors import CanonError

# Its parent is click's UsageError: typer's own copy of click or the installed one, by version.
UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="canon",
    help="Train, compare and use the classic systems of deep learning, on your own data with one command.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    from canon.cli import (
        analogy,
        check,
        compare,
        convert,
        data,
        describe,
        evaluate,
        generate,
        inspect,
        list_,
        neighbors,
        plot,
        predict,
        tokenizer,
        train,
        translate,
        tune,
    )

    app.registered_commands.clear()  # main may be called again, as tests do
    app.registered_groups.clear()
    verbs = (
        train,
        check,
        evaluate,
        predict,
        translate,
        generate,
        neighbors,
        analogy,
        compare,
        tune,
        list_,
        describe,
        plot,
        inspect,
        convert,
    )
    for verb in (*verbs, tokenizer, data):
        verb.register(app)
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        sys.exit(app(standalone_mode=False))
    except CanonError as mistake:
        print(f"canon: {mistake}", file=sys.stderr)
        sys.exit(2)
    except UsageError as mistake:
        asked = mistake.ctx.command_path if mistake.ctx else "canon"
        print(f"canon: {mistake.format_message().rstrip('.')}; see {asked} --help.", file=sys.stderr)
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)  # the reader of our output, such as head, has gone
