"""Schedules against their closed forms."""

from __future__ import annotations

import math

import pytest

from canon.errors import CanonError
from canon.optim import Schedule, multiplier

TOTAL = 100


def curve(schedule: Schedule, total: int = TOTAL) -> list[float]:
    return [multiplier(schedule, step, total) for step in range(1, total + 1)]


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse-sqrt"])
def test_warmup_is_linear_up_to_the_rate_itself(name: str) -> None:
    assert curve(Schedule(name=name, warmup=20))[:20] == pytest.approx([step / 20 for step in range(1, 21)])


def test_constant_stays() -> None:
    assert curve(Schedule()) == [1.0] * TOTAL


@pytest.mark.parametrize("final", [0.0, 0.1])
@pytest.mark.parametrize("warmup", [0, 1, 20])
def test_linear_and_cosine_run_from_the_peak_to_final(final: float, warmup: int) -> None:
    peak = max(warmup, 1)
    for step in range(peak, TOTAL + 1):
        done = (step - peak) / (TOTAL - peak)
        linear = multiplier(Schedule(name="linear", warmup=warmup, final=final), step, TOTAL)
        cosine = multiplier(Schedule(name="cosine", warmup=warmup, final=final), step, TOTAL)
        assert linear == pytest.approx(1 - (1 - final) * done, abs=1e-12)
        assert cosine == pytest.approx(final + (1 - final) * (1 + math.cos(math.pi * done)) / 2, abs=1e-12)
    for name in ("linear", "cosine"):
        assert multiplier(Schedule(name=name, warmup=warmup, final=final), TOTAL + 7, TOTAL) == pytest.approx(final)


def test_inverse_sqrt_is_the_papers_with_dim_and_peaks_at_one_without() -> None:
    paper = Schedule(name="inverse-sqrt", warmup=40, dim=512)
    for step in (1, 39, 40, 41, 4000):
        expected = 512**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert multiplier(paper, step, TOTAL) == pytest.approx(expected)
    plain = curve(Schedule(name="inverse-sqrt", warmup=40))
    assert max(plain) == plain[39] == pytest.approx(1.0)
    assert plain[99] == pytest.approx(math.sqrt(40 / 100))
    assert curve(Schedule(name="inverse-sqrt"))[3] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_run_of_one_step_is_made_at_full_rate(name: str) -> None:
    assert curve(Schedule(name=name), total=1) == [1.0]


@pytest.mark.parametrize(
    "fields",
    [{"name": "step"}, {"warmup": -1}, {"name": "linear", "final": -0.1}, {"final": 0.1}, {"dim": 512}, {"gamma": 1}],
    ids=str,
)
def test_bad_schedules_are_refused(fields: dict) -> None:
    with pytest.raises(CanonError):
        Schedule(**fields)


def test_step_zero_is_refused() -> None:
    with pytest.raises(CanonError, match="count from 1"):
        multiplier(Schedule(), 0, TOTAL)


def test_exponential_holds_and_then_divides_by_the_same_number_each_epoch() -> None:
    """Zaremba et al. 2014, medium: 39 epochs, after the sixth divided by 1.2 in each, here without steps."""
    per_epoch, epochs, held = 10, 39, 6
    schedule = Schedule(name="exponential", hold=held / epochs, final=1.2 ** -(epochs - held))
    rates = [multiplier(schedule, step, per_epoch * epochs) for step in range(1, per_epoch * epochs + 1)]
    assert rates[: per_epoch * held] == [1.0] * (per_epoch * held)
    ends = rates[per_epoch * held - 1 :: per_epoch]
    assert ends == pytest.approx([1.2**-epoch for epoch in range(epochs - held + 1)])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "exponential"}, "optimizer.schedule.final must be more than 0 for exponential"),
        ({"name": "cosine", "hold": 0.2}, "optimizer.schedule.hold belongs to exponential"),
    ],
)
def test_fields_of_exponential_are_its_own(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(CanonError, match=sentence):
        Schedule(**settings)  # type: ignore[arg-type]
