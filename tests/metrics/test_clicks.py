"""Click metrics against a count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from canon import metrics
from canon.errors import CanonError

# Four users. Ann sees a page, is shown x and y, clicks x twice and y once; Bob sees two pages, is shown x, clicks it;
# Cid sees a page and is shown y; Dee only logs in.
LOG = [
    ("ann", "home", "view"),
    ("ann", "x", "exposure"),
    ("ann", "y", "exposure"),
    ("ann", "x", "click"),
    ("ann", "x", "click"),
    ("ann", "y", "click"),
    ("bob", "home", "view"),
    ("bob", "list", "view"),
    ("bob", "x", "exposure"),
    ("bob", "x", "click"),
    ("cid", "home", "view"),
    ("cid", "y", "exposure"),
    ("dee", "-", "login"),
]


def test_the_five_ratios_equal_a_count_by_hand():
    result = metrics.click_metrics(*zip(*LOG, strict=True))
    assert (result.clicks, result.page_views, result.exposures) == (4, 4, 4)
    assert (result.visitors, result.clicking_users) == (4, 2)
    assert (result.pv_ctr, result.exposure_ctr, result.uv_ctr) == (4 / 4, 4 / 4, 4 / 4)
    assert (result.uv_conversion, result.clicks_per_user) == (2 / 4, 4 / 2)


def test_repeated_clicks_can_count_once():
    result = metrics.click_metrics(*zip(*LOG, strict=True), repeats="once")
    assert (result.clicks, result.pv_ctr, result.clicks_per_user) == (3, 3 / 4, 3 / 2)


def test_a_random_log_equals_a_loop_and_the_identity_holds():
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 50, 2000), rng.integers(0, 30, 2000)
    events = rng.choice(["view", "exposure", "click", "other"], 2000, p=[0.3, 0.5, 0.15, 0.05])
    result = metrics.click_metrics(users, items, events)
    rows = list(zip(users, items, events, strict=True))
    clicks = [(u, i) for u, i, e in rows if e == "click"]
    assert result.exposure_ctr == len(clicks) / sum(e == "exposure" for e in events)
    assert result.pv_ctr == len(clicks) / sum(e == "view" for e in events)
    assert result.uv_conversion == len({u for u, _ in clicks}) / len(set(users))
    assert result.uv_ctr == pytest.approx(result.uv_conversion * result.clicks_per_user, rel=1e-14)
    assert metrics.click_metrics(users, items, events, repeats="once").clicks == len(set(clicks))


def test_event_names_and_zero_division_are_arguments():
    result = metrics.click_metrics(["a", "a"], ["x", "x"], ["pv", "tap"], view="pv", click="tap", zero_division=-1)
    assert (result.pv_ctr, result.exposure_ctr) == (1.0, -1.0)


def test_bad_input_is_one_sentence():
    with pytest.raises(CanonError, match="same length"):
        metrics.click_metrics(["a"], ["x", "y"], ["click"])
    with pytest.raises(CanonError, match="is empty"):
        metrics.click_metrics([], [], [])
    with pytest.raises(CanonError, match="three event names"):
        metrics.click_metrics(["a"], ["x"], ["click"], view="click")
    with pytest.raises(CanonError, match='No repeats "twice"'):
        metrics.click_metrics(["a"], ["x"], ["click"], repeats="twice")
