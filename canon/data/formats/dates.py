"""Dates and times in cells: in which form a column writes them, and the moments that they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from canon.data.formats.cells import MISSING

_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?\s*(?P<half>[ap]m)?"
    r"\s*(?:z|(?:utc|gmt)(?:[+-]\d\d?(?::?\d\d)?)?|[+-]\d\d:?\d\d)?"
)
_NAMED = r"(?P<month>\d{1,2}|[a-z]{3,9})"
_YEAR = r"(?P<year>\d{4}|\d\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?"
_AFTER = rf"(?:,?[t\s]+{_TIME})?"
# Of two forms that fit all cells the first is taken; the time zone is not read.
FORMS = {
    "year first": re.compile(
        rf"(?P<year>\d{{4}})[-/.年](?P<month>\d{{1,2}})[-/.月](?P<day>\d{{1,2}})日?{_AFTER}", re.I
    ),
    "month first": re.compile(rf"{_WEEKDAY}{_NAMED}[-/\s]\s*{_DAY}[-/,\s]\s*{_YEAR}{_AFTER}", re.I),
    "day first": re.compile(rf"{_WEEKDAY}{_DAY}[-/.\s]\s*{_NAMED}[-/.,\s]\s*{_YEAR}{_AFTER}", re.I),
    "year last": re.compile(rf"{_WEEKDAY}{_NAMED}\s+{_DAY}\s+{_TIME}(?:\s*[a-z]{{3,4}})?\s+{_YEAR}", re.I),
    "times": re.compile(_TIME, re.I),
    "months": re.compile(r"(?P<year>\d{4})(?:[-/](?P<month>\d\d)|年(?P<named>\d{1,2})月)"),
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PIVOT = 69  # two digits from here on are of the last century, as in POSIX


def form_of(texts: Sequence[str]) -> str:
    """The form in which all texts that are not missing are dates; "" if there is none."""
    filled = [text for text in texts if text.strip().lower() not in MISSING]
    for form in FORMS:
        if filled and all(_moment(text, form) is not None for text in filled):
            return form
    return ""


def moments(texts: Sequence[str], form: str) -> np.ndarray:
    """Seconds since 1970, of times since midnight, float64 [N]; NaN where a text is not a date of this form."""
    read = [_moment(text, form) for text in texts]
    return np.array([np.nan if moment is None else moment for moment in read], dtype=np.float64)


def _moment(text: str, form: str) -> float | None:
    match = FORMS[form].fullmatch(text.strip())
    if match is None:
        return None
    parts = match.groupdict()
    month, year = parts.get("month") or parts.get("named", "1"), int(parts.get("year", "1970"))
    if year < 100:
        year += 1900 if year >= _PIVOT else 2000
    hour = int(parts.get("hour") or 0)
    if parts.get("half"):
        hour = hour % 12 + 12 * (parts["half"].lower() == "pm")
    try:
        number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
        day = datetime(year, number, int(parts.get("day", "1")), hour, int(parts.get("minute") or 0))
    except ValueError:
        return None
    return (day - datetime(1970, 1, 1)).total_seconds() + int(parts.get("second") or 0)
