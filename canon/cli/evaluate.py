"""canon evaluate RUN_OR_FILE [--data DATA] · canon evaluate RUN --task FILE_OR_SET [--shots K] [--template TEXT] …"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canon.cli.options import THRESHOLD, Json, print_json, print_table, set_threshold
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.use.model import Model

_EPILOG = """Examples:

canon evaluate runs/digits-mlp --json

canon evaluate glove.6B.100d.txt --data wordsim353

canon evaluate runs/gpt2 --task questions.jsonl --shots 4

canon evaluate runs/gpt2 --task reviews.csv --template "{text} It was {label}." --words 0=terrible --words 1=great"""


def evaluate(
    run: Annotated[str, typer.Argument(help="A run directory, or a file of word vectors.")],
    data: Annotated[str, typer.Option(help="Other labelled data than the run's own; of word vectors, a test.")] = "",
    split: Annotated[str, typer.Option(help="Which split of the run's own data: train, valid or test.")] = "test",
    top: Annotated[int | None, typer.Option(min=1, help="Labels of a document: predict the so many likeliest.")] = None,
    threshold: Annotated[float | None, typer.Option(help=THRESHOLD)] = None,
    labels: Annotated[bool, typer.Option("--labels", help="Show a line for each label, too.")] = False,
    task: Annotated[
        str, typer.Option(help="Language models: questions with choices, texts with classes or without, or a text.")
    ] = "",
    shots: Annotated[int, typer.Option(min=0, help="--task: so many examples stand in each prompt.")] = 0,
    template: Annotated[
        str,
        typer.Option(help="--task: the prompt, with {question}, {answer}, or {text}, {second}, {label}."),
    ] = "",
    words: Annotated[
        list[str] | None, typer.Option(metavar="CLASS=WORD", help="--task: what stands for a class in the text.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="--task: decides which examples are shown.")] = 0,
    json: Json = False,
) -> None:
    """Score a run's best weights on its test set, or on other labelled data."""
    from canon.tasks.labels import LabelTask
    from canon.use.model import load

    if Path(run).is_file():
        scores: Mapping[str, float | None] = _score_vectors(run, data)
        print_json(scores) if json else print_table([{"metric": name, "value": scores[name]} for name in scores])
        return
    model = load(run)
    if task:
        if data:
            raise CanonError("Give --data or --task, not both.")
        _score_task(model, task, shots, template, words or [], seed, json)
        return
    if shots or template or words:
        raise CanonError("--shots, --template and --words are of --task; name a file or a set with it.")
    if top is not None or threshold is not None:
        set_threshold(model.task, threshold, top)
    scores = model.evaluate(data or None, split=split)
    table = model.task.table if isinstance(model.task, LabelTask) else []
    if labels and not table:
        raise CanonError(f"--labels is for systems that give labels to documents; {run} is not of one.")
    for remark in model.task.remarks if table else ():
        print(remark, file=sys.stderr)
    if json:
        print_json({**scores, "labels": table} if table else scores)
        return
    print_table([{"metric": name, "value": value} for name, value in scores.items()])
    if labels:
        print()
        print_table(table)


def _score_task(model: Model, task: str, shots: int, template: str, words: list[str], seed: int, json: bool) -> None:
    from canon.use.scoring import evaluate_task

    parted = [word.partition("=") for word in words]
    for text, (label, sign, word) in zip(words, parted, strict=True):
        if not (label and sign and word):
            raise CanonError(f'--words takes a class and its word, as in --words positive=great; got "{text}".')
    given = {label: word for label, _, word in parted}
    found = evaluate_task(model, task, shots, template.replace("\\n", "\n"), given, seed)
    for remark in found.remarks:
        print(remark, file=sys.stderr)
    scores = found.scores
    print_json(scores) if json else print_table([{"metric": name, "value": scores[name]} for name in scores])


def _score_vectors(file: str, test: str) -> dict[str, float]:
    from canon.use.vectors import Vectors

    if not test:
        raise CanonError(f"{file} is a file of word vectors: say what tests them, as in --data wordsim353.")
    return Vectors.open(file).evaluate(test)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(evaluate)
