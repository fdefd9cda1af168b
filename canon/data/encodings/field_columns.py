"""Fields: what one column of a table, or one field of numbered features, becomes.

Every field has rows of its own in one table of vectors: row 0 for what the training rows do not have (or not often
enough), row 1 for what is missing, and the rest for its values. `apply` gives the rows of a field for every example,
[N, width] (several where a cell has several values), and their weights where these are not all 1.
Numbers x become buckets (quantiles of the training rows), the bucket ⌊ln² x⌋, or one row with a weight: x or
sign(x) ln(1 + |x|), less its mean, over its standard deviation.
Shapes: N examples, W places of a field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from canon.data.formats.cells import parse_number
from canon.data.formats.feature_lines import FeatureLines
from canon.data.formats.tables import Table
from canon.errors import CanonError

UNSEEN, MISSING, FIRST = 0, 1, 2  # rows of every field
WIDEST = 64  # values of one cell


class EncodedField(NamedTuple):
    rows: np.ndarray  # int32 [N, W]
    weights: np.ndarray | None = None  # float32 [N, W]; None: all are 1


@dataclass(frozen=True)
class FieldColumn:
    name: str
    sort: ClassVar[str]
    width: ClassVar[int] = 1

    def __init_subclass__(cls, sort: str = "") -> None:
        cls.sort = sort

    @property
    def size(self) -> int:
        """Rows of the table that are its own."""
        raise AssertionError(f"{self.sort} has no size")

    def apply(self, rows: Any) -> EncodedField:
        raise AssertionError(f"{self.sort} is not applied")

    def shown(self, row: int, weight: float) -> str:
        """What a row stands for, for a person."""
        return "?" if row == UNSEEN else "missing" if row == MISSING else self._value(row - FIRST, weight)

    def _value(self, place: int, weight: float) -> str:
        return str(place)

    def to_record(self) -> dict[str, Any]:
        return {"sort": self.sort, **asdict(self)}


def _require(table: Table, name: str) -> None:
    if name not in table:
        raise CanonError(f'{table.path} has no column "{name}", which is a field of the run.')


@dataclass(frozen=True)
class CategoryField(FieldColumn, sort="category"):
    values: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return FIRST + len(self.values)

    @cached_property
    def place(self) -> dict[str, int]:
        return {value: row for row, value in enumerate(self.values, start=FIRST)} | {"": MISSING}

    def row(self, value: str) -> int:
        return self.place.get(value, UNSEEN)

    def apply(self, rows: Table) -> EncodedField:
        _require(rows, self.name)
        texts, codes = rows.factor(self.name)
        return EncodedField(np.array([self.row(text.strip()) for text in texts], dtype=np.int32)[codes][:, None])

    def _value(self, place: int, weight: float) -> str:
        return self.values[place]


@dataclass(frozen=True)
class HashedField(FieldColumn, sort="hashed"):
    """Values share 2^bits rows with those of all other hashed fields; its own are the two first ones."""

    bits: int = 16
    seed: int = 0

    @property
    def size(self) -> int:
        return FIRST

    def row(self, value: str) -> int:
        if not value:
            return MISSING
        digest = hashlib.blake2b(f"{self.seed}\0{self.name}\0{value}".encode(), digest_size=8).digest()
        return FIRST + int.from_bytes(digest, "little") % (1 << self.bits)

    def apply(self, rows: Table) -> EncodedField:
        _require(rows, self.name)
        texts, codes = rows.factor(self.name)
        return EncodedField(np.array([self.row(text.strip()) for text in texts], dtype=np.int32)[codes][:, None])


@dataclass(frozen=True)
class SeveralField(CategoryField, sort="several"):
    """Cells of several values: their mean."""

    separator: str = "|"
    width: int = 1  # type: ignore[misc]

    def apply(self, rows: Table) -> EncodedField:
        _require(rows, self.name)
        texts, codes = rows.factor(self.name)
        ids = np.zeros((len(texts), self.width), dtype=np.int32)
        weights = np.zeros((len(texts), self.width), dtype=np.float32)
        for place, text in enumerate(texts):
            known = [self.row(part) for part in parts_of_cell(text, self.separator)][: self.width] or [MISSING]
            ids[place, : len(known)], weights[place, : len(known)] = known, 1 / len(known)
        return EncodedField(ids[codes], weights[codes])


def parts_of_cell(text: str, separator: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(separator)))))


@dataclass(frozen=True)
class BucketField(FieldColumn, sort="buckets"):
    """Bucket b holds edges[b − 1] < x ≤ edges[b]."""

    edges: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        return FIRST + len(self.edges) + 1

    def apply(self, rows: Table) -> EncodedField:
        values, bad = _numbers(rows, self.name)
        buckets = FIRST + np.searchsorted(np.array(self.edges), values, side="left")
        return EncodedField(_marked(buckets, values, bad)[:, None])

    def _value(self, place: int, weight: float) -> str:
        if place == len(self.edges):
            return f"> {self.edges[-1]:g}" if self.edges else "any"
        return f"≤ {self.edges[place]:g}"


@dataclass(frozen=True)
class SquaredLogField(FieldColumn, sort="squared-log"):
    """⌊ln² x⌋ where x > 2, else ⌊x⌋ as it is: of the winners of Criteo's challenge (Juan et al. 2014)."""

    levels: tuple[int, ...] = ()  # those of the training rows; a number ≤ 2 is level x − 3

    @property
    def size(self) -> int:
        return FIRST + len(self.levels)

    @staticmethod
    def level(values: np.ndarray) -> np.ndarray:
        large = np.floor(np.log(np.maximum(values, 2.0)) ** 2)
        return np.where(values > 2, large, np.floor(np.minimum(values, 2.0)) - 3)

    def apply(self, rows: Table) -> EncodedField:
        values, bad = _numbers(rows, self.name)
        levels, known = self.level(np.nan_to_num(values)), np.array(self.levels, dtype=np.float64)
        place = np.minimum(np.searchsorted(known, levels), len(known) - 1)
        buckets = np.where(known[place] == levels, FIRST + place, UNSEEN)
        return EncodedField(_marked(buckets, values, bad)[:, None])

    def _value(self, place: int, weight: float) -> str:
        level = self.levels[place]
        return f"⌊ln²⌋ {level}" if level >= 0 else str(level + 3)


@dataclass(frozen=True)
class NumberField(FieldColumn, sort="number"):
    """One row, weighted by (x − mean)/std, of ln(1 + |x|) with the sign of x where `log`."""

    mean: float = 0.0
    std: float = 1.0
    log: bool = False

    @property
    def size(self) -> int:
        return FIRST + 1

    @staticmethod
    def scale(values: np.ndarray, log: bool) -> np.ndarray:
        return np.sign(values) * np.log1p(np.abs(values)) if log else values

    def apply(self, rows: Table) -> EncodedField:
        values, bad = _numbers(rows, self.name)
        ids = _marked(np.full(len(values), FIRST), values, bad)
        weights = np.where(ids == FIRST, (self.scale(np.nan_to_num(values), self.log) - self.mean) / self.std, 1.0)
        return EncodedField(ids[:, None], weights.astype(np.float32)[:, None])

    def _value(self, place: int, weight: float) -> str:
        value = weight * self.std + self.mean
        return f"{np.sign(value) * np.expm1(abs(value)) if self.log else value:.4g}"


def _numbers(table: Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    _require(table, name)
    values, bad = table.numbers(name)
    if (infinite := np.isinf(values)).any():
        raise table.mistake(int(infinite.argmax()), f'the number (column "{name}") is not finite.')
    return values, bad


def _marked(rows: np.ndarray, values: np.ndarray, bad: np.ndarray) -> np.ndarray:
    return np.where(bad, UNSEEN, np.where(np.isnan(values), MISSING, rows)).astype(np.int32)


@dataclass(frozen=True)
class FeatureField(FieldColumn, sort="features"):
    """Numbered features of lines: those at one place of every line, those of one field (libffm), or all of them."""

    by: str = "all"  # place, field or all
    number: int = 0  # of the place or field
    features: tuple[int, ...] = ()  # of the training rows, rising
    scales: tuple[float, ...] = ()  # what values are divided by; (): nothing
    width: int = 1  # type: ignore[misc]

    @property
    def size(self) -> int:
        return FIRST + len(self.features)

    def apply(self, rows: FeatureLines) -> EncodedField:
        taken, row_of, values = select(rows, self.by, self.number)
        known = np.array(self.features, dtype=np.int64)
        place = np.minimum(np.searchsorted(known, taken), len(known) - 1)
        seen = known[place] == taken
        if self.scales:
            values = values / np.where(seen, np.array(self.scales, dtype=np.float32)[place], 1)
        if self.by == "place":
            return EncodedField(np.where(seen, FIRST + place, UNSEEN).astype(np.int32)[:, None])
        counts = np.bincount(row_of, minlength=len(rows))
        within = np.arange(len(row_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        fits = within < self.width  # a longer row keeps its first features
        ids = np.zeros((len(rows), self.width), dtype=np.int32)
        weights = np.zeros((len(rows), self.width), dtype=np.float32)
        ids[row_of[fits], within[fits]] = np.where(seen, FIRST + place, UNSEEN)[fits]
        weights[row_of[fits], within[fits]] = np.where(seen, values, 0)[fits]
        ids[counts == 0, 0], weights[counts == 0, 0] = MISSING, 1
        return EncodedField(ids) if self.width == 1 and (weights == 1).all() else EncodedField(ids, weights)

    def _value(self, place: int, weight: float) -> str:
        value = f":{weight:.4g}" if weight not in (0, 1) else ""
        return f"{self.features[place]}{value}"


def select(lines: FeatureLines, by: str, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of a field, the row of each, and their values."""
    if by == "place":
        table = lines.features.reshape(len(lines), -1)[:, number]
        return table, np.arange(len(lines)), np.ones(len(lines), dtype=np.float32)
    if by == "field" and lines.fields is not None:
        mask = lines.fields == number
        return lines.features[mask], lines.row_of[mask], lines.values[mask]
    return lines.features, lines.row_of, lines.values


_SORTS: Mapping[str, type[FieldColumn]] = {
    cls.sort: cls
    for cls in (CategoryField, HashedField, SeveralField, BucketField, SquaredLogField, NumberField, FeatureField)
}


def from_record(record: dict[str, Any]) -> FieldColumn:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
    return _SORTS[str(values.pop("sort"))](**values)


# Measuring


def frequent(texts: Sequence[str], codes: np.ndarray, least: int) -> tuple[str, ...]:
    """Values that come so often, by falling count, ties by their characters."""
    counts: dict[str, int] = {}
    for text, count in zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True):
        if text.strip() and count:
            counts[text.strip()] = counts.get(text.strip(), 0) + count
    kept = [(-count, text) for text, count in counts.items() if count >= least]
    return tuple(text for _, text in sorted(kept))


def number_field(table: Table, name: str, rows: np.ndarray, how: str, buckets: int) -> FieldColumn:
    """A field of numbers, measured on the training rows."""
    values = _numbers(table, name)[0][rows]
    known = values[np.isfinite(values)]
    if not len(known):
        return BucketField(name)
    if how == "quantile":
        edges = np.unique(np.quantile(known, np.linspace(0, 1, buckets + 1)[1:-1], method="inverted_cdf"))
        return BucketField(name, tuple(edges[edges < known.max()].tolist()))
    if how == "squared-log":
        return SquaredLogField(name, tuple(map(int, np.unique(SquaredLogField.level(known)).tolist())))
    scaled = NumberField.scale(known, how == "log")
    return NumberField(name, float(scaled.mean()), float(scaled.std()) or 1.0, how == "log")


def is_number(table: Table, name: str) -> bool:
    """Whether a column is amounts rather than names or codes: numbers with fractions, or many different ones."""
    facts = table.facts(name)
    if facts.bad or facts.missing == len(table):
        return False
    values = [parse_number(text) for text in table.factor(name)[0] if text.strip()]
    known = [value for value in values if value is not None and np.isfinite(value)]
    return any(not value.is_integer() for value in known) or len(known) > _MOST_CODES


_MOST_CODES = 50  # different whole numbers that are codes
