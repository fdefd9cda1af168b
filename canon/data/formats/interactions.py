"""Files of interactions: a user, an item and perhaps a rating and a time on each line, read as numbers.

CSV, TSV, `::`, JSON lines and Parquet, with or without a header line, columns in any order. pyarrow reads a block at a
time; of each block remain the numbers of its ids in a list of their own (`Ids`), so that ten million lines take a few
hundred megabytes. Whatever pyarrow refuses is read again by Python, to name the line that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.formats import json_lines
from canon.data.formats.arrow_csv import arrow_blocks
from canon.data.formats.cells import MISSING, csv_rows, parse_number
from canon.data.formats.dates import form_of, moments
from canon.data.formats.files import utf8, whole_lines
from canon.data.formats.interaction_columns import PAIRS, PEEK, TIME, InteractionColumns
from canon.errors import CanonError, reason

_BLOCK = 1 << 24  # bytes that are read at once
_UNITS = (("seconds", 1e11, 1.0), ("milliseconds", 1e14, 1e3), ("microseconds", 1e17, 1e6))  # name, below, per second


@dataclass(frozen=True)
class Interactions:
    """Interactions of one file: places in the lists of users and items, which all files of the data share."""

    path: Path
    users: np.ndarray  # int32 [N]
    items: np.ndarray  # int32 [N]
    ratings: np.ndarray | None = None  # float32 [N]
    times: np.ndarray | None = None  # float64 [N], seconds

    def __len__(self) -> int:
        return len(self.users)

    def take(self, rows: np.ndarray) -> Interactions:
        ratings, times = (None if each is None else each[rows] for each in (self.ratings, self.times))
        return Interactions(self.path, self.users[rows], self.items[rows], ratings, times)


# ---- ids


class Ids:
    """The ids of one column, over several files: of each block the different texts, and which of them each line is."""

    def __init__(self) -> None:
        self._files: list[list[tuple[np.ndarray, Any]]] = []

    def begin_file(self) -> None:
        self._files.append([])

    def add(self, texts: Any) -> None:
        """An Arrow array of texts."""
        coded = texts.dictionary_encode()
        self._files[-1].append((coded.indices.to_numpy(zero_copy_only=False), coded.dictionary))

    def sorted(self) -> tuple[list[str], list[np.ndarray]]:
        """All ids in order, whole numbers by their size; and of each file which of them each line has, int32 [N]."""
        import pyarrow as pa
        import pyarrow.compute as pc

        blocks = [known for file in self._files for _, known in file]
        ids = pc.unique(pa.chunked_array(blocks, pa.string()).combine_chunks())
        keys = ids
        if pc.all(pc.match_substring_regex(ids, r"^(0|[1-9][0-9]{0,17})$")).as_py():
            keys = pc.cast(ids, pa.int64())
        ids = ids.take(pc.sort_indices(keys))
        codes = []
        for file in self._files:
            places = (pc.index_in(known, value_set=ids).to_numpy(zero_copy_only=False) for _, known in file)
            parts = [place.astype(np.int32)[block] for (block, _), place in zip(file, places, strict=True)]
            codes.append(np.concatenate(parts))
            file.clear()
        return ids.to_pylist(), codes


# ---- reading


def read_interactions(
    files: dict[str, tuple[Path, InteractionColumns]], config: Any
) -> tuple[dict[str, Interactions], list[str], list[str], list[str]]:
    """The interactions of each file, the users and the items of all, and notes on times."""
    import pyarrow as pa

    ids = Ids(), Ids()
    parts, notes = {}, []
    for name, (path, laid) in files.items():
        for each in ids:
            each.begin_file()
        parts[name], note = _read(path, laid, config, *ids)
        notes += [note] * bool(note)
    (users, user_codes), (items, item_codes) = (each.sorted() for each in ids)
    pa.default_memory_pool().release_unused()
    read = {
        name: Interactions(files[name][0], user_codes[place], item_codes[place], part.get("rating"), part.get("time"))
        for place, (name, part) in enumerate(parts.items())
    }
    return read, users, items, notes


def _read(
    path: Path, laid: InteractionColumns, config: Any, users: Ids, items: Ids
) -> tuple[dict[str, np.ndarray], str]:
    """The ratings and times of a file, and a note on its times; its ids go to `users` and `items`."""
    parts: dict[str, list[np.ndarray]] = {role: [] for role in ("rating", "time") if role in laid.roles}
    form = _form_of_times(path, laid, config)
    row = 0
    try:
        for block in _blocks(path, laid, config, bool(form)):
            for role, ids in (("user", users), ("item", items)):
                ids.add(_filled(path, laid, config, role, block[role], row))
            if "rating" in parts:
                parts["rating"].append(_numbered(path, laid, config, "rating", block["rating"], row, np.float32))
            if "time" in parts:
                dated = _moments(block["time"], form) if form else None
                times = (
                    _numbered(path, laid, config, "time", block["time"], row, np.float64) if dated is None else dated
                )
                parts["time"].append(times)
            row += len(block["user"])
    except CanonError:
        raise
    except _refusals() as refusal:
        raise _named_mistake(path, laid, config, refusal) from None
    if not row:
        raise CanonError(f"{path} has no interactions.")
    whole = {role: np.concatenate(arrays) for role, arrays in parts.items()}
    return whole, _in_seconds(path, laid, config, whole["time"]) if "time" in whole and not form else ""


def _refusals() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return (pa.ArrowException, ValueError)


def _blocks(path: Path, laid: InteractionColumns, config: Any, dated: bool) -> Iterator[dict[str, Any]]:
    """The columns of some rows at a time, as Arrow arrays by role: ids as texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = {"user": pa.string(), "item": pa.string(), "rating": pa.float32(), "time": pa.float64()}
    if dated:
        types["time"] = pa.string()

    def typed(role: str, column: Any) -> Any:
        return column if column.type == types[role] else pc.cast(column, types[role], safe=False)

    for batch in _batches(path, laid, config, {column: types[role] for role, column in laid.roles.items()}):
        yield {role: typed(role, batch.column(batch.schema.get_field_index(name))) for role, name in laid.roles.items()}


def _batches(path: Path, laid: InteractionColumns, config: Any, types: dict[str, Any]) -> Iterator[Any]:
    if laid.form == "parquet":
        import pyarrow.parquet as parquet

        yield from parquet.ParquetFile(path).iter_batches(1 << 20, columns=list(laid.roles.values()))
        return
    import pyarrow as pa

    if laid.form == "json":
        from pyarrow import json as arrow_json

        types |= _json_types(path, laid, config)
        begin = partial(
            arrow_json.open_json,
            read_options=arrow_json.ReadOptions(block_size=_BLOCK),
            parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"),
        )
        yield from arrow_blocks(utf8(path, config.encoding), begin)
        return
    from pyarrow import csv as arrow

    names = [part for name in laid.names for part in (name, f"{name}::")][:-1] if laid.doubled else list(laid.names)
    quote = False if laid.delimiter in ("\t", PAIRS) else '"'
    begin = partial(
        arrow.open_csv,
        read_options=arrow.ReadOptions(
            column_names=names, skip_rows=laid.skip + int(laid.header), block_size=_BLOCK, use_threads=False
        ),
        parse_options=arrow.ParseOptions(delimiter=laid.delimiter[0], quote_char=quote),
        convert_options=arrow.ConvertOptions(column_types=types, include_columns=list(types)),
    )
    yield from arrow_blocks(utf8(path, config.encoding), begin)


def _json_types(path: Path, laid: InteractionColumns, config: Any) -> dict[str, Any]:
    """How the first object writes what is not written as it is read: ids as whole numbers, numbers as texts."""
    import pyarrow as pa

    first = json_lines.first_object(path, config.encoding) or {}
    whole = {name: pa.int64() for role, name in laid.roles.items() if role in ("user", "item")}
    types = {name: kind for name, kind in whole.items() if type(first[name]) is int}
    return types | {name: pa.string() for name in laid.roles.values() if isinstance(first[name], str)}


def _filled(path: Path, laid: InteractionColumns, config: Any, role: str, texts: Any, row: int) -> Any:
    """Ids, none of which is missing."""
    import pyarrow.compute as pc

    empty = pc.fill_null(pc.equal(texts, ""), True)
    if pc.any(empty).as_py():
        place = row + int(np.argmax(empty.to_numpy(zero_copy_only=False)))
        raise CanonError(f"{path}, {_place(path, laid, config, place)}: the {role} is missing.")
    return texts


def _numbered(
    path: Path, laid: InteractionColumns, config: Any, role: str, cells: Any, row: int, kind: Any
) -> np.ndarray:
    values: np.ndarray = cells.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    if not np.isfinite(values).all():
        place = row + int(np.argmin(np.isfinite(values)))
        raise CanonError(
            f"{path}, {_place(path, laid, config, place)}: the {role} is missing or is not a number; give every line "
            f"one, or choose another column by data.{role}."
        )
    return values


# ---- times


def _form_of_times(path: Path, laid: InteractionColumns, config: Any) -> str:
    """The form of dates in the column of times (canon/data/formats/dates.py); "" where it has numbers."""
    if "time" not in laid.roles:
        return ""
    texts = [cells[laid.roles["time"]] for _, cells in islice(_cells(path, laid, config), PEEK)]
    if all(parse_number(text) is not None for text in texts):
        return ""
    if not (form := form_of(texts)):
        raise CanonError(
            f'{path}: the times in the column "{laid.roles["time"]}" are neither numbers nor dates, as "{texts[0]}"; '
            "choose another column by data.time."
        )
    return form


def _moments(texts: Any, form: str) -> np.ndarray:
    """Seconds since 1970; what Arrow does not read as a date is read text by text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.cast(pc.cast(texts, pa.timestamp("us")), pa.int64()).to_numpy(zero_copy_only=False) / 1e6
    except pa.ArrowInvalid:
        coded = texts.dictionary_encode()
        known = moments(coded.dictionary.to_pylist(), form)
        if np.isnan(known).any():
            wrong = coded.dictionary[int(np.argmax(np.isnan(known)))].as_py()
            raise ValueError(f'"{wrong}" is not a date, {form}') from None
        return known[coded.indices.to_numpy(zero_copy_only=False)]


def _in_seconds(path: Path, laid: InteractionColumns, config: Any, times: np.ndarray) -> str:
    """Divides times in milli- or microseconds, in place; a note on it. Times in two units are an error."""
    below = np.array([limit for _, limit, _ in _UNITS])
    unit = np.searchsorted(below, times, side="right")
    counted = times > TIME  # less may be anything, as days since a start
    if not counted.any():
        return ""
    first = int(np.argmax(counted))
    wrong = counted & (unit != unit[first])
    if wrong.any() or unit[first] == len(_UNITS):
        row = int(np.argmax(wrong))
        one, two = (_UNITS[min(int(unit[at]), len(_UNITS) - 1)][0] for at in (first, row))
        raise CanonError(
            f"{path}, {_place(path, laid, config, row)}: the time {times[row]:.0f} is in {two} since 1970, but that of "
            f"{_place(path, laid, config, first)} in {one}; write all in one unit."
        )
    name, _, per_second = _UNITS[int(unit[first])]
    if per_second == 1:
        return ""
    times /= per_second
    return f"{path.name}: times are in {name}."


# ---- what is wrong, and where


def _cells(path: Path, laid: InteractionColumns, config: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each row is, and its cells by column: slowly."""
    if laid.form == "parquet":
        import pyarrow.parquet as parquet

        batches = parquet.ParquetFile(path).iter_batches(1 << 16, columns=list(laid.roles.values()))
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows, start=1):
            yield f"row {number}", {name: "" if value is None else str(value) for name, value in row.items()}
    elif laid.form == "json":
        for number, row in json_lines.objects(path, config.encoding):
            yield f"line {number}", {name: "" if value is None else str(value) for name, value in row.items()}
    else:
        lines = (
            ((n, line.rstrip("\n").split(PAIRS)) for n, line in enumerate(whole_lines(path, config.encoding), 1))
            if laid.doubled
            else csv_rows(path, config.encoding, laid.delimiter, laid.skip)
        )
        filled = ((number, cells) for number, cells in lines if any(cells))
        for number, cells in islice(filled, int(laid.header), None):
            if len(cells) != len(laid.names):
                have = f"{len(cells)} column{'s' * (len(cells) != 1)}"
                raise CanonError(f"{path}, line {number}: {have}, but other lines have {len(laid.names)}.")
            yield f"line {number}", dict(zip(laid.names, cells, strict=True))


def _place(path: Path, laid: InteractionColumns, config: Any, row: int) -> str:
    return next(where for where, _ in islice(_cells(path, laid, config), row, None))


def _named_mistake(path: Path, laid: InteractionColumns, config: Any, refusal: Exception) -> CanonError:
    """The first line that is wrong, where Python finds one too."""
    form = _form_of_times(path, laid, config)
    for where, cells in _cells(path, laid, config):
        for role, column in laid.roles.items():
            text = cells.get(column, "")
            if role in ("user", "item"):
                if not text:
                    return CanonError(f"{path}, {where}: the {role} is missing.")
            elif role == "time" and form:
                if np.isnan(moments([text], form)[0]):
                    return CanonError(f'{path}, {where}: the time "{text}" is not a date ({form}), as others are.')
            elif text.strip().lower() in MISSING or parse_number(text) is None:
                return CanonError(f'{path}, {where}: the {role} "{text}" is not a number.')
    return CanonError(f"{path} cannot be read as interactions: {reason(refusal)}.")
