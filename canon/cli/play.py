"""canon play RUN [--episodes N] [--seed S] [--policy greedy|sample] [--record FILE.gif]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from canon.cli.options import Json, print_result
from canon.errors import CanonError


def play(
    run: Annotated[str, typer.Argument(help="A run of an agent.")],
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="How many to play.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the first episode; default: the first test seed.")] = None,
    policy: Annotated[str, typer.Option(help="greedy or sample; default: as the run is scored.")] = "",
    record: Annotated[
        Path | None, typer.Option(metavar="FILE.gif", help="Write the episodes as a GIF; no states are printed.")
    ] = None,
    json: Json = False,
) -> None:
    """Let an agent act in its environment: returns, states in text, or a GIF made without a display.

    Examples:
    canon play runs/frozenlake
    canon play runs/cartpole --episodes 3 --record cartpole.gif
    canon play runs/corridor --policy sample --json
    """
    from canon.use.model import load
    from canon.use.play import play as act

    if policy not in ("", "greedy", "sample"):
        raise CanonError(f'--policy must be greedy or sample, got "{policy}".')
    show = None if json or record else lambda text: print(f"{text}\n", file=sys.stderr)
    rows = act(load(run), episodes, seed, policy, record, show)  # type: ignore[arg-type]
    print_result(json, rows, rows)
    if record is not None and not json:
        print(record)
