"""What a column of a table becomes: one class for each way, fitted on training rows, kept in the run's schema as JSON.

| column | features |
| --- | --- |
| numbers, amounts | (x − mean) / std, and a flag where training rows lack some |
| at most 1,000 texts | one-hot; an unseen text is all zeros |
| dates and times | day count, month, weekday, day of the month, hour: those that vary |
| more texts that repeat | of each text the mean of the label over its training rows; an unseen text is all zeros |
| sentences | which of the most frequent words are there |
| two columns of sentences | how alike they are (canon/data/likeness.py) |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np

from canon.data.checking.measure import HAN
from canon.data.formats import dates
from canon.data.formats.tables import Table
from canon.data.likeness import WIDTH, likeness, weights_of

MOST_WORDS = 1000  # of a column of sentences
_MOST_CELLS = 1 << 27  # of the words of all rows: half a gigabyte
_WORD = re.compile(rf"[{HAN}]|[^\W_]+")
_DAY = 86_400
_FOLDS = 5
_PRIOR = 10.0  # rows that the mean over all counts for, beside those of a text
# Of a date: how many features, one for each value, or one number.
_PARTS = {"days": 1, "month": 12, "weekday": 7, "day": 1, "hour": 24}


class CentredLabels(NamedTuple):
    """What is predicted for each training row: columns that are centred, [N, K] (K = 1 for two classes)."""

    values: np.ndarray

    @classmethod
    def of(cls, targets: np.ndarray, num_classes: int) -> CentredLabels:
        wide = targets.astype(np.float64)[:, None]
        if num_classes > 2:
            wide = (targets[:, None] == np.arange(num_classes)).astype(np.float64)
        return cls(wide - wide.mean(axis=0))


@dataclass(frozen=True)
class ColumnEncoder:
    kind: ClassVar[str]
    is_category: ClassVar[bool] = False
    name: str
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the table that it reads."""
        return (self.name,)

    def write(self, table: Table, features: np.ndarray) -> None:
        """The features of all rows, into zeros float32 [N, width]."""
        raise NotImplementedError

    def shown(self, features: np.ndarray) -> str:
        """The cell that a row's features [width] are from; "" where they do not say it."""
        return ""

    def to_record(self) -> dict[str, Any]:
        """As JSON; of the fields of a subclass those that are not the default."""
        values = asdict(self)
        defaults = {each.name: each.default for each in fields(self) if each.name not in _SHARED}
        core = {"name": values.pop("name"), "kind": self.kind, **{key: values[key] for key in _SHARED[1:]}}
        return core | {key: values[key] for key, default in defaults.items() if values[key] != default}


_SHARED = tuple(each.name for each in fields(ColumnEncoder))


@dataclass(frozen=True)
class NumberColumn(ColumnEncoder):
    kind = "number"
    flag: bool = False  # whether a second feature says that the number is missing
    comma: bool | None = None  # of amounts: whether a comma is the decimal point
    strays: bool = False  # whether a text counts as a missing number
    unit: str = ""  # what is after the numbers

    @property
    def width(self) -> int:
        return 1 + self.flag

    @classmethod
    def fit(cls, table: Table, name: str, rows: np.ndarray, flag: bool, strays: bool) -> NumberColumn:
        chosen = table.numbers(name)[0][rows]
        known = chosen[np.isfinite(chosen)]
        std = float(known.std())
        flag = flag and len(known) < len(chosen)
        how = flag, table.commas.get(name), strays, table.units.get(name, "")
        return cls(name, float(known.mean()), std if std > 0 else 1.0, (), *how)

    def write(self, table: Table, features: np.ndarray) -> None:
        values = table.numbers(self.name)[0]
        features[:, 0] = (np.where(np.isnan(values), self.mean, values) - self.mean) / self.std
        if self.flag:
            features[:, 1] = np.isnan(values)

    def shown(self, features: np.ndarray) -> str:
        digits = 4 - int(np.floor(np.log10(self.std)))  # what float32 of a standardised number still knows
        return f"{round(float(features[0]) * self.std + self.mean, digits) + 0.0:.6g}"


@dataclass(frozen=True)
class CategoryColumn(ColumnEncoder):
    kind = "category"
    is_category = True

    @property
    def width(self) -> int:
        return len(self.categories)

    @classmethod
    def fit(cls, table: Table, name: str, rows: np.ndarray) -> CategoryColumn:
        texts, codes = table.factor(name)
        return cls(name, categories=tuple(sorted(texts[code] for code in np.unique(codes[rows]))))

    def write(self, table: Table, features: np.ndarray) -> None:
        place = _codes(table, self.name, self.categories)
        seen = np.flatnonzero(place >= 0)
        features[seen, place[seen]] = 1.0

    def shown(self, features: np.ndarray) -> str:
        return self.categories[features.argmax()] if features.any() else "?"


@dataclass(frozen=True)
class DateColumn(ColumnEncoder):
    """mean and std are those of the day count."""

    kind = "date"
    form: str = ""  # of canon.data.formats.dates
    parts: tuple[str, ...] = ()
    flag: bool = False  # whether a last feature says that the date is missing

    @property
    def width(self) -> int:
        return sum(_PARTS[part] for part in self.parts) + self.flag

    @classmethod
    def fit(cls, table: Table, name: str, rows: np.ndarray, form: str) -> DateColumn:
        moments = _moments(table, name, form)[rows]
        known = moments[np.isfinite(moments)]
        read = _calendar(known)
        parts = tuple(part for part in _PARTS if len(np.unique(read[part])) > 1) or ("days",)
        std = float(read["days"].std())
        mean = float(read["days"].mean())
        return cls(name, mean, std if std > 0 else 1.0, (), form, parts, len(known) < len(moments))

    def write(self, table: Table, features: np.ndarray) -> None:
        moments = _moments(table, self.name, self.form)
        known = np.flatnonzero(np.isfinite(moments))
        read, start = _calendar(moments[known]), 0
        read["days"] = (read["days"] - self.mean) / self.std
        read["day"] = read["day"] / 15.5 - 1
        for part in self.parts:
            if _PARTS[part] > 1:
                features[known, start + read[part].astype(np.int64)] = 1.0
            else:
                features[known, start] = read[part]
            start += _PARTS[part]
        if self.flag:
            features[:, start] = ~np.isfinite(moments)


@dataclass(frozen=True)
class MeansColumn(ColumnEncoder):
    """Of each category n̄ = Σ y / (n + 10), y the centred label, in units of its standard deviation over the rows."""

    kind = "means"
    values: tuple[tuple[float, ...], ...] = ()  # of each category

    @property
    def width(self) -> int:
        return len(self.values[0])

    @classmethod
    def fit(cls, table: Table, name: str, rows: np.ndarray, labels: CentredLabels) -> tuple[MeansColumn, np.ndarray]:
        """The encoder, and the features of the training rows, each from the labels of other rows than itself."""
        texts, codes = table.factor(name)
        codes = codes[rows]
        seen, place = np.unique(codes, return_inverse=True)
        fold = np.random.RandomState(0).permutation(len(rows)) % _FOLDS
        parts = [_sums(place[fold == k], labels.values[fold == k], len(seen)) for k in range(_FOLDS)]
        sums, counts = (np.sum([part[i] for part in parts], axis=0) for i in range(2))
        others = np.empty_like(labels.values)
        for k, (sum_k, count_k) in enumerate(parts):
            others[fold == k] = ((sums - sum_k) / (counts - count_k + _PRIOR)[:, None])[place[fold == k]]
        scale = np.where(others.std(axis=0) > 0, others.std(axis=0), 1.0)
        order = sorted(range(len(seen)), key=lambda i: texts[seen[i]])
        values = (sums / (counts + _PRIOR)[:, None] / scale)[order].round(6)
        names = tuple(texts[seen[i]] for i in order)
        return cls(name, categories=names, values=tuple(map(tuple, values.tolist()))), others / scale

    def write(self, table: Table, features: np.ndarray) -> None:
        place = _codes(table, self.name, self.categories)
        seen = np.flatnonzero(place >= 0)
        features[seen] = np.array(self.values, dtype=np.float32)[place[seen]]


@dataclass(frozen=True)
class WordsColumn(ColumnEncoder):
    """Of each word in `categories`, whether a cell has it."""

    kind = "words"

    @property
    def width(self) -> int:
        return len(self.categories)

    @classmethod
    def fit(cls, table: Table, name: str, rows: np.ndarray) -> WordsColumn:
        counts: Counter[str] = Counter()
        for text in table.stream(name, np.sort(rows)):
            counts.update(set(_words(text)))
        most = min(MOST_WORDS, max(_MOST_CELLS // len(table), 50))
        frequent = sorted(((-count, word) for word, count in counts.items() if count > 1))[:most]
        return cls(name, categories=tuple(word for _, word in frequent))

    def write(self, table: Table, features: np.ndarray) -> None:
        place = {word: index for index, word in enumerate(self.categories)}
        for row, text in enumerate(table.stream(self.name, np.arange(len(table)))):
            features[row, [place[word] for word in _words(text) if word in place]] = 1.0


@dataclass(frozen=True)
class LikenessColumns(ColumnEncoder):
    """How alike the texts of two columns are: numbers in units of their standard deviations over the training rows."""

    kind = "likeness"
    other: str = ""  # the second column
    idf: tuple[float, ...] = ()  # of each word in `categories`
    rarest: float = 1.0
    means: tuple[float, ...] = ()
    stds: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def columns(self) -> tuple[str, ...]:
        return self.name, self.other

    @classmethod
    def fit(cls, table: Table, name: str, other: str, rows: np.ndarray) -> LikenessColumns:
        order = np.sort(rows)
        idf, rarest = weights_of(chain(table.stream(name, order), table.stream(other, order)), _words)
        encoder = cls(name, 0.0, 1.0, tuple(idf), other, tuple(idf.values()), rarest)
        numbers = encoder._numbers(table, order)
        stds = numbers.std(axis=0).round(6)
        scales = np.where(stds > 0, stds, 1.0)
        return replace(encoder, means=tuple(numbers.mean(axis=0).round(6).tolist()), stds=tuple(scales.tolist()))

    def _numbers(self, table: Table, rows: np.ndarray) -> np.ndarray:
        idf = dict(zip(self.categories, self.idf, strict=True))
        pairs = zip(table.stream(self.name, rows), table.stream(self.other, rows), strict=True)
        return likeness(pairs, idf, self.rarest, _words)

    def write(self, table: Table, features: np.ndarray) -> None:
        features[:] = (self._numbers(table, np.arange(len(table))) - np.array(self.means)) / np.array(self.stds)


_KINDS: tuple[type[ColumnEncoder], ...] = (
    NumberColumn,
    CategoryColumn,
    DateColumn,
    MeansColumn,
    WordsColumn,
    LikenessColumns,
)
BY_KIND: Mapping[str, type[ColumnEncoder]] = {cls.kind: cls for cls in _KINDS}


def from_record(record: Mapping[str, Any]) -> ColumnEncoder:
    """From what `to_record` gave, read back from JSON."""
    cls = BY_KIND[record["kind"]]
    return cls(**{key: _tuples(value) for key, value in record.items() if key != "kind"})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _codes(table: Table, name: str, categories: Sequence[str]) -> np.ndarray:
    """Each text's place among the categories, else that of one that differs in case or spaces, else -1; int64 [N]."""
    loose = {text.strip().casefold(): code for code, text in reversed(list(enumerate(categories)))}
    places = {text: code for code, text in enumerate(categories)}
    texts, codes = table.factor(name)
    codes_of_texts = (places.get(text, loose.get(text.strip().casefold(), -1)) for text in texts)
    return np.fromiter(codes_of_texts, dtype=np.int64, count=len(texts))[codes]


def _moments(table: Table, name: str, form: str) -> np.ndarray:
    texts, codes = table.factor(name)
    return dates.moments(texts, form)[codes]


def _calendar(moments: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of finite moments; all count from 0."""
    days = np.floor(moments / _DAY)
    stamps = days.astype("datetime64[D]")
    months = stamps.astype("datetime64[M]")
    return {
        "days": moments / _DAY,
        "month": months.astype(np.int64) % 12,
        "weekday": (days.astype(np.int64) + 3) % 7,  # 1 January 1970 was a Thursday
        "day": (stamps - months).astype(np.int64).astype(np.float64),
        "hour": np.floor((moments - days * _DAY) / 3600),
    }


def _sums(place: np.ndarray, values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """By category: sums [size, K] and counts [size]."""
    sums = [np.bincount(place, weights=column, minlength=size) for column in values.T]
    return np.stack(sums, axis=1), np.bincount(place, minlength=size).astype(np.float64)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
