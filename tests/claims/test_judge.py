"""The judge against synthetic results of known truth, and its verdicts against hand-made ones.

A claim holds if all its parts hold, so that a part that wrongly holds with probability at most 5 % bounds the claim's.
"""

from __future__ import annotations

import numpy as np
import pytest

from canon.claims.judge import FAILS, HOLDS, OPEN, _interval, _verdict, decide, judge
from canon.claims.record import BUDGETS, Part, find, names

DRAWS = 1500
SLACK = 3 * (0.05 * 0.95 / DRAWS) ** 0.5  # three standard errors of a share of 5 %
RULES = {
    (part.kind, claim.budgets[budget].seeds, part.effect or part.margin or part.at_least, part.sd): part
    for name in names()
    for claim in find(name)
    for part in claim.rule
    for budget in BUDGETS
    if part.kind not in ("exact", "counted")  # in which there is no chance
}


def share_that_holds(part: Part, samples: np.ndarray) -> float:
    bounds = [_interval(part, sample.tolist())[:2] for sample in samples]
    return float(np.mean([low is not None and _verdict(part, low, high or 0.0) == HOLDS for low, high in bounds]))


def truth(part: Part, seeds: int, mean: float) -> np.ndarray:
    random = np.random.default_rng(0)
    if part.kind == "often":
        return (random.random((DRAWS, seeds)) < mean).astype(float)
    return random.normal(mean, part.sd or 0.0, (DRAWS, seeds))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_false_holds_and_power(rule: tuple[str, int, float, float]) -> None:
    part, seeds = RULES[rule], rule[1]
    margin = part.margin or 0.0
    untrue = {"greater": (0.0,), "level": (-margin,), "equal": (-margin, margin), "often": (part.at_least or 0.0,)}
    for mean in untrue[part.kind]:
        assert share_that_holds(part, truth(part, seeds, mean)) <= 0.05 + SLACK
    true = {"greater": part.effect or 0.0, "level": 0.0, "equal": 0.0, "often": 0.97}
    assert share_that_holds(part, truth(part, seeds, true[part.kind])) >= 0.8


def part_of(kind: str, **more: float) -> Part:
    return Part(kind=kind, says="it is so", value="x", first="a", than="b", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "differences", "verdict"),
    [
        (part_of("greater", effect=1.0, sd=1.0), [2.0, 2.1, 1.9], HOLDS),
        (part_of("greater", effect=1.0, sd=1.0), [0.0, 0.1, -0.1], FAILS),
        (part_of("greater", effect=1.0, sd=1.0), [0.2, 0.21, 0.19], FAILS),  # shown, and too small to count
        (part_of("greater", effect=1.0, sd=1.0), [3.0, -1.0, 1.0], OPEN),
        (part_of("greater", effect=1.0, sd=1.0), [2.0, 2.0, 2.0], OPEN),  # copies of one number are no observations
        (part_of("greater", effect=1.0, sd=1.0), [0.0, 0.0, 0.0], FAILS),
        (part_of("greater", effect=1.0, sd=1.0), [2.0], OPEN),
        (part_of("greater", effect=1.0, sd=1.0), [2.0, float("nan")], OPEN),
        (part_of("level", margin=1.0, sd=1.0), [5.0, 5.1, 4.9], HOLDS),
        (part_of("level", margin=1.0, sd=1.0), [-0.5, -0.4, -0.6], HOLDS),
        (part_of("level", margin=1.0, sd=1.0), [-5.0, -5.1, -4.9], FAILS),
        (part_of("equal", margin=1.0, sd=1.0), [0.1, -0.1, 0.0], HOLDS),
        (part_of("equal", margin=1.0, sd=1.0), [5.0, 5.1, 4.9], FAILS),
        (part_of("equal", margin=1.0, sd=1.0), [3.0, -3.0, 0.0], OPEN),
        (part_of("counted", effect=1.0), [2.0, 2.0], HOLDS),
        (part_of("counted", effect=1.0), [2.0, 0.5], FAILS),
        (part_of("exact", expected=1.0, tolerance=0.1), [1.05, 0.95], HOLDS),
        (part_of("exact", expected=1.0, tolerance=0.1), [1.0, 1.2], FAILS),
        (part_of("often", at_least=0.5), [1.0] * 5, HOLDS),
        (part_of("often", at_least=0.5), [0.0] * 5, FAILS),
        (part_of("often", at_least=0.5), [1.0, 0.0, 1.0], OPEN),
    ],
)
def test_verdicts(part: Part, differences: list[float], verdict: str) -> None:
    judged = decide(part, differences)
    assert judged.verdict == verdict
    assert judged.sentence.endswith(".") and "it is so" in judged.sentence


def test_interval_is_that_of_scipy() -> None:
    from scipy import stats

    sample = [0.3, 0.9, 0.4, 1.2, 0.8]
    judged = decide(part_of("greater", effect=0.1, sd=1.0), sample)
    low, high = stats.t.interval(0.9, 4, np.mean(sample), stats.sem(sample))
    assert (judged.low, judged.high) == (pytest.approx(low), pytest.approx(high))
    exact = stats.binomtest(3, 5).proportion_ci(0.9, "exact")
    judged = decide(part_of("often", at_least=0.5), [1.0, 1.0, 0.0, 1.0, 0.0])
    assert (judged.low, judged.high) == (pytest.approx(exact.low), pytest.approx(exact.high))


def test_how_many_seeds_would_settle_it() -> None:
    part, sample = part_of("greater", effect=1.0, sd=1.0), [3.0, -1.0, 1.0]
    judged = decide(part, sample)
    assert judged.needs is not None and f"about {judged.needs} seeds would settle it" in judged.sentence
    # As many seeds of this mean and spread settle it, one fewer does not.
    for seeds, settled in ((judged.needs, True), (judged.needs - 1, False)):
        values = np.random.default_rng(0).normal(size=seeds)
        values = 1 + 2 * (values - values.mean()) / values.std(ddof=1)
        assert (decide(part, values.tolist()).verdict != OPEN) == settled
    one_way = decide(part_of("often", at_least=0.5), [1.0, 1.0])
    assert "1.0000, 2 seeds;" in one_way.sentence
    assert "1.0000, 1 seed;" in decide(part_of("often", at_least=0.5), [1.0]).sentence
    assert one_way.needs == 5  # 0.05 ** (1 / 5) is the first above a half


def test_a_claim_holds_if_all_its_parts_hold() -> None:
    (claim,) = find("ranknet-tie")
    tie, slope = 0.6931471805599453, -0.5
    assert judge(claim, {"pair": {0: {"loss": tie, "slope": slope}}}, {})[0] == HOLDS
    verdict, sentence, parts = judge(claim, {"pair": {0: {"loss": tie, "slope": 0.0}}}, {})
    assert verdict == FAILS and [part.verdict for part in parts] == [HOLDS, FAILS]
    assert sentence.startswith("Not so: the slope at a tie")
    verdict, sentence, _ = judge(claim, {"pair": {}}, {"pair": "It broke."})
    assert verdict == OPEN and "pair failed (It broke)" in sentence
    assert judge(claim, {"pair": {0: {"slope": slope}}}, {})[0] == OPEN  # a value that no seed has


def test_sizes_of_differences() -> None:
    """Signs cancel in a mean of differences, and not in one of sizes."""
    (claim,) = find("template-variance")
    values = {
        "first": {seed: {"test/accuracy": 0.7} for seed in range(6)},
        "other-template": {seed: {"test/accuracy": 0.7 + 0.1 * (-1) ** seed + 0.001 * seed} for seed in range(6)},
        "other-labels": {seed: {"test/accuracy": 0.7 + 0.01 * (-1) ** seed} for seed in range(6)},
    }
    (part,) = judge(claim, values, {})[2]
    assert part.verdict == HOLDS and part.effect == pytest.approx(0.09, abs=0.001)


def test_a_part_whose_seeds_diverged_is_inconclusive() -> None:
    """The seeds that are left would let it hold."""
    (claim,) = find("adam-then-sgd")
    seeds = {seed: {"test/accuracy": 0.9 + 0.001 * seed} for seed in range(8)}
    values = {"adam": seeds, "switched": {seed: {"test/accuracy": 0.95 + 0.002 * seed} for seed in range(8)}}
    assert judge(claim, values, {})[0] == HOLDS
    values["switched"] |= {seed: {"learned": 0.0, "failed": 1.0} for seed in (2, 5)}
    verdict, sentence, parts = judge(claim, values, {})
    assert verdict == OPEN and "2 of 8 seeds of switched diverged." in sentence and parts[0].seeds == 6


def test_differences_of_differences_are_paired_by_seed() -> None:
    (claim,) = find("lamb-batch")
    values = {
        name: {seed: {"test/accuracy": level + 0.1 * seed} for seed in range(3)}
        for name, level in {"adamw-64": 0.9, "adamw-1024": 0.5, "lamb-64": 0.9, "lamb-1024": 0.8}.items()
    }
    values["adamw-1024"][1]["test/accuracy"] -= 0.03
    values["adamw-1024"][9] = {"test/accuracy": 0.0}  # of a seed that the others do not have
    first = judge(claim, values, {})[2][0]
    assert (first.effect, first.seeds) == (pytest.approx(0.3 + 0.01), 3)
