"""The verdict of a rule on measured values: holds, does not hold here, or inconclusive.

Differences are paired by seed; each bound of an interval is a one-sided 95 % bound of Student's t (Student 1908), so
that a part wrongly holds with probability at most 5 %. d is the mean difference, [low, high] its interval:

    greater   holds if low > 0 and high ≥ effect; does not hold if high < effect
    level     at least as large: holds if low > −margin; does not hold if high ≤ −margin
    equal     holds if −margin < low and high < margin (two one-sided tests, Schuirmann 1987); does not if low ≥ margin
              or high ≤ −margin
    counted   no chance is involved: holds if the difference is at least `effect` for every seed
    exact     holds if |value − expected| ≤ tolerance for every seed
    often     the share of seeds with a value of 1, bounds of Clopper and Pearson 1934: holds if low ≥ at_least; does
              not hold if high < at_least

A part is inconclusive where a seed that it needs diverged: those that are left are no fair draw.

A claim holds if all its parts hold (Berger 1982, intersection–union: no correction is needed), does not hold if one
does not, and is inconclusive otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from canon.claims.record import FAILED, Claim, Part, terms
from canon.data.formats.cells import counted
from canon.report.page import number

VERDICTS = HOLDS, FAILS, OPEN = "holds", "does not hold here", "inconclusive"
LEVEL = 0.05
_MOST_SEEDS = 1000
Values = Mapping[str, Mapping[int, Mapping[str, float]]]  # variant -> seed -> value's name -> value


@dataclass(frozen=True)
class JudgedPart:
    """One part: effect and interval, in the units of its value."""

    says: str
    verdict: str
    sentence: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    needs: int | None = None  # seeds that would settle it, if the next ones are like these


def judge(claim: Claim, values: Values, failed: Mapping[str, str]) -> tuple[str, str, list[JudgedPart]]:
    """Verdict, sentence and parts of a claim. failed: why a variant has no values."""
    parts = [_part(part, values, failed) for part in claim.rule]
    verdicts = [part.verdict for part in parts]
    verdict = FAILS if FAILS in verdicts else OPEN if OPEN in verdicts else HOLDS
    deciding = [part for part in parts if part.verdict == verdict]
    return verdict, " ".join(part.sentence for part in deciding), parts


def _part(part: Part, values: Values, failed: Mapping[str, str]) -> JudgedPart:
    for name, _ in part.sides:
        if name in failed:
            return JudgedPart(
                part.says, OPEN, f"Not judged whether {part.says}: {name} failed ({failed[name].rstrip('.')})."
            )
    for name, value in part.sides:
        of = values.get(name, {})
        diverged = sum(value not in seed and seed.get(FAILED) == 1 for seed in of.values())
        if diverged:
            text = f"{diverged} of {len(of)} seeds of {name} diverged"
            return JudgedPart(part.says, OPEN, f"Not judged whether {part.says}: {text}.", seeds=len(of) - diverged)
    seeds = sorted(set.intersection(*(set(values.get(name, {})) for name, _ in part.sides)))
    seeds = [seed for seed in seeds if all(value in values[name][seed] for name, value in part.sides)]
    if not seeds:
        lacking = ", ".join(dict.fromkeys(f"{value} of {name}" for name, value in part.sides))
        return JudgedPart(part.says, OPEN, f"Not judged whether {part.says}: no seed has {lacking}.")
    differences = [_difference(part, values, seed) for seed in seeds]
    return decide(part, differences)


def _difference(part: Part, values: Values, seed: int) -> float:
    """first − than, where each may be a difference itself, or with `sizes` the size of one."""
    got = [values[name][seed][value] for name, value in part.sides]
    split = len(terms(part.first))
    sides = [terms[0] - sum(terms[1:]) for terms in (got[:split], got[split:]) if terms]
    ours, theirs = [*(map(abs, sides) if part.sizes else sides), 0.0][:2]
    return ours - theirs


def decide(part: Part, differences: Sequence[float]) -> JudgedPart:
    """The verdict of one part on its differences (values, for `exact` and `often`), one for each seed."""
    n, mean = len(differences), math.fsum(differences) / len(differences)
    if not all(map(math.isfinite, differences)):
        return JudgedPart(part.says, OPEN, f"Not judged whether {part.says}: a value is not finite.", seeds=n)
    if part.kind == "exact":
        assert part.expected is not None and part.tolerance is not None
        worst = max(differences, key=lambda value: abs(value - (part.expected or 0.0)))
        right = abs(worst - part.expected) <= part.tolerance
        text = f"{number(worst)}, expected {number(part.expected)} ± {number(part.tolerance)}"
        return _judged(part, HOLDS if right else FAILS, text, worst, min(differences), max(differences), n)
    if part.kind == "counted":
        assert part.effect is not None
        least = min(differences)
        text = f"a difference of {number(least)}, and {number(part.effect)} counts"
        return _judged(part, HOLDS if least >= part.effect else FAILS, text, mean, least, max(differences), n)
    low, high, why = _interval(part, differences)
    if low is None or high is None:
        return JudgedPart(part.says, OPEN, f"Open whether {part.says}: {why}.", mean, seeds=n)
    verdict = _verdict(part, low, high)
    text = f"{number(mean)}, from {number(low)} to {number(high)}, {counted(n, 'seed')}; {_criterion(part)}"
    judged = _judged(part, verdict, text, mean, low, high, n)
    if verdict != OPEN:
        return judged
    needs = _needed(part, differences)
    more = f"about {needs} seeds would settle it" if needs else f"{_MOST_SEEDS} seeds would not settle it"
    return JudgedPart(part.says, OPEN, f"{judged.sentence[:-1]}; {more}.", mean, low, high, n, needs)


def _judged(part: Part, verdict: str, text: str, effect: float, low: float, high: float, seeds: int) -> JudgedPart:
    begin = {HOLDS: "Shown: ", FAILS: "Not so: ", OPEN: "Open: "}[verdict]
    return JudgedPart(part.says, verdict, f"{begin}{part.says} ({text}).", effect, low, high, seeds)


def _criterion(part: Part) -> str:
    if part.kind == "often":
        return f"a share of {number(part.at_least or 0.0)} counts"
    if part.kind == "greater":
        return f"{number(part.effect or 0.0)} counts"
    return f"{'no less than −' if part.kind == 'level' else 'within ± '}{number(part.margin or 0.0)} is level"


def _interval(part: Part, differences: Sequence[float]) -> tuple[float | None, float | None, str]:
    from scipy.stats import beta

    n = len(differences)
    if part.kind == "often":
        hits = sum(value == 1 for value in differences)
        low = float(beta.ppf(LEVEL, hits, n - hits + 1)) if hits else 0.0
        high = float(beta.ppf(1 - LEVEL, hits + 1, n - hits)) if hits < n else 1.0
        return low, high, ""
    if n == 1:
        return None, None, "one seed has no spread; add --seeds 5"
    mean, sd = fmean(differences), _spread(differences)
    if sd <= 1e-12 * max(map(abs, differences)) and mean != 0:
        # n copies of one number are not n observations.
        return None, None, f"the difference is {number(mean)} for every seed"
    margin = _quantile(n) * sd / math.sqrt(n)
    return mean - margin, mean + margin, ""


def _spread(values: Sequence[float]) -> float:
    """The standard deviation of a sample; the statistics module counts it in fractions, ten times as slowly."""
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


@cache
def _quantile(n: int) -> float:
    from scipy.stats import t as student

    return float(student.ppf(1 - LEVEL, n - 1))


def _verdict(part: Part, low: float, high: float) -> str:
    if part.kind == "greater":
        assert part.effect is not None
        return FAILS if high < part.effect else HOLDS if low > 0 else OPEN
    if part.kind == "level":
        assert part.margin is not None
        return HOLDS if low > -part.margin else FAILS if high <= -part.margin else OPEN
    if part.kind == "equal":
        assert part.margin is not None
        if low >= part.margin or high <= -part.margin:
            return FAILS
        return HOLDS if -part.margin < low and high < part.margin else OPEN
    assert part.at_least is not None
    return HOLDS if low >= part.at_least else FAILS if high < part.at_least else OPEN


def _needed(part: Part, differences: Sequence[float]) -> int | None:
    """The least number of seeds that would settle it, if they have this mean and spread (or share)."""
    have, mean = len(differences), fmean(differences)
    sd = _spread(differences) if have > 1 else 0.0
    for n in range(have + 1, _MOST_SEEDS + 1):
        if part.kind == "often":
            hits = round(mean * n)
            low, high, _ = _interval(part, [1.0] * hits + [0.0] * (n - hits))
            assert low is not None and high is not None
        else:
            margin = _quantile(n) * sd / math.sqrt(n)
            low, high = mean - margin, mean + margin
        if _verdict(part, low, high) != OPEN:
            return n
    return None
