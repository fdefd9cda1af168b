"""MovieLens 100k as a table: one row for each rating, with what u.user and u.item say of the user and the film."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from canon.data.formats.files import lines
from canon.data.formats.tables import Table
from canon.errors import CanonError

_GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy"),
    *("Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)


class Film(NamedTuple):
    item: str
    title: str
    genres: str  # with | between them
    year: str  # "" where the file has none


def read_films(path: Path) -> list[Film]:
    """The lines of u.item."""
    films = []
    for row in _rows(path, "|", 24, "latin-1"):
        genres = "|".join(name for name, flag in zip(_GENRES, row[5:], strict=True) if flag == "1")
        films.append(Film(row[0], row[1], genres, row[2][-4:]))
    return films


def read_movielens(files: dict[str, Path], config: Any) -> Table:
    """files: the ratings as "train", and the tables of users and items by those names."""
    users = {row[0]: row[1:4] for row in _rows(files["user"], "|", 5, "utf-8")}
    items = {film.item: (film.genres, film.year) for film in read_films(files["item"])}
    columns: list[list[str]] = [[] for _ in range(9)]
    for user, item, rating, time in _rows(files["train"], "\t", 4, "utf-8"):
        for column, cell in zip(columns, (user, item, *users[user], *items[item], rating, time), strict=True):
            column.append(cell)
    names = ("user", "item", "age", "gender", "occupation", "genres", "year", "rating", "time")
    return Table(files["train"], {n: np.array(c, dtype=object) for n, c in zip(names, columns, strict=True)}, config)


def _rows(path: Path, separator: str, width: int, encoding: str) -> list[list[str]]:
    rows = [line.split(separator) for line in lines(path, encoding) if line.strip()]
    if wrong := next((n for n, row in enumerate(rows, 1) if len(row) != width), 0):
        raise CanonError(f"{path}, line {wrong}: {len(rows[wrong - 1])} cells, but MovieLens has {width}.")
    return rows
