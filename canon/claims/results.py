"""The result of a claim: measured values, verdict and rule, as JSON, shipped or in a folder of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from canon.claims.judge import VERDICTS, JudgedPart, judge
from canon.claims.record import BUDGETS, CLAIMS, Claim
from canon.config import Table
from canon.data.formats.cells import counted
from canon.errors import CanonError
from canon.runs import files
from canon.storage import write_text

SHIPPED = CLAIMS / "results"
DEFAULT_OUT = Path("runs") / "claims"
_POINT = re.compile(r"\[\s+([^][\s,]+),\s+([^][\s,]+)\s+\]")  # of a curve: on one line
Curve = list[list[float]]  # [[x, y], …]
Measured = dict[str, dict[int, dict[str, float | Curve]]]  # variant -> seed -> value's name -> value
_NUMBER = (int, float)
_PART: Table = {
    "says": str,
    "verdict": str,
    "sentence": str,
    **dict.fromkeys(("effect", "low", "high"), (*_NUMBER, type(None))),
    "seeds": int,
    "needs": (int, type(None)),
}
_SHAPE: Table = {
    "name": str,
    "budget": str,
    "verdict": str,
    "sentence": str,
    "parts": [_PART],
    "values": {str: {str: {str: (*_NUMBER, list)}}},
    "failed": {str: str},
    "seconds": _NUMBER,
    "rule": str,
    "design": str,
    "environment": {"device": str, "cores": int, "processor": str, "packages": {"torch": str}},
    "date": str,
}
_AGAIN = "run the claim again"


@dataclass(frozen=True)
class Result:
    name: str
    budget: str  # quick or full
    verdict: str
    sentence: str
    parts: list[JudgedPart]
    values: Measured
    failed: dict[str, str]  # variant -> why
    seconds: float  # of all probes and runs
    rule: str  # sha256 of the rule that judged
    design: str  # of variants and budget
    environment: Table  # versions and machine
    date: str

    @property
    def seeds(self) -> int:
        return max((len(of) for of in self.values.values()), default=0)

    @property
    def machine(self) -> str:
        env = self.environment
        device = "" if env["device"] == "cpu" else f"{env['device']}, "
        return f"{device}{counted(env['cores'], 'core')} of {env['processor']}, torch {env['packages']['torch']}"

    def standing(self, claim: Claim) -> str:
        """The verdict, and whether the claim's file has changed since."""
        if self.rule != claim.rule_digest:
            return f"{self.verdict} (judged by another rule)"
        if self.design != claim.designs[self.budget]:
            return f"{self.verdict} (of other variants or another budget)"
        return self.verdict

    def to_json(self) -> Table:
        return asdict(self)


def measured(
    claim: Claim, budget: str, values: Measured, failed: Mapping[str, str], seconds: float, where: Table
) -> Result:
    """The judged result of what was measured here and now."""
    numbers = {
        name: {seed: {key: one for key, one in of.items() if not isinstance(one, list)} for seed, of in seeds.items()}
        for name, seeds in values.items()
    }
    verdict, sentence, parts = judge(claim, numbers, failed)
    return Result(
        *(claim.name, budget, verdict, sentence, parts, values, dict(failed), round(seconds, 1)),
        *(claim.rule_digest, claim.designs[budget], where, datetime.now(UTC).date().isoformat()),
    )


def read(path: Path) -> Result:
    table = files.read(path, _SHAPE, _AGAIN)
    known = {"budget": BUDGETS, "verdict": VERDICTS}
    if wrong := [key for key in known if table[key] not in known[key]]:
        raise CanonError(f"{path} is damaged: {wrong[0]} is {table[wrong[0]]!r:.40}; {_AGAIN}.")
    if wrong := [seed for of in table["values"].values() for seed in of if not seed.isdecimal()]:
        raise CanonError(f"{path} is damaged: {wrong[0]!r:.40} is not a seed; {_AGAIN}.")
    values: Any = {name: {int(seed): of for seed, of in seeds.items()} for name, seeds in table["values"].items()}
    parts = [JudgedPart(**{key: part[key] for key in _PART}) for part in table["parts"]]
    return Result(**{key: table[key] for key in _SHAPE} | {"parts": parts, "values": values})


def write(path: Path, result: Result) -> None:
    text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
    write_text(path, _POINT.sub(r"[\1, \2]", text) + "\n")


def here(name: str, out: Path = DEFAULT_OUT) -> Result | None:
    """The result of a claim in a folder of runs, the full one before the quick one."""
    paths = [out / name / budget / "result.json" for budget in reversed(BUDGETS)]
    return next((read(path) for path in paths if path.is_file()), None)


def shipped(name: str) -> list[Result]:
    """The results that come with canon, the full one first."""
    paths = [SHIPPED / f"{name}-{budget}.json" for budget in reversed(BUDGETS)]
    return [read(path) for path in paths if path.is_file()]
