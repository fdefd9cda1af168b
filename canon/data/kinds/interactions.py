"""Interactions: users, items, and perhaps ratings and times, in any usual file (canon/data/formats/interactions.py).

A folder may hold a train and a test file, and beside them a file of negatives as that of Neural Collaborative
Filtering (He et al. 2017): `(user,item)`, then items that the user's own is ranked among. All files of the data share
one list of users and one of items, each in order, so that the order of lines decides nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator

from canon.config import settings
from canon.data.batching.sequences import Uneven
from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.formats.files import lines
from canon.data.formats.interaction_columns import InteractionColumns, columns_of, is_interactions
from canon.data.formats.interactions import Interactions, read_interactions
from canon.data.kinds.base import Kind, records_of
from canon.data.kinds.parts import Parts, files_in, leading_file, parts_of
from canon.data.paths import find_path
from canon.data.settings import Delimited, Name, layout
from canon.data.source import Source, split_of
from canon.errors import CanonError

_NEGATIVE = re.compile(r"(?<![a-z])neg(ative)?s?(?![a-z])", re.IGNORECASE)
_PAIR = re.compile(r"\(\s*([^,]+?)\s*,\s*([^)]+?)\s*\)")
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_CONDITION = re.compile(r"\s*(>=|>|<=|<|=)\s*(-?\d+(?:\.\d+)?)\s*")


def _condition(value: Any) -> Any:
    if value == "" or (isinstance(value, str) and _CONDITION.fullmatch(value)):
        return value
    raise ValueError(f'data.positive must be a comparison with a number, as in ">= 4", got {value!r}.')


@settings
class InteractionSettings(Delimited):
    user: Name = layout("", "column of users, by name or number; default: by its name, else the first")
    item: Name = layout("", "column of items; default: by its name, else the second")
    rating: Name = layout("", "column of ratings; default: by its name, else the third, if there is one")
    time: Name = layout("", "column of times, numbers or dates; default: by its name, else the last of four")
    positive: Annotated[str, PlainValidator(_condition)] = layout(
        "", 'which interactions count, by their rating, as in ">= 4"; default: all'
    )
    negatives: str = layout("", "a file of items that each test item is ranked among; default: beside the test file")


@dataclass(frozen=True)
class GivenNegatives:
    """For some users the items that their test item is ranked among."""

    users: np.ndarray  # int32
    items: Uneven


@dataclass(frozen=True)
class InteractionSource(Source):
    """Parts are `Interactions`."""

    users: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    negatives: GivenNegatives | None = None


class InteractionKind(Kind):
    name = "interactions"
    singular = "a set of interactions"
    plural = "interactions"
    named_by = "; data.user and data.item name the columns of interactions"
    plural_zh = "用户与物品的交互"
    settings = InteractionSettings
    formats = ("interactions",)

    def sniff(self, path: Path, config: Any) -> str:
        """By the training part of a folder, or any file where none is named as a part."""
        files = [file for file in files_in(path) if not _NEGATIVE.search(file.name)]
        named = any(map(split_of, files))
        leading = leading_file(path)
        held = next((file for file in files if (file == leading or not named) and _holds(file, config)), None)
        return f"{held.name} has users and items on its lines" if held else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        if path.is_file():
            return self._read(path.name, Parts({"train": path}, []), None, config)
        beside = [file for file in files_in(path) if _NEGATIVE.search(file.name)]
        parts = parts_of(path, lambda file: _is_part(file, config), "interactions", beside=beside.__contains__)
        return self._read(path.name, parts, beside[0] if len(beside) == 1 else None, config)

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        parts = {split: path for split, path in files.items() if split != "negatives"}
        return self._read(record.name, Parts(parts, []), files.get("negatives"), config)

    def open(self, path: Path, config: Any) -> Source:
        """Files of data.valid and data.test are read with the others, so that all share their lists."""
        more = {
            name: find_path(given, named=False) for name in ("valid", "test") if _is_file(given := vars(config)[name])
        }
        if not more:
            return replace(self.read(path, config), kind=self)
        base = {"train": path} if path.is_file() else parts_of(path, lambda file: _holds(file, config)).files
        source = self._read(path.name, Parts({**base, **more}, []), None, config)
        return replace(source, origin={name: file.name for name, file in more.items()}, kind=self)

    def _read(self, name: str, parts: Parts, beside: Path | None, config: Any) -> InteractionSource:
        laid: dict[str, tuple[Path, InteractionColumns]] = {}
        for split, path in parts.files.items():
            if (columns := columns_of(path, config)) is None:
                raise CanonError(f"{path}: no column is named as users or items are; set data.user and data.item.")
            laid[split] = path, columns
        read, users, items, notes = read_interactions(laid, config)
        notes = [*parts.notes, *(_said(*of) for of in laid.values()), *notes]
        for split, rows in read.items():
            read[split], note = _positive(rows, config)
            notes += [note] * bool(note and (config.positive or split == "train"))
        files = dict(parts.files)
        if config.negatives:
            beside = find_path(config.negatives, named=False)
        given = None
        if beside is not None and "test" in read:
            given = _negatives(beside, config, read["test"], users, items)
            files["negatives"] = beside
            notes.append(
                f"{beside.name}: {np.mean(given.items.lengths):g} items for each test item to be ranked among."
            )
        return InteractionSource(name, read, records_of(files), tuple(notes), users=users, items=items, negatives=given)

    def count(self, report: CheckReport, config: Any, source: Source) -> None:
        assert isinstance(source, InteractionSource)
        report.kind, report.splits = self.plural, {name: source.size(name) for name in source.parts}
        train: Interactions = source.parts["train"]
        pairs = train.users.astype(np.int64) * len(source.items) + train.items
        different = len(np.unique(pairs))
        report.duplicates = {"train": len(train) - different}
        for what, codes, count in (("user", train.users, len(source.users)), ("item", train.items, len(source.items))):
            of_each = np.bincount(codes, minlength=count)
            least, middle, most = (int(number) for number in np.quantile(of_each, (0, 0.5, 1)))
            report.notes.append(f"{count:,} {what}s; interactions of one: {least:,} to {most:,}, median {middle:,}.")
        filled = different / max(len(source.users) * len(source.items), 1)
        report.notes.append(f"{filled:.3%} of all pairs of a user and an item occur.")
        if train.ratings is not None:
            values, counts = np.unique(train.ratings, return_counts=True)
            shown = ", ".join(f"{value:g} ({count:,})" for value, count in list(zip(values, counts, strict=True))[:12])
            report.notes.append(f"Ratings: {shown}{', …' if len(values) > 12 else ''}.")
        if train.times is not None and train.times.min() > 0:
            first, last = (np.datetime64(int(at), "s").item().date() for at in (train.times.min(), train.times.max()))
            report.notes.append(f"Times: {first} to {last}.")


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _holds(file: Path, config: Any) -> bool:
    named = config.format in InteractionKind.formats or config.user or config.item
    try:
        return columns_of(file, config) is not None if named else is_interactions(file, config)
    except (CanonError, OSError, ValueError):  # not text; opening it says so
        return False


def _is_part(file: Path, config: Any) -> bool:
    """Of a folder: a file that is recognised, or a small one that is named as a part."""
    if _NEGATIVE.search(file.name):
        return False
    return _holds(file, config) or (split_of(file) in ("valid", "test") and columns_of(file, config) is not None)


def _said(path: Path, laid: InteractionColumns) -> str:
    """What each column is taken for."""
    shown = {True: lambda name: f'"{name}"', False: lambda name: f"column {name}"}[laid.header]
    roles = ", ".join(f"{role} is {shown(name)}" for role, name in laid.roles.items())
    unread = f"; not read: {', '.join(map(shown, laid.unread))}" if laid.unread else ""
    return f"{path.name}: {roles}{unread}."


def _positive(rows: Interactions, config: Any) -> tuple[Interactions, str]:
    """The interactions whose rating fulfils data.positive, and a note."""
    if not config.positive:
        rated = rows.ratings is not None and len(np.unique(rows.ratings)) > 1
        note = f'{rows.path.name}: every rating counts; data.positive = ">= 4" would keep the better ones.'
        return rows, note if rated else ""
    if rows.ratings is None:
        raise CanonError(f"data.positive chooses interactions by their rating, but {rows.path} has none.")
    match = _CONDITION.fullmatch(config.positive)
    assert match is not None
    kept = np.flatnonzero(_COMPARED[match[1]](rows.ratings, float(match[2])))
    if not len(kept):
        raise CanonError(f"{rows.path} has no rating {config.positive} (data.positive).")
    return rows.take(kept), f"{rows.path.name}: {len(kept):,} of {len(rows):,} ratings are {config.positive} and count."


def _negatives(
    path: Path, config: Any, test: Interactions, users: Sequence[str], items: Sequence[str]
) -> GivenNegatives:
    """`(user,item)`, then items, all between tabs."""
    user_of, item_of = ({name: place for place, name in enumerate(names)} for names in (users, items))
    asked = set(zip(test.users.tolist(), test.items.tolist(), strict=True))
    rows, flat, lengths = [], [], []
    for number, line in enumerate(lines(path, config.encoding), start=1):
        key, *others = line.split("\t")
        if not line.strip():
            continue
        pair = _PAIR.fullmatch(key.strip())
        if pair is None or not others:
            raise CanonError(f"{path}, line {number}: a line is (user,item), then items between tabs.")
        user, item = user_of.get(pair[1], -1), item_of.get(pair[2], -1)
        if (user, item) not in asked:
            raise CanonError(
                f"{path}, line {number}: {key} is not an interaction of {test.path.name}, so there is nothing to rank."
            )
        codes = [item, *(code for name in others if (code := item_of.get(name.strip(), -1)) >= 0)]
        codes = list(dict.fromkeys(codes))  # a set: a negative that is the test item itself is one candidate
        rows.append(user)
        flat += codes
        lengths.append(len(codes))
    return GivenNegatives(np.array(rows, np.int32), Uneven(np.array(flat, np.int32), np.array(lengths, np.int64)))


INTERACTIONS = InteractionKind()
