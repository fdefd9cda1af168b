"""Runs claims that have no shipped result by their rule, one after another, and keeps the results in the package.

python benchmarks/claims.py [NAME…] --out runs/claims [--full]: of all, or of these in this order; docs/claims.md is
made from what it writes. --quick runs one claim and keeps nothing. A result that is in --out already is judged again
and kept; nothing is trained twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from canon.claims import lab
from canon.claims.record import Claim, find, names
from canon.claims.results import DEFAULT_OUT, SHIPPED, Result, measured, read, shipped, write
from canon.errors import CanonError


def is_whole(result: Result, claim: Claim, budget: str) -> bool:
    """Judged by the claim's rule, of its variants and budget, and of as many seeds as that asks for."""
    asked = claim.budgets[budget].seeds
    return result.budget == budget and result.standing(claim) == result.verdict and result.seeds >= asked


def is_shipped(claim: Claim, budget: str) -> bool:
    return any(is_whole(of, claim, budget) for of in shipped(claim.name))


def kept(claim: Claim, budget: str, out: Path) -> str:
    """The verdict, once the result is in the package: without what only this working copy has."""
    path = out / claim.name / budget / "result.json"
    result = read(path) if path.is_file() else lab.run(claim, budget, out=out)
    if not is_whole(result, claim, budget):
        result = lab.run(claim, budget, out=out)
    where = {key: value for key, value in result.environment.items() if key != "git"}
    again = measured(claim, budget, result.values, result.failed, result.seconds, where)
    write(SHIPPED / f"{claim.name}-{budget}.json", replace(again, date=result.date))
    return again.verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--there", action="store_true", help="keep what is in --out, and run nothing")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    budget = "full" if options.full else "quick"
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            print(lab.run(find("ranknet-tie")[0], out=Path(folder)).verdict)
        return
    for name in options.names or names():
        (claim,) = find(name)
        there = (options.out / claim.name / budget / "result.json").is_file()
        if is_shipped(claim, budget) or (options.there and not there):
            continue
        try:
            print(f"{claim.name}: {kept(claim, budget, options.out)}", flush=True)
        except CanonError as mistake:
            print(f"{claim.name}: {mistake}", file=sys.stderr)


if __name__ == "__main__":
    main()
