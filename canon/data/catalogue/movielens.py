"""The films of MovieLens 100k as documents: title, genres as the body, and the year; ids are those of the ratings."""

from __future__ import annotations

from typing import Any

from canon.data.catalogue import find, find_file, require, verify
from canon.data.catalogue.pydocs import SearchData
from canon.data.formats.documents import FIELDS, FieldedDocuments
from canon.data.formats.movielens import read_films
from canon.errors import CanonError

_SET = "movielens-clicks"  # which has the file of films


def movielens() -> SearchData:
    folder = require(_SET)
    file = next(file for file in find(_SET).files if file.split == "item")
    path = find_file(folder, file)
    if path is None:
        raise CanonError(f"{folder} has no {file.name}, the films of MovieLens 100k.")
    verify(path, file)
    films = read_films(path)
    fields: dict[str, list[str]] = {name: [""] * len(films) for name in FIELDS}
    fields["title"] = [film.title for film in films]
    fields["body"] = [film.genres.replace("|", " ") for film in films]
    more: dict[str, list[Any]] = {
        "genres": [film.genres for film in films],
        "year": [int(film.year) if film.year.isdigit() else 0 for film in films],
    }
    return SearchData(FieldedDocuments([film.item for film in films], fields, more=more))
