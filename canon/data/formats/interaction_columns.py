"""Which column of a file of interactions is the user, the item, the rating and the time.

By the settings of the data, else by their names, as MovieLens, Amazon, RecBole and others write them; columns without
names are user, item, rating, time, and a file of them is recognised by its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from canon.data.formats import json_lines
from canon.data.formats.cells import parse_number, unknown_in
from canon.data.formats.files import ending
from canon.data.formats.layout import first_lines, layout_of

ROLES = ("user", "item", "rating", "time")
PATTERNS = {
    "user": r"(user|customer|visitor|member|reviewer|reader|buyer|session|uid)([-_ ]?(id|no|name))?"
    r"|(用户|顾客|客户|会员|读者|买家)(编号|id|名)?",
    "item": r"(item|movie|product|song|track|artist|book|isbn|business|video|anime|game|article|iid|mid|asin)"
    r"([-_ ]?(id|no))?|(物品|商品|电影|图书|书籍|歌曲|菜品|店铺|文章)(编号|id|名)?",
    "rating": r"(rating|score|star|count|play|weight)s?|play[-_ ]?count|overall|评分|打分|星级|次数",
    "time": r"((event|click|view|unix|review|purchase|order)[-_ ]?)*"
    r"(time|timestamp|date|datetime|ts)([-_ ]?(stamp|ms))?|(created|updated|rated|purchased|ordered)[-_ ]?(at|on)"
    r"|时间|日期|时间戳",
}
_OTHER = r"event|action"  # columns that interactions may have and that are not read
PAIRS = "::"
PEEK = 50  # lines
_FEWEST_ITEMS = 10  # different numbers of users and of items by which columns without names are recognised
_MOST_RATINGS = 11  # different ratings
TIME = 1e8  # seconds since 1970 are more


class InteractionColumns(NamedTuple):
    """How a file is laid out: the place (or name) of each column in it; "" and −1 where there is none."""

    names: tuple[str, ...]
    roles: dict[str, str]  # role: column
    delimiter: str = ","  # ":" for "::", between whose halves is an empty column
    header: bool = True
    form: str = "text"  # text, json, parquet
    skip: int = 0  # lines before the table

    @property
    def doubled(self) -> bool:
        return self.delimiter == PAIRS

    @property
    def unread(self) -> list[str]:
        return [name for name in self.names if name not in self.roles.values()]


def columns_of(path: Path, config: Any) -> InteractionColumns | None:
    """The columns of a file that holds users and items by its names or its first lines; None of any other."""
    given = {role: value for role in ROLES if (value := vars(config)[role])}
    laid = _laid_out(path, config)
    if laid is None:
        return None
    if given or laid.header:
        roles = _chosen(given, laid.names, path) | _by_name(laid.names, given)
        return laid._replace(roles=roles) if {"user", "item"} <= roles.keys() else None
    return laid._replace(roles=_by_place(_first_rows(path, laid, config), laid.names))


def is_interactions(path: Path, config: Any) -> bool:
    """Whether a file is recognised without being named: all its columns are known, or its numbers look alike."""
    laid = _laid_out(path, config)
    if laid is None or not 2 <= len(laid.names) <= 5:
        return False
    if not laid.header:
        rows = _first_rows(path, laid, config)
        return _are_numbered(rows) or _are_rated(rows)
    known = re.compile("|".join((*PATTERNS.values(), _OTHER)))
    return {"user", "item"} <= _by_name(laid.names).keys() and all(known.fullmatch(_plain(name)) for name in laid.names)


def _first_rows(path: Path, laid: InteractionColumns, config: Any) -> list[list[str]]:
    lines = first_lines(path, config.encoding)[laid.skip :]
    return [line.split(laid.delimiter) for line in lines if line.strip()]


def _laid_out(path: Path, config: Any) -> InteractionColumns | None:
    """Without the roles of its columns."""
    kind = ending(path)
    if kind == ".parquet":
        import pyarrow.parquet as parquet

        return InteractionColumns(tuple(parquet.read_schema(path).names), {}, "", True, "parquet")
    if kind in json_lines.ENDINGS:
        first = json_lines.first_object(path, config.encoding)
        return InteractionColumns(tuple(first), {}, "", True, "json") if first else None
    lines = [line for line in first_lines(path, config.encoding)[:PEEK] if line.strip()]
    if lines and all(line.count(PAIRS) == lines[0].count(PAIRS) > 0 for line in lines):
        cells = lines[0].split(PAIRS)
        header = parse_number(cells[0]) is None and bool(_by_name(cells))
        return InteractionColumns(tuple(cells) if header else _numbers(len(cells)), {}, PAIRS, header)
    layout = layout_of(path, config.encoding, config.delimiter)
    if layout is None or len(layout.names) < 2:
        return None
    names = _numbers(len(layout.names)) if layout.bare else layout.names
    return InteractionColumns(names, {}, layout.delimiter, not layout.bare, skip=layout.skip)


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(place + 1) for place in range(count))


def _plain(name: str) -> str:
    """A name as it is compared; RecBole writes user_id:token."""
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name.partition(":")[0].strip()).lower()


def _by_name(names: Sequence[str], but: Any = ()) -> dict[str, str]:
    roles: dict[str, str] = {}
    for role, pattern in PATTERNS.items():
        fit = [name for name in names if re.fullmatch(pattern, _plain(name))]
        if fit and role not in but:
            roles[role] = fit[0]
    return roles


def _chosen(given: dict[str, str], names: tuple[str, ...], path: Path) -> dict[str, str]:
    roles = {}
    for role, name in given.items():
        if name not in names and name.isdecimal() and 0 < int(name) <= len(names):
            name = names[int(name) - 1]
        if name not in names:
            raise unknown_in(f"data.{role}", "column", name, names, path)
        roles[role] = name
    return roles


def _by_place(rows: list[list[str]], names: tuple[str, ...]) -> dict[str, str]:
    """User, item, rating, time; the third of three is a time where its numbers are."""
    roles = dict(zip(ROLES, names, strict=False))
    thirds = [value for row in rows if len(row) > 2 and (value := parse_number(row[2])) is not None]
    if len(names) == 3 and thirds and min(thirds) > TIME:
        roles["time"] = roles.pop("rating")
    return roles


def _are_rated(rows: list[list[str]]) -> bool:
    """Whether columns without names are users, items, ratings and times, users and items being words without spaces:
    most pairs are different, ratings few numbers, times seconds."""
    columns = [[cell.strip() for cell in column] for column in zip(*rows, strict=False)]
    if len(columns) != 4 or any(" " in cell or not cell for column in columns[:2] for cell in column):
        return False
    ratings, times = ([parse_number(cell) for cell in column] for column in columns[2:])
    timed = all(value is not None and value > TIME for value in times)
    rated = all(value is not None for value in ratings) and len(set(ratings)) <= _MOST_RATINGS
    return timed and rated and 2 * len(set(zip(*columns[:2], strict=True))) > len(rows)


def _are_numbered(rows: list[list[str]]) -> bool:
    """Whether columns without names are users, items and perhaps ratings and times, all numbers: both repeat, ratings
    are few, times are seconds. Two features with a class are alike but for the order, so users must come in order."""
    columns = [[parse_number(cell) for cell in column] for column in zip(*rows, strict=False)]
    if not 2 <= len(columns) <= 4 or any(value is None for column in columns for value in column):
        return False
    numbers = [[value for value in column if value is not None] for column in columns]
    users, items, *rest = numbers
    if not all(value.is_integer() and value >= 0 for value in (*users, *items)):
        return False
    timed = bool(rest) and min(rest[-1]) > TIME
    few = not rest or len(set(rest[0])) <= _MOST_RATINGS or (timed and len(rest) == 1)
    if len(set(items)) < _FEWEST_ITEMS or not few:
        return False
    if len(rest) == 2 or timed:
        return timed
    once = len(set(zip(users, items, strict=True))) == len(users)
    return once and users == sorted(users) and 2 * len(set(users)) <= len(users)
