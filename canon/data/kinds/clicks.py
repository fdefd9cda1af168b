"""Clicks: rows of fields (who, what, where, when) and whether there was a click.

Read from libFM's, svmlight's and libffm's lines, from Criteo's logs, and from tables. A table is of this kind by the
name of its label (click, clicked, ctr …, with two values), and can be read as this kind whatever its label is called.
`data.positive = ">= 4"` makes clicks of a number. The columns of the user and of the time split the rows or
score them (AUC per user); the time is not a field.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.columns import choose_label, class_names, short, texts_of
from canon.data.formats.cells import parse_number
from canon.data.formats.criteo import LABEL, criteo_columns
from canon.data.formats.dates import form_of, moments
from canon.data.formats.feature_lines import FeatureLines, holds_lines, read_lines
from canon.data.formats.files import ending
from canon.data.formats.movielens import read_movielens
from canon.data.formats.tables import ENDINGS, Table, canonical, has_feature_lines, read_table
from canon.data.kinds.base import Kind, holds_tables, open_tables, peeked, records_of, table_parts
from canon.data.kinds.interactions import INTERACTIONS
from canon.data.kinds.parts import files_in, leading_file, parts_of
from canon.data.settings import Columns, Name, layout
from canon.data.source import Source, split_of
from canon.errors import CanonError

CLICKED = re.compile(r"(is|has|was)?[-_ ]?(clicks?|clicked|clk|ctr)([-_ ]?(label|flag|yn))?|(是否)?(被)?点击")
USERS = re.compile(
    r"(user|customer|visitor|member|reviewer|uid)([-_ ]?(id|no|name))?|(用户|顾客|客户|会员|读者|买家)(编号|id|名)?"
)
TIMES = re.compile(
    r"(event|click|log|view)?[-_ ]?(time|timestamp|datetime|ts)([-_ ]?(stamp|ms))?|(点击|曝光)?时间戳?|日期"
)
_RATINGS = re.compile(r"ratings?|scores?|stars")
_POSITIVE = re.compile(r"\s*(>=|<=|>|<|==|!=)\s*(\S.*?)\s*")
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_YES = ("1", "true", "yes", "y", "t", "click", "clicked", "positive")
_LOOKED = 50  # different dates by which their form is known
_MISTAKEN = 0.05  # of all labels: so few others among two values are mistakes
_MILLISECONDS, _SECONDS = 1e11, 1e8  # a time since 1970 is more
SPLITS = ("", "given", "random", "time", "user")

Rows = Table | FeatureLines


@settings
class ClickSettings(Columns):
    user: Name = layout("", "column of the user: for AUC per user and split = user; default: by its name, if any")
    time: Name = layout("", "column of the time: for split = time, not a field; default: by its name")
    positive: str = layout("", 'which labels are clicks, as in ">= 4"; default: of two values the larger one')
    split: str = Field(
        default="",
        description="what is held out: given (the source's parts), time (the last rows), user (whole users) or random; "
        "default: given, else time where there is one, else random",
    )
    tenth: Annotated[int, Field(ge=0, lt=10)] | None = Field(
        default=None, description="ten-fold cross-validation: which random tenth of all rows is the test set"
    )


@dataclass(frozen=True)
class ClickSource(Source):
    """Parts are tables, or lines of numbered features."""

    label: str = ""  # the column of a table
    user: str = ""
    time: str = ""
    numbers: tuple[str, ...] | None = None  # columns that are numbers; None: they are looked at
    positive: str = ""  # which labels are clicks: data.positive, or the named set's own choice


class ClickKind(Kind):
    name = "clicks"
    singular = "a set of clicks (rows of fields)"
    plural = "clicks"
    plural_zh = "点击数据"
    settings = ClickSettings
    offered = False  # any table with a label of two values can be read as clicks
    certain = True
    formats = ("svmlight", "libfm", "libffm", "criteo")

    # Recognising

    def sniff(self, path: Path, config: Any) -> str:
        """By the training part of a folder, or any file where none is named as a part."""
        files, leading = files_in(path), leading_file(path)
        named = any(map(split_of, files))
        if leading is not None and has_feature_lines(leading, config):
            return ""
        if any(_holds_lines(file, config.encoding) for file in files if file == leading or not named):
            return f"{path.name} has lines such as 1 4:1 13:0.5"
        if leading is not None and _criteo(leading, config.encoding):
            return f"{path.name} has Criteo's columns: 13 counts and 26 categories"
        if leading is None or not holds_tables(path, config):
            return ""
        if config.positive:
            return f"data.positive says which rows of {path.name} are clicks"
        if config.label:
            return ""
        return self._clicked(path, config)

    def _clicked(self, path: Path, config: Any) -> str:
        """Why a table is one of clicks: the name of a label with two values, but for a few mistakes, which opening it
        names. Not a table with a text."""
        try:
            table = peeked(path, config)
        except CanonError:  # opening the table raises it again
            return ""
        label = _named(table.names, CLICKED)
        if not label or texts_of(table, label):
            return ""
        counts = Counter(canonical(text) for text in table.texts(label) if text.strip())
        two = sum(count for _, count in counts.most_common(2))
        return f'{path.name} has the label "{label}"' if two >= (1 - _MISTAKEN) * counts.total() else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        return f"{path.name} is a table, whose columns can be fields"

    def sniff_set(self, record: Dataset) -> str:
        return f"{record.name} is a table, whose columns can be fields"

    def sniff_kind(self, name: str, home: Kind) -> str:
        return f"{name} has users and items, whose columns can be fields" if home is INTERACTIONS else ""

    def is_chosen(self, config: Any) -> bool:
        """Not for a table without clicks: its columns are features to other systems."""
        return False

    def is_table(self, path: Path, config: Any) -> bool:
        leading = leading_file(path)
        lines = leading is None or _holds_lines(leading, config.encoding)
        return not lines and config.format == "auto" and holds_tables(path, config)

    # Opening

    def open(self, path: Path, config: Any) -> Source:
        return _whole(super().open(path, config), config)

    def open_set(self, record: Dataset, config: Any) -> Source:
        return _whole(super().open_set(record, config), config)

    def read(self, path: Path, config: Any, like: Source | None = None) -> ClickSource:
        leading = leading_file(path)
        if config.format in self.formats[:3] or (leading and _holds_lines(leading, config.encoding)):
            how = parts_of(path, lambda file: _holds_lines(file, config.encoding) or file == path)
            parts: dict[str, Any] = {name: read_lines(file, config.encoding) for name, file in how.files.items()}
            return ClickSource(path.name, parts, records_of(how.files), tuple(how.notes), positive=config.positive)
        if leading and (config.format in self.formats or _criteo(leading, config.encoding)):
            how = parts_of(path, lambda file: bool(_criteo(file, config.encoding)) or file == path)
            return self._criteo_source(path.name, how.files, config, tuple(how.notes))
        how = table_parts(path, config)
        names = like.parts["train"].names if isinstance(like, ClickSource) else ()
        tables, notes = open_tables(how.files, config, names)
        named = (*how.notes, *notes)
        source = ClickSource(path.name, dict(tables), records_of(how.files), named, positive=config.positive)
        return _described(source, config, like)

    def _criteo_source(
        self, name: str, files: dict[str, Path], config: Any, notes: tuple[str, ...] = ()
    ) -> ClickSource:
        parts: dict[str, Any] = {}
        for split, file in files.items():
            columns = criteo_columns(file, config.encoding)
            if not columns:
                raise CanonError(f"{file} is not a log as Criteo's: a line has a label, 13 numbers and 26 categories.")
            parts[split] = read_table(file, replace(config, delimiter="\t"), columns)
        numbers = tuple(column for column in parts["train"].names if column.startswith("I"))
        return ClickSource(name, parts, records_of(files), notes, label=LABEL, numbers=numbers)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ClickSource:
        if record.format == "criteo":
            return self._criteo_source(record.name, files, config)
        if record.format == "movielens":
            table = read_movielens(files, config)
            source = ClickSource(
                record.name, {"train": table}, records_of(files), label=record.label, numbers=("age", "year"),
                positive=config.positive or ">= 4",
            )  # fmt: skip
            return _described(source, config, None)
        parts: dict[str, Any] = {split: read_lines(path, config.encoding) for split, path in files.items()}
        return ClickSource(record.name, parts, records_of(files))

    def adapt(self, source: Source, config: Any) -> Source:
        """A built-in table."""
        if isinstance(source.parts["train"], Table):
            label, _ = choose_label(source.parts["train"], config.label)
            return ClickSource(source.name, source.parts, source.files, source.notes, source.test, label=label)
        return source

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        super().count(report, config, source)
        assert isinstance(source, ClickSource)
        try:
            classes = click_classes(source)
            counted = np.bincount(click_codes(source.parts["train"], source, classes), minlength=2)
            report.classes["train"] = dict(zip(classes, counted.tolist(), strict=True))
        except CanonError as mistake:
            report.warn(str(mistake))


CLICKS = ClickKind()


def _whole(source: Source, config: Any) -> Source:
    """For data.tenth the parts of a source as one."""
    parts = source.parts
    if config.tenth is None or len(parts) == 1:
        return source
    if not all(isinstance(part, Table) for part in parts.values()):
        raise CanonError(f"{source.name} has several files of lines; data.tenth is for one file, or for tables.")
    names = parts["train"].names
    cells = {name: np.concatenate([part.texts(name) for part in parts.values()]) for name in names}
    return replace(source, parts={"train": Table(parts["train"].path, cells)})


def _holds_lines(file: Path, encoding: str) -> bool:
    if ending(file) in ENDINGS:
        return False
    try:
        return holds_lines(file, encoding)
    except CanonError:  # not text
        return False


def _criteo(file: Path, encoding: str) -> tuple[str, ...]:
    try:
        return criteo_columns(file, encoding) if ending(file) in (".tsv", ".txt", ".tab", ".csv", "") else ()
    except CanonError:
        return ()


def _named(names: Sequence[str], pattern: re.Pattern[str], *others: str) -> str:
    """The first column whose name a pattern describes; "" for none."""
    return next((name for name in names if pattern.fullmatch(name.strip().lower()) and name not in others), "")


def _described(source: ClickSource, config: Any, like: Source | None) -> ClickSource:
    """With the columns of the label, of the user and of the time; those of `like` where it is more of the same."""
    if isinstance(like, ClickSource):
        return replace(source, label=like.label, user=like.user, time=like.time)
    train: Table = source.parts["train"]
    notes = []
    named = _named(train.names, CLICKED) or (_named(train.names, _RATINGS) if source.positive else "")
    if label := config.label or source.label or named:
        label = train.require(label, "data.label")
        if not (config.label or source.label):
            notes.append(f'The label is the column "{label}"; data.label chooses another.')
    else:
        label, note = choose_label(train, "")
        notes.append(note)
    user = train.require(config.user, "data.user") if config.user else _named(train.names, USERS, label)
    time = train.require(config.time, "data.time") if config.time else ""
    if not time and (times := _named(train.names, TIMES, label, user)) and _are_times(train, times):
        time = times
    if user and not config.user:
        notes.append(f'The user is the column "{user}" (data.user).')
    if time and not config.time:
        notes.append(f'The time is the column "{time}" (data.time), which is not used as a field.')
    parts = {name: part for name, part in source.parts.items() if label in part and not part.unlabelled(label).all()}
    if left := [name for name in source.parts if name not in parts]:
        notes.append(f"Without labels, and left out: {', '.join(left)}.")
    return replace(source, parts=parts, label=label, user=user, time=time, notes=(*source.notes, *notes))


# Labels


def click_classes(source: ClickSource) -> tuple[str, str]:
    """The two names of the label: without a click, with one."""
    if source.positive:
        return "no", "yes"
    train: Rows = source.parts["train"]
    if isinstance(train, FeatureLines):
        values = tuple(canonical(value) for value in np.unique(train.labels).tolist())
        what = "the label"
    else:
        what = f'the label "{source.label}"'
        values = class_names(train, source.label) if _few(train, source.label) else ("",) * 3
    if len(values) > 2:
        _name_mistake(train, source.label)
    if len(values) == 1:
        raise CanonError(f'{train.path}: every row has the label "{values[0]}"; clicks and other rows are needed.')
    if len(values) != 2:
        count = "more than two" if values[0] == "" else f"{len(values):,}"
        raise CanonError(
            f"{train.path}: {what} has {count} different values, but a click has two; name another with data.label, or "
            'say which values are clicks, as in data.positive = ">= 4".'
        )
    first, second = values
    return (second, first) if first.strip().lower() in _YES else (first, second)


def _label_names(rows: Rows, label: str) -> tuple[list[str], np.ndarray]:
    """The different labels as they are compared, and which of them each row has, int64 [N]."""
    if isinstance(rows, FeatureLines):
        values, codes = np.unique(rows.labels, return_inverse=True)
        return [canonical(value) for value in values.tolist()], codes
    texts, codes = rows.factor(label)
    return [canonical(text) for text in texts], codes


def _name_mistake(rows: Rows, label: str) -> None:
    """Raises the error on the first of a few labels beside two common ones."""
    plain, codes = _label_names(rows, label)
    counts: Counter[str] = Counter()
    for text, count in zip(plain, np.bincount(codes, minlength=len(plain)).tolist(), strict=True):
        counts[text] += count
    two = [text for text, _ in counts.most_common(2)]
    odd = np.array([text not in two for text in plain])[codes]
    if 0 < odd.sum() <= _MISTAKEN * len(odd):
        row = int(odd.argmax())
        raise rows.mistake(row, f'label "{short(plain[codes[row]])}" is not one of {", ".join(sorted(two))}.')


def _few(table: Table, label: str) -> bool:
    return len({canonical(text) for text in table.factor(label)[0] if text.strip()}) <= 20


def click_codes(rows: Rows, source: ClickSource, classes: Sequence[str]) -> np.ndarray:
    """1 where a row was clicked, int64 [N]."""
    if not isinstance(rows, FeatureLines) and source.label not in rows:
        raise CanonError(f'{rows.path} has no column "{source.label}", which is the label.')
    names, codes = _label_names(rows, source.label)
    condition = source.positive
    is_click = [_fits(name, condition) if condition else _place(name, classes) for name in names]
    for place, value in enumerate(is_click):
        if value is None:
            row = int((codes == place).argmax())
            if not names[place].strip():
                raise rows.mistake(row, f'the label (column "{source.label}") is empty.')
            wanted = f"a number, for data.positive {condition}" if condition else f"one of {', '.join(classes)}"
            raise rows.mistake(row, f'label "{short(names[place])}" is not {wanted}.')
    return np.array(is_click, dtype=np.int64)[codes]


def _place(name: str, classes: Sequence[str]) -> int | None:
    return classes.index(name) if name in classes else None


def _fits(name: str, condition: str) -> bool | None:
    """Whether a label fulfils data.positive; None where that cannot be decided."""
    parsed = _POSITIVE.fullmatch(condition)
    sign, value = parsed.groups() if parsed else ("==", condition)
    if sign in ("==", "!="):
        return (name == canonical(value)) == (sign == "==") if name.strip() else None
    limit, number = parse_number(value), parse_number(name)
    if limit is None:
        raise CanonError(f'data.positive = "{condition}" does not compare with a number; write a rule such as ">= 4".')
    return None if number is None or not np.isfinite(number) else bool(_COMPARE[sign](number, limit))


# Users and times


def click_users(rows: Rows, source: ClickSource) -> np.ndarray | None:
    """The number of each row's user, int64 [N]; None where no column says."""
    if not source.user or isinstance(rows, FeatureLines) or source.user not in rows:
        return None
    return rows.factor(source.user)[1]


def _are_times(table: Table, name: str) -> bool:
    values, bad = table.numbers(name)
    if not bad.any():
        return bool(np.nanmin(values, initial=np.inf) > _SECONDS)
    return form_of(table.factor(name)[0]) not in ("", "times")


def click_times(rows: Table, name: str) -> np.ndarray:
    """When each row was, as numbers [N]."""
    values, bad = rows.numbers(name)
    if bad.any():
        texts, codes = rows.factor(name)
        form = form_of(texts[:_LOOKED]) or form_of(texts[:1])  # where a cell is wrong
        times = moments(texts, form)[codes] if form else np.full(len(codes), np.nan)
        if (wrong := np.isnan(times)).any():
            row = int(wrong.argmax())
            raise rows.mistake(row, f'the time "{short(rows.text(name, row))}" is neither a number nor a date.')
        return times
    if not np.isfinite(values).all():
        raise rows.mistake(int((~np.isfinite(values)).argmax()), f'the time (column "{name}") is missing.')
    late = values > _MILLISECONDS
    if late.any() and (values[~late] > _SECONDS).any():
        raise rows.mistake(
            int(late.argmax()) if late.sum() * 2 < len(late) else int((~late).argmax()),
            f'the time (column "{name}") is in {"milliseconds" if late.sum() * 2 < len(late) else "seconds"}, but '
            "most rows are not.",
        )
    return values
