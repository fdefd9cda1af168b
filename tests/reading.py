"""Data read as a system would have it read: by the names of its encodings."""

from __future__ import annotations

from typing import Any

from canon.data.checking.check import check
from canon.data.checking.report import CheckReport
from canon.data.encodings import Ask, find
from canon.data.read import read
from canon.data.schema import Data
from canon.data.targets import Class, HiddenTokens, Labels, NextToken, Nothing, OtherText, Target
from canon.tasks import TASKS

USUAL: dict[str, type[Target]] = {
    "features": Class,
    "pixels": Class,
    "windows": NextToken,
    "sequences": OtherText,
    "passages": HiddenTokens,
    "word-ids": Nothing,
    "bags": Labels,
    "framed": Class,
}


def read_as(config: Any, *names: str, target: type[Target] | None = None, **ask: Any) -> Data:
    """`names` of encodings; the target is the usual one of the first, unless another is given."""
    return read(config, [find(name) for name in names], Ask((target or USUAL[names[0]],), **ask))


def check_as(config: Any) -> CheckReport:
    """`check` with what every task can predict."""
    return check(config, lambda name: TASKS[name].targets)
