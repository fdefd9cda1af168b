"""canon evaluate RUN_OR_FILE [--data DATA] · canon evaluate RUN --task FILE_OR_SET [--shots K] [--template TEXT] …"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, Threshold, print_result, print_table, set_threshold
from canon.errors import CanonError


def evaluate(
    run: Annotated[str, typer.Argument(help="A run directory, or a file of word vectors.")],
    data: Annotated[str, typer.Option(help="Other labelled data than the run's; for word vectors, a test.")] = "",
    split: Annotated[str, typer.Option(help="Which split of the run's data: train, valid or test.")] = "test",
    top: Annotated[int | None, typer.Option(min=1, help="Document labels: predict the N most likely.")] = None,
    threshold: Threshold = None,
    labels: Annotated[bool, typer.Option("--labels", help="Show a line for each label, too.")] = False,
    task: Annotated[
        str, typer.Option(help="Language models: questions with choices, texts with classes or without, or a text.")
    ] = "",
    shots: Annotated[int, typer.Option(min=0, help="--task: how many examples to put into each prompt.")] = 0,
    template: Annotated[
        str,
        typer.Option(help="--task: the prompt, with {question}, {answer}, or {text}, {second}, {label}."),
    ] = "",
    words: Annotated[
        list[str] | None, typer.Option(metavar="CLASS=WORD", help="--task: the word for a class in the text.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="--task: decides which examples are shown.")] = 0,
    json: Json = False,
) -> None:
    """Score a run's best weights on its test set, or on other labelled data.

    Examples:
    canon evaluate runs/digits-mlp --json
    canon evaluate glove.6B.100d.txt --data wordsim353
    canon evaluate runs/gpt2 --task questions.jsonl --shots 4
    canon evaluate runs/gpt2 --task reviews.csv --template "{text} It was {label}." --words 0=terrible --words 1=great
    """
    from canon.tasks.base import ListsLabels
    from canon.use.model import load
    from canon.use.pipeline.settings import is_pipeline_run

    if is_pipeline_run(run):
        from canon.use.pipeline.build import evaluate_run, lines_of

        if data or task:
            raise CanonError(f"{run} is a pipeline, which is evaluated by the judged queries that it was built with.")
        stages = evaluate_run(run)
        print_result(json, stages, lines_of({"stages": stages}))
        return
    if Path(run).is_file():
        from canon.use.vectors import Vectors

        if not data:
            raise CanonError(f"{run} is a file of word vectors: name a test for them, as in --data wordsim353.")
        _print_scores(Vectors.open(run).evaluate(data), json)
        return
    model = load(run)
    if task:
        from canon.use.scoring import evaluate_task

        if data:
            raise CanonError("Give --data or --task, not both.")
        scored = evaluate_task(model, task, shots, template.replace("\\n", "\n"), _class_words(words or []), seed)
        _print_notes(scored.remarks)
        _print_scores(scored.scores, json)
        return
    if shots or template or words:
        raise CanonError("--shots, --template and --words belong to --task; name a file or a set with it.")
    if top is not None or threshold is not None:
        set_threshold(model.task, threshold, top)
    scores = model.evaluate(data or None, split=split)
    table = model.task.table if isinstance(model.task, ListsLabels) else []
    if labels and not table:
        raise CanonError(f"--labels is for systems that give labels to documents; {run} is not a run of one.")
    _print_notes(model.task.remarks if isinstance(model.task, ListsLabels) else [])
    _print_scores(scores, json, {"labels": table} if table else {})
    if labels and not json:
        print()
        print_table(table)


def _class_words(texts: list[str]) -> dict[str, str]:
    words = {}
    for text in texts:
        label, _, word = text.partition("=")
        if not (label and word):
            raise CanonError(f'--words takes a class and its word, as in --words positive=great; got "{text}".')
        words[label] = word
    return words


def _print_scores(scores: Mapping[str, float | None], json: bool, more: Mapping = {}) -> None:
    print_result(json, {**scores, **more}, [{"metric": name, "value": value} for name, value in scores.items()])


def _print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(note, file=sys.stderr)
