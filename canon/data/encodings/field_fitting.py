"""Which columns are fields, of which sort, and what they are measured to be on the training rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.data.columns import choose_features
from canon.data.encodings.field_columns import (
    WIDEST,
    CategoryField,
    FeatureField,
    FieldColumn,
    HashedField,
    SeveralField,
    frequent,
    is_number,
    number_field,
    parts_of_cell,
    select,
)
from canon.data.formats.cells import listed
from canon.data.formats.criteo import criteo_columns
from canon.data.formats.feature_lines import FeatureLines, read_lines
from canon.data.formats.tables import Table, read_table
from canon.data.kinds.clicks import ClickSource, Rows
from canon.data.kinds.labelled import separator_of
from canon.errors import CanonError, unknown

if TYPE_CHECKING:
    from canon.data.encodings.fields import FieldSchema

_CODED = re.compile(r"(.*[-_ ])?(id|ids|no|code|zip|zipcode|postcode|key|hash|user|item|movie|product|ad|hour|day)")
_FEWEST = 50  # rows from which on a field that is different in every one of them is left out
_UNIQUE = 0.95  # so many different values a row


def of_lines(columns: Sequence[FieldColumn]) -> bool:
    return isinstance(columns[0], FeatureField)


def without_fields(columns: Sequence[FieldColumn]) -> bool:
    return isinstance(columns[0], FeatureField) and columns[0].by == "all"


def fit(source: ClickSource, config: Any, taken: np.ndarray) -> tuple[tuple[FieldColumn, ...], list[str]]:
    """The fields, and notes; `taken` are the training rows."""
    train: Rows = source.parts["train"]
    if isinstance(train, FeatureLines):
        return _of_lines(train, config, taken)
    return _of_table(train, source, config, taken)


# Tables


def _of_table(
    train: Table, source: ClickSource, config: Any, taken: np.ndarray
) -> tuple[tuple[FieldColumn, ...], list[str]]:
    names = choose_features(train, config.features, source.label)
    for setting, given in (("data.numeric", config.numeric), ("data.categories", config.categories)):
        for name in given:
            train.require(name, setting)
    columns: list[FieldColumn] = []
    left: list[str] = []
    for name in names:
        if name == source.time and name not in config.features:
            continue
        fitted = _columns(train, name, source, config, taken)
        columns += fitted
        if not fitted:
            left.append(f'"{name}"')
    if not columns:
        raise CanonError(
            f"{train.path} has no column that can be a field beside its label; name some in data.features."
        )
    notes = [f"Left out, since almost every row has another value: {listed(left)}."] if left else []
    numbers = list(dict.fromkeys(f'"{c.name}"' for c in columns if not isinstance(c, CategoryField | HashedField)))
    if numbers:
        notes.append(f"Numbers ({config.numbers}; data.numeric, data.categories): {listed(numbers)}.")
    several = [f'"{c.name}"' for c in columns if isinstance(c, SeveralField)]
    if several:
        notes.append(f"Several values a cell, whose mean is taken: {listed(several)}.")
    return tuple(columns), notes


def _columns(train: Table, name: str, source: ClickSource, config: Any, taken: np.ndarray) -> list[FieldColumn]:
    """The fields that a column is; none where it says nothing, because it is different in every row."""
    if source.numbers is not None and not config.numeric:
        as_number = name in source.numbers
    else:
        as_number = name in config.numeric or (not _is_coded(name) and is_number(train, name))
    if as_number and name not in config.categories:
        how = ("quantile", "z") if config.numbers == "both" else (config.numbers,)
        return [number_field(train, name, taken, each, config.buckets) for each in how]
    texts, codes = train.factor(name)
    separator = separator_of(train, name)
    if separator:
        return [_several(name, separator, texts, codes[taken], config)]
    asked = name in (*config.features, *config.categories, source.user)
    filled = sum(bool(text.strip()) for text in texts)
    if not asked and len(train) >= _FEWEST and filled > _UNIQUE * len(train):
        return []
    if config.hash_bits:
        return [HashedField(name, config.hash_bits, config.seed)]
    return [CategoryField(name, frequent(texts, codes[taken], config.min_count or 1))]


def _is_coded(name: str) -> bool:
    """Whether a name says that numbers are codes: user_id, zip, itemId."""
    return bool(_CODED.fullmatch(name.strip().lower())) or name.endswith(("Id", "ID"))


def _several(name: str, separator: str, texts: list[str], codes: np.ndarray, config: Any) -> SeveralField:
    counts = np.bincount(codes, minlength=len(texts))
    split = [parts_of_cell(text, separator) for text in texts]
    parts = [part for row in split for part in row]
    places = {part: place for place, part in enumerate(dict.fromkeys(parts))}
    flat = np.array([places[part] for part in parts], dtype=np.int64)
    times = np.repeat(counts, [len(row) for row in split])
    values = frequent(list(places), np.repeat(flat, times), config.min_count or 1)
    width = max((len(row) for row, count in zip(split, counts, strict=True) if count), default=1)
    return SeveralField(name, values=values, separator=separator, width=min(max(width, 1), WIDEST))


# Lines


def _of_lines(train: FeatureLines, config: Any, taken: np.ndarray) -> tuple[tuple[FieldColumn, ...], list[str]]:
    if config.hash_bits:
        raise CanonError("data.hash_bits is for tables: lines of numbered features have numbers already; leave it out.")
    inside = np.zeros(len(train), dtype=bool)
    inside[taken] = True
    least = config.min_count or 1
    if train.fields is None and (table := train.by_place) is not None and table.shape[1] > 1:
        width = table.shape[1]
        columns = [_feature_field(train, "place", place, inside, least) for place in range(width)]
        return tuple(columns), [f"Every row has {width} features, of which each place is a field."]
    if train.fields is not None:
        numbers = np.unique(train.fields).tolist()
        return tuple(_feature_field(train, "field", number, inside, least) for number in numbers), []
    column = _feature_field(train, "all", 0, inside, least)
    notes = [f"The features belong to no fields; a row has up to {column.width:,} of them."]
    if column.scales:
        notes.append("Values are divided by the largest of their feature.")
    return (column,), notes


def _feature_field(train: FeatureLines, by: str, number: int, inside: np.ndarray, least: int) -> FeatureField:
    features, row_of, values = select(train, by, number)
    kept = inside[row_of]
    known, place, counts = np.unique(features[kept], return_inverse=True, return_counts=True)
    width = int(np.bincount(row_of[kept]).max(initial=1))
    scales: tuple[float, ...] = ()
    if np.abs(values[kept]).max(initial=0) > 1:
        largest = np.zeros(len(known))
        np.maximum.at(largest, place, np.abs(values[kept]))
        scales = tuple(np.where(largest > 0, largest, 1)[counts >= least].tolist())
    chosen = tuple(known[counts >= least].tolist())
    if not chosen:
        raise CanonError(f"{train.path}: no feature comes {least:,} times; give a smaller data.min_count.")
    names = {"place": f"field {number + 1}", "field": f"field {number}", "all": "features"}
    return FeatureField(names[by], by=by, number=number, features=chosen, scales=scales, width=width)


def require_lines(rows: Rows, columns: Sequence[FieldColumn]) -> None:
    """Refuses rows that do not have the fields of a run that was trained on lines."""
    if not isinstance(rows, FeatureLines):
        raise CanonError(f"{rows.path} is a table, but the run was trained on lines such as 1 4:1 13:0.5.")
    first = columns[0]
    assert isinstance(first, FeatureField)
    if first.by == "field" and rows.fields is None:
        raise CanonError(f"{rows.path} has number:value, but the run was trained on libffm's field:number:value.")
    if first.by == "place" and (wrong := rows.lengths != len(columns)).any():
        row = int(wrong.argmax())
        raise rows.mistake(row, f"{rows.lengths[row]} features, but the run was trained on {len(columns)} fields.")


def read_rows(path: Path, columns: Sequence[FieldColumn], known: Sequence[str], config: Any) -> Rows:
    """The rows of a file to predict from, which may lack labels where it is a table."""
    if of_lines(columns):
        return read_lines(path, config.encoding)
    return read_table(path, config, criteo_columns(path, config.encoding), like=known)


# Crosses and hashes


def crosses(columns: Sequence[FieldColumn], config: Any) -> tuple[tuple[int, ...], ...]:
    """The fields of each of data.crosses, by their places."""
    places = {column.name: place for place, column in reversed([*enumerate(columns)])}  # of a number its buckets
    for cross in config.crosses:
        for name in cross:
            if name not in places:
                raise unknown("field (data.crosses)", name, places)
            if columns[places[name]].width > 1:
                raise CanonError(f'data.crosses: "{name}" has several values a cell; cross fields of one value.')
        if len(set(cross)) < 2:
            raise CanonError(f"data.crosses: a cross has two different fields or more, got {list(cross)}.")
    return tuple(tuple(places[name] for name in cross) for cross in config.crosses)


def collisions(
    schema: FieldSchema, source: ClickSource, encoded: dict[str, np.ndarray], taken: np.ndarray
) -> list[str]:
    """How many different values share a row with another one, of hashed fields and of crosses."""
    notes = []
    hashed = [column for column in schema.columns if isinstance(column, HashedField)]
    if hashed:
        train, rows, different = source.parts["train"], [], 0
        for column in hashed:
            texts, codes = train.factor(column.name)
            seen = [texts[code].strip() for code in np.unique(codes[taken]).tolist()]
            rows += [column.row(text) for text in seen if text]
            different += sum(map(bool, seen))
        notes.append(_said("Hashing", different, len(set(rows)), 1 << schema.hash_bits))
    for place, cross in enumerate(schema.crosses):
        crossed = np.stack([encoded["input"][taken, schema.place_of(field)] for field in cross], axis=1)
        used = len(np.unique(encoded["crosses"][taken, place]))
        names = " × ".join(schema.columns[field].name for field in cross)
        notes.append(_said(f"The cross {names}", len(np.unique(crossed, axis=0)), used, 1 << schema.cross_bits))
    return notes


def _said(what: str, different: int, used: int, rows: int) -> str:
    return (
        f"{what}: {different:,} values into {rows:,} rows, of which {used:,} are used ({different - used:,} collide)."
    )
