"""Click metrics of a recommender from its event log.

Definitions, with clicks C, page views PV, exposures E, visitors U (all distinct users in the log) and clicking users
U_c: PV CTR = C / PV · UV CTR = C / U · exposure CTR = C / E · UV conversion = U_c / U · clicks per user = C / U_c.
All five are filled in `click_metrics`; UV CTR = UV conversion × clicks per user always holds.
Deviations: products name these differently, so the counts are returned beside the ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import array, choice, number, same_length, text


@dataclass(frozen=True)
class ClickMetrics:
    """Five ratios and the counts they come from."""

    pv_ctr: float
    uv_ctr: float
    exposure_ctr: float
    uv_conversion: float
    clicks_per_user: float
    page_views: int
    visitors: int
    exposures: int
    clicks: int
    clicking_users: int


def click_metrics(
    users: ArrayLike,
    items: ArrayLike,
    events: ArrayLike,
    *,
    view: str = "view",
    exposure: str = "exposure",
    click: str = "click",
    repeats: str = "count",
    zero_division: float = 0.0,
) -> ClickMetrics:
    """Count a log of three columns: who, which item or page, what happened.

    view, exposure, click: the event names for a page view, an item shown, an item clicked; rows with other names
    only make their user a visitor. repeats: "count" (default) counts every click, "once" counts clicks of one user
    on one item once. zero_division: the value of a ratio whose denominator is 0.
    """
    choice("repeats", repeats, ("count", "once"))
    if len({text("An event", event) for event in (view, exposure, click)}) != 3:
        raise CanonError(f'view, exposure and click must be three event names, got "{view}", "{exposure}", "{click}".')
    who, what, how = array("users", users), array("items", items), array("events", events)
    same_length("users", who, "items", what)
    same_length("users", who, "events", how)
    clicked = how == click
    clicking_users = len(np.unique(who[clicked]))
    clicks = int(np.count_nonzero(clicked))
    if repeats == "once" and clicks:
        user, item = (np.unique(column[clicked], return_inverse=True)[1] for column in (who, what))
        clicks = len(np.unique(user * (int(item.max()) + 1) + item))
    page_views, exposures = int(np.count_nonzero(how == view)), int(np.count_nonzero(how == exposure))
    visitors = len(np.unique(who))

    def ratio(top: int, bottom: int) -> float:
        return top / bottom if bottom else number("zero_division", zero_division, finite=False)

    return ClickMetrics(
        pv_ctr=ratio(clicks, page_views),
        uv_ctr=ratio(clicks, visitors),
        exposure_ctr=ratio(clicks, exposures),
        uv_conversion=ratio(clicking_users, visitors),
        clicks_per_user=ratio(clicks, clicking_users),
        page_views=page_views,
        visitors=visitors,
        exposures=exposures,
        clicks=clicks,
        clicking_users=clicking_users,
    )
