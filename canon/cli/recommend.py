"""canon recommend RUN --user U … | --items A,B [--top K] [--titles FILE] [--out FILE]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import Json, print_result
from canon.errors import CanonError


def recommend(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of a system that recommends, or of a pipeline.")],
    user: Annotated[list[str] | None, typer.Option(help="A user of the training data; may be given again.")] = None,
    items: Annotated[str, typer.Option(help="Items that a new user has, between commas.")] = "",
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many items to list.")] = 10,
    titles: Annotated[Path | None, typer.Option(help="A file of items' ids and titles: movies.csv, u.item.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write JSON lines to a file: one for each user.")] = None,
    json: Json = False,
) -> None:
    """List the best items for users, or for anyone who has some items, and which of these they are like.

    Examples:
    canon recommend runs/bpr --user 196
    canon recommend runs/bpr --items 50,181 --top 5
    canon recommend runs/ials --user 196 --user 22 --titles u.item --out best.jsonl
    """
    from json import dumps

    import canon
    from canon.storage import write_text
    from canon.use.model import Model
    from canon.use.pipeline.settings import is_pipeline_run
    from canon.use.recommend import read_titles
    from canon.use.recommend import recommend as best_items

    owned = [item.strip() for item in items.split(",") if item.strip()]
    if bool(user) == bool(owned):
        raise CanonError("Give --user U, or --items A,B, one of both.")
    queries: list[dict[str, Any]] = [{"user": one} for one in user or []] or [{"items": owned}]
    if is_pipeline_run(run):
        if titles or out:
            raise CanonError(f"{run} is a pipeline, whose documents have titles: leave --titles and --out out.")
        _ask(run, queries, top, json)
        return
    model: Any = canon.load(run)
    if not isinstance(model, Model):
        raise CanonError(f"{run} is not a run of a system that recommends.")
    names = None if titles is None else read_titles(titles)
    answers = [best_items(model, **one, top=top, titles=names) for one in queries]
    if out is not None:
        write_text(out, "".join(dumps(answer, ensure_ascii=False) + "\n" for answer in answers))
        print_result(json, {"file": str(out), "answers": len(answers)}, f"{out}: {len(answers)} answers")
        return
    shown = [
        {
            **({"user": answer["user"]} if len(answers) > 1 else {}),
            **{name: row[name] for name in ("rank", "item", "title", "score") if name in row},
            "because": ("you have " + ", ".join(row["because"])) if row["because"] else "",
        }
        for answer in answers
        for row in answer["items"]
    ]
    if not json:
        for answer in answers:
            print(_said(answer))
    print_result(json, answers if len(answers) > 1 else answers[0], shown)


def _ask(run: str, queries: list[dict[str, Any]], top: int, json: bool) -> None:
    """Users of a pipeline, through all of its stages."""
    from canon.use.pipeline.pipeline import Pipeline
    from canon.use.pipeline.recall import PipelineRequest

    pipeline = Pipeline.open(run)
    requests = [PipelineRequest(user=one.get("user", ""), items=tuple(one.get("items", ()))) for one in queries]
    results = pipeline.search(requests, top)
    record = [
        {**one, "how": pipeline.how(request), "results": rows}
        for one, request, rows in zip(queries, requests, results, strict=True)
    ]
    shown = [
        {
            **({"user": one["user"]} if len(queries) > 1 else {}),
            **{name: row.get(name, "") for name in ("rank", "score", "id", "title")},
        }
        for one, rows in zip(queries, results, strict=True)
        for row in rows
    ]
    for one in record if not json else ():
        if not one["results"]:
            who = f"user {one['user']}" if "user" in one else "these items"
            why = "" if one["how"] else f": no recall of {run} knows users; a recommender does"
            print(f"Nothing found for {who}{why}.", file=sys.stderr)
    print_result(json, record, shown)


def _said(answer: dict[str, Any]) -> str:
    who = f"user {answer['user']}" if "user" in answer else f"a user who has {', '.join(answer['given'])}"
    how = {"trained": "as learned in training", "fold-in": "folded in", "popular": "by popularity"}[answer["how"]]
    return f"For {who}, {how}{'; ' if answer['note'] else ''}{answer['note']}:"
