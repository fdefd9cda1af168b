"""The command line: one small file per verb, arguments in, printing out; heavy imports inside the verb.

What a verb throws is made a sentence by canon/command.py, which carries it out.
"""

from __future__ import annotations

import typer

app = typer.Typer(
    name="canon",
    help="Train, compare and use the classic systems of deep learning, on your own data with one command.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def register_verbs() -> None:
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
    from canon.cli.options import checked

    app.registered_commands.clear()  # a process may carry out several command lines, as tests do
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
    groups = (group.typer_instance for group in app.registered_groups)
    for command in (*app.registered_commands, *(one for group in groups if group for one in group.registered_commands)):
        command.callback = checked(command.callback)
