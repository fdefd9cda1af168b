"""The gallery of a folder of claims: verdict, figure, effect with interval, what was run, and the command for each."""

from __future__ import annotations

import shlex
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

from canon.claims.figures import described, figure_of, words
from canon.claims.judge import FAILS, HOLDS, OPEN
from canon.claims.record import BUDGETS, Claim, find, names
from canon.claims.results import Result, read
from canon.errors import CanonError
from canon.report import page

_SIGNS = {HOLDS: "✓", FAILS: "✗", OPEN: "?"}


def write_gallery(folder: Path, files: list[str]) -> Path:
    """Writes FOLDER/report.html from its results. files: claims outside the package."""
    by_name = {claim.name: claim for name in [*names(), *files] for claim in find(name)}
    results = []
    for path in sorted(folder.glob("*/*/result.json")):
        result = read(path)
        if result.name not in by_name:
            raise CanonError(
                f"{path} is of a claim that does not come with canon: add its file, as in canon claims report {folder} "
                f"{result.name}.toml."
            )
        if path.parent.name in BUDGETS:
            results.append((by_name[result.name], result))
    if not results:
        raise CanonError(f"{folder} has no result of a claim; canon claims run NAME --out {folder} makes one.")
    return page.write_page(folder / "report.html", _render, {"results": results, "folder": folder})


def _render(facts: Any, draw: bool) -> str:
    results: list[tuple[Claim, Result]] = facts["results"]
    counts = Counter(result.verdict for _, result in results)
    cards = page.cards(page.card(f"{_SIGNS[verdict]} {verdict}", str(counts[verdict])) for verdict in _SIGNS)
    about = f"{len(results)} results; each was judged by a rule fixed before its run."
    sections = {
        f"{_SIGNS[of.verdict]} {of.name} ({of.budget})": _section(claim, of, facts["folder"], draw)
        for claim, of in results
    }
    return page.document("The claims lab", "canon claims", about, cards, sections)


def _section(claim: Claim, result: Result, folder: Path, draw: bool) -> str:
    parts = [
        {
            "says": part.says,
            "verdict": part.verdict,
            "effect": part.effect,
            "from": part.low,
            "to": part.high,
            "seeds": part.seeds,
        }
        for part in result.parts
    ]
    text = words(claim, result)
    figure = page.note(page.NO_FIGURES)
    if draw:
        figure = described(page.drawing(figure_of(claim, result)), claim, result)
    again = [] if result.budget == "quick" else ["--full"]
    known = {name.split("/")[1] for name in names()}
    arguments = ["canon", "claims", "run", claim.name if claim.name in known else str(claim.path), *again]
    command = shlex.join([*arguments, "--seeds", str(result.seeds), "--out", str(folder)])
    run = {"what": f"{result.seeds} seeds of {', '.join(claim.variants)}", "time": page.duration(result.seconds)}
    return "".join(
        (
            f'<p><strong>{escape(claim.claim)}</strong> <span class="faint">{escape(claim.source)}</span></p>',
            page.note(f"{result.standing(claim)}: {result.sentence}", "verdict"),
            figure + page.note(text),
            page.table(parts),
            page.note(claim.discussion[0].upper() + claim.discussion[1:]) if claim.discussion else "",
            page.pairs({**run, "machine": result.machine, "date": result.date, "rule": result.rule[:12]}),
            page.code(command),
        )
    )
