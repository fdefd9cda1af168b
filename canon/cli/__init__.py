"""The command line: one small file per verb, arguments in, printing out; heavy imports inside the verb.

A verb's docstring is its help: what it does, then its examples. canon/command.py runs the verb and turns what it raises
into a sentence.
"""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
import typer.core

# MODULE:FUNCTION by what a person wants to do, in the order of the help.
_VERBS = {
    "Train and compare": (
        *("train:train", "compare:compare", "tune:tune"),
        *("claims:run", "claims:show", "claims:report", "claims:new"),
    ),
    "Know your data": ("check:check", "data:fetch", "data:cache", "tokenizer:train"),
    "Use a run": (
        *("predict:predict", "evaluate:evaluate", "translate:translate", "generate:generate"),
        *("encode:encode", "search:search", "rank:rank", "recommend:recommend", "play:play"),
        *("neighbors:neighbors", "neighbors:analogy", "convert:convert", "distill:distill"),
        "features:features",
    ),
    "Look inside": (
        *("help_:help_", "list_:list_", "describe:describe", "plot:plot", "inspect:filters", "inspect:features"),
        *("inspect:attention", "inspect:gradients", "inspect:importances"),
    ),
}
# What others call a verb.
_ELSEWHERE = {
    "export": "convert RUN FILE --to onnx",
    "finetune": "train finetune --data PATH",
    "fit": "train PATH",
    "test": "evaluate RUN",
    "eval": "evaluate RUN",
    "infer": "predict RUN FILE",
    "embed": "encode RUN FILE",
    "ls": "list",
    "info": "describe NAME",
    "download": "data fetch NAME",
}
# Modules whose verbs are of two words, as in canon data fetch.
_GROUPS = {
    "inspect": "Look into a trained network: filters, features, attention, gradients, importances.",
    "tokenizer": "Learn vocabularies from your text.",
    "data": "Fetch named data sets; see and empty the cache.",
    "claims": "What papers and notes assert, as experiments: list, run and judge them.",
}
# Functions that groups call when no verb of theirs is given, and else before it.
_ALONE = {"claims": "claims:alone"}


def _first_word(place: str) -> str:
    """By which a verb is called: its own, or its group's."""
    module, _, name = place.partition(":")
    return module if module in _GROUPS else name.rstrip("_")


class _Headed(typer.core.TyperGroup):
    """The help of `canon`: verbs under the headings of `_VERBS`; another program's verb names canon's."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if verb := _ELSEWHERE.get(args[0]):
            ctx.fail(f"No such command '{args[0]}'. Did you mean 'canon {verb}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, places in _VERBS.items():
            names = dict.fromkeys(map(_first_word, places))
            with formatter.section(heading):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(90)) for name in names])


app = typer.Typer(
    name="canon",
    cls=_Headed,
    help="Train, compare and use the classic systems of deep learning, on your own data with one command.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"canon {version('deepcanon')}")
        raise typer.Exit


def _main(
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, compare and use the classic systems of deep learning, on your own data with one command."""


def register_verbs(asked: str = "") -> None:
    """Every verb, or only the one that is asked for: all others need not be imported."""
    from canon.cli.options import checked

    app.registered_commands.clear()  # a process may run several command lines, as tests do
    app.registered_groups.clear()
    app.callback()(_main)
    groups = {name: typer.Typer(help=text, rich_markup_mode=None) for name, text in _GROUPS.items()}
    every = [place for places in _VERBS.values() for place in places]
    for place in [place for place in every if _first_word(place) == asked] or every:
        module, _, name = place.partition(":")
        verb = vars(import_module(f"canon.cli.{module}"))[name]
        text, _, examples = (getdoc(verb) or "").partition("\n\nExamples:\n")
        epilog = "\n\n".join(["Examples:", *examples.splitlines()])  # a paragraph each, else lines are joined
        groups.get(module, app).command(name.rstrip("_"), help=text, epilog=epilog)(checked(verb))
    for name, group in groups.items():
        if not group.registered_commands:
            continue
        if name in _ALONE:
            module, _, function = _ALONE[name].partition(":")
            group.callback(invoke_without_command=True)(vars(import_module(f"canon.cli.{module}"))[function])
        else:
            group.callback()(lambda: None)  # keeps a group of one verb a group
        app.add_typer(group, name=name)
