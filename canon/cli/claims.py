"""canon claims · canon claims show NAME · run NAME… [--full] [--seeds N] · report DIR · new NAME"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, print_json, print_result, print_table, stoppable
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.claims.record import Claim

Out = Annotated[Path | None, typer.Option(help="The folder for runs and results; default runs/claims.")]


def alone(ctx: typer.Context, json: Json = False) -> None:
    """Lists all claims, if no verb is given."""
    from canon.claims.record import find, names
    from canon.claims.results import here, shipped
    from canon.report.page import duration

    if ctx.invoked_subcommand is not None:
        return
    rows: list[dict[str, Any]] = []
    for name in names():
        (claim,) = find(name)
        ours, theirs = here(claim.name), next(iter(shipped(claim.name)), None)
        row: dict[str, Any] = {"claim": claim.name, "chapter": claim.chapter}
        row["verdict here"] = ours.standing(claim) if ours else "–"
        row["seeds here"] = ours.seeds if ours else "–"
        row["verdict shipped"] = theirs.standing(claim) if theirs else "–"
        row["seeds shipped"] = theirs.seeds if theirs else "–"
        row["time"] = duration(theirs.seconds) if theirs else "–"
        rows.append(row)
    print_result(json, rows, rows)


def show(
    name: Annotated[str, typer.Argument(help="A claim, or the file of one.")],
    json: Json = False,
) -> None:
    """Show a claim: its sentence and source, its variants, its rule, and its results.

    Examples:
    canon claims show score-variance
    canon claims show mine.toml
    """
    from dataclasses import asdict

    from canon.claims.record import find
    from canon.claims.results import here, shipped
    from canon.data.formats.cells import counted

    claims = find(name)
    if len(claims) > 1:
        raise CanonError(f'"{name}" is a chapter; give one of its claims: {", ".join(one.name for one in claims)}.')
    (claim,) = claims
    results = {"here": here(claim.name), **{f"shipped, {of.budget}": of for of in shipped(claim.name)}}
    known = {where: of for where, of in results.items() if of is not None}
    if json:
        record = {**asdict(claim), "path": str(claim.path)}
        print_json({**record, "results": {where: of.to_json() for where, of in known.items()}})
        return
    print(f"{claim.claim}.\n{claim.source}\nPredicts: {claim.predicts}\n")
    for variant, of in claim.variants.items():
        places = f" on {of.data}" * bool(of.data) + f" from the run of {of.start}" * bool(of.start)
        print(f"  {variant}: {of.recipe or of.probe}{places}{_settings(of.set)}")
    for part in claim.rule:
        given = asdict(part)
        settings = " ".join(f"{key}={given[key]:g}" for key in given if type(given[key]) in (int, float))
        settings += " of sizes" * part.sizes
        against = f" against {part.than}" if part.than else ""
        print(f"  rule: {part.says} ({part.kind}: {part.value} of {part.first}{against}; {settings})")
    for name, budget in claim.budgets.items():
        print(f"  {name}: {counted(budget.seeds, 'seed')}{_settings(budget.set)}")
        for variant, changes in budget.each.items():
            print(f"    {variant}:{_settings(changes)}")
    for where, result in known.items():
        seeds = counted(result.seeds, "seed")
        print(f"\n{where}: {result.standing(claim)}. {result.sentence}\n  {seeds}, {result.machine}, {result.date}")
    if claim.discussion:
        print(f"\nNote: {claim.discussion}")


def _settings(table: Mapping[str, Any]) -> str:
    return "".join(f" {key}={value}" for key, value in table.items())


def run(
    names: Annotated[list[str] | None, typer.Argument(help="Claims, chapters, or files of claims.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All claims that come with canon.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The full budget, up to an hour each; default the quick one.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(max=10_000, help="How many seeds, counted from 0; default the claim's.")
    ] = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Run claims and judge them: holds, does not hold here, or inconclusive. What is finished is used as it is.

    Examples:
    canon claims run score-variance
    canon claims run degradation batchnorm --seeds 10
    canon claims run attention --out runs/mine
    canon claims run --all --full
    """
    from canon.claims.lab import run as run_claim
    from canon.claims.record import find
    from canon.claims.record import names as known
    from canon.claims.results import DEFAULT_OUT
    from canon.report.page import duration

    if bool(names) == all_:
        raise CanonError("Give the claims or chapters to run, or --all; canon claims lists them.")
    claims = _without_repeats([claim for name in (known() if all_ else names or []) for claim in find(name)])
    folder, budget = out or DEFAULT_OUT, "full" if full else "quick"
    results, refused = {}, {}
    stopped = "Stopped; what is finished is saved. Give the same command again to continue."
    try:
        with stoppable(stopped):
            for claim in claims:
                try:
                    results[claim.name] = run_claim(claim, budget, seeds, folder)
                except CanonError as mistake:
                    if len(claims) == 1:
                        raise
                    refused[claim.name] = str(mistake)
                    print(f"{claim.name}: {mistake}", file=sys.stderr)
    except KeyboardInterrupt:  # outside training, as in a probe
        print(stopped, file=sys.stderr)
        sys.exit(130)
    if json:
        print_json({"results": [result.to_json() for result in results.values()], "refused": refused})
    else:
        rows = [{"claim": n, "verdict": of.verdict, "time": duration(of.seconds)} for n, of in results.items()]
        print_table(rows + [{"claim": name, "verdict": "not run", "time": ""} for name in refused])
        for name, result in results.items():
            print(f"\n{name}: {result.verdict}. {result.sentence}\n{folder / name / budget}/result.json")
    if refused:
        raise CanonError(f"{len(refused)} of {len(claims)} claims were not run: {', '.join(refused)}.")


def _without_repeats(claims: Sequence[Claim]) -> list[Claim]:
    return list({claim.path: claim for claim in claims}.values())


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of --out.")],
    files: Annotated[list[str] | None, typer.Argument(help="Files of claims that do not come with canon.")] = None,
) -> None:
    """Write a gallery of results: verdicts, figures, effects with intervals, and the command for each.

    Examples:
    canon claims report runs/claims
    canon claims report runs/claims mine.toml
    """
    from canon.claims.report import write_gallery

    print(write_gallery(folder, files or []))


def new(name: Annotated[str, typer.Argument(help="Of the claim; NAME.toml is written.")]) -> None:
    """Write the file of a new claim, to be edited and run.

    Examples:
    canon claims new wider-is-better
    """
    from canon.claims.record import new as write_new

    path = write_new(name)
    print(f"{path}\nEdit it, then run it with: {shlex.join(['canon', 'claims', 'run', str(path)])}")
