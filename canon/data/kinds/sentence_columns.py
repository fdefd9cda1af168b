"""Which columns of a table hold sentences to embed, and which one says how two of them belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from canon.data.columns import PEEK, is_text, is_wordy, may_be_label
from canon.data.formats.names import COUNTED, NUMBERS, PAIRS, TEXT_LABELS
from canon.data.formats.tables import Table
from canon.errors import CanonError

_MATCHED = (  # columns of texts that belong together, by their names
    *(("anchor", "positive"), ("query", "positive"), ("query", "pos"), ("question", "positive")),
    *(("premise", "entailment"), ("sent0", "sent1"), ("question", "answer"), ("query", "answer")),
)
_NEGATIVE = ("negative", "neg", "hard_neg", "hard_negative", "contradiction")
_SIMILAR = (*NUMBERS, "sim", "relatedness", "similarity_score", "相似度", "得分", "分数")
_CLASSES = (*TEXT_LABELS, "标签", "关系", "类别")
_OF_ONE = ("category", "sentiment", "stars", "overall", "类别")  # what a question, or its answer, is said to be
_NUMBERS_ROWS = re.compile(r".*[_ -]id|[a-z]?id|docid|.*(?:编号|序号)")  # names of columns
_CODE = re.compile(r"[!-~]*(?:\d|://|@)[!-~]*")  # of a row: its number, its address


@dataclass(frozen=True)
class SentenceColumns:
    """The columns of a table that are read."""

    texts: tuple[str, ...]
    score: str = ""
    label: str = ""
    unread: tuple[str, ...] = ()


def matched(names: Sequence[str]) -> tuple[str, ...]:
    """The columns of texts that belong together, and of those that do not, by their names."""
    plain = {name.strip().lower(): name for name in reversed(list(names))}
    for first, second in (*_MATCHED, *PAIRS):
        if first in plain and second in plain:
            starts = tuple(f"{start}{mark}" for start in _NEGATIVE for mark in ("_", "-", " ", ""))
            negatives = [
                name for low, name in plain.items() if any(low.rstrip("0123456789") in (start,) for start in starts)
            ]
            return plain[first], plain[second], *sorted(negatives, key=list(names).index)
    return ()


def says_sentences(known: tuple[str, ...]) -> bool:
    """Whether these names belong to no other kind of data."""
    return len(known) > 2 or tuple(name.strip().lower() for name in known[:2]) in _MATCHED[:4]


def choose_sentences(table: Table, config: Any) -> SentenceColumns:
    """The columns of texts, and the one of scores or classes, by the user's choice, by names, by what they hold."""
    label = table.require(config.label, "data.label") if config.label else ""
    plain = {name.strip().lower(): name for name in reversed(table.names)}
    if config.features:
        texts = tuple(table.require(name, "data.features") for name in config.features)
        if label in texts:
            raise CanonError(f'data.features: "{label}" is the label, so it is not one of the texts.')
    else:
        texts = tuple(name for name in matched(table.names) if table.facts(name).bad)
        if not texts:
            counted = {plain[name] for name in (*COUNTED, *TEXT_LABELS) if name in plain} if table.header else set()
            texts = _texts_of(table, [name for name in table.names if name not in counted | {label}])
    if not texts:
        raise CanonError(f"{table.path} has no column of texts; name them in data.features.")
    rest = [name for name in table.names if name not in texts and name.strip().lower() not in COUNTED]
    if not label and len(texts) == 2:
        label = _judging(table, texts, rest)
    unread = tuple(name for name in rest if name != label)
    if not label:
        return SentenceColumns(texts, unread=unread)
    # A slip among numbers is a mistake, not a class.
    if 2 * table.facts(label).bad < len(table) or label.strip().lower() in _SIMILAR:
        return SentenceColumns(texts, score=label, unread=unread)
    return SentenceColumns(texts, label=label, unread=unread)


def _texts_of(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of texts by what they hold, without codes of rows; of several words where two have them."""
    some = np.arange(min(len(table), PEEK))
    texts = {name: list(table.stream(name, some)) for name in names if is_text(table, name)}
    said = [name for name, cells in texts.items() if not all(_CODE.fullmatch(cell.strip()) for cell in cells)]
    wordy = [name for name in said if is_wordy(texts[name])]
    return tuple(wordy if len(wordy) > 1 else said or texts)


def _judging(table: Table, texts: tuple[str, ...], rest: Sequence[str]) -> str:
    """The column that says how two texts belong together: by its name; beside texts of one name (text_a, text_b), or
    without a header, the only one that may say it."""
    plain = {name.strip().lower(): name for name in reversed(rest)}
    alike = _are_alike(*(name.strip().lower() for name in texts))
    for name in (*_SIMILAR, *_CLASSES):
        if name in plain and (alike or name not in _OF_ONE):
            return plain[name]
    mostly = {name: 2 * table.facts(name).bad < len(table) for name in rest}  # numbers
    if not table.header:
        left = [name for name in rest if not table.facts(name).bad and not table.facts(name).missing]
    else:
        able = [name for name in rest if not _NUMBERS_ROWS.fullmatch(name.strip().lower())]
        able = [name for name in able if may_be_label(table, name) and (mostly[name] or not is_text(table, name))]
        left = [name for name in able if mostly[name]] or able if alike else []
    return left[0] if len(left) == 1 else ""


def _are_alike(first: str, second: str) -> bool:
    """Whether two names differ by their number or letter alone."""
    if (first, second) == ("premise", "hypothesis"):
        return True
    differing = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
    return len(first) == len(second) and len(differing) == 1 and (len(first) > 1 or ord(first) + 1 == ord(second))
