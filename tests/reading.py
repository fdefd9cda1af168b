"""Data read as a system would have it read: by the names of its encodings."""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.checking.check import check
from canon.data.checking.report import CheckReport
from canon.data.encodings import Ask, find
from canon.data.read import read
from canon.data.schema import Data
from canon.data.targets import Class, HiddenTokens, Labels, NextToken, Nothing, OtherText, Target
from canon.data.text.vocabularies import EOS
from canon.tasks.records import TASK_RECORDS

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


def texts_of(data: Data) -> dict[str, list[str]]:
    """The documents of each split of windows, from its tokens."""
    tokenizer = data.schema.tokenizers["text"]
    texts: dict[str, list[str]] = {}
    for name, columns in data.splits.items():
        tokens = columns["input"].tokens  # type: ignore[union-attr]
        rows = np.split(tokens, np.flatnonzero(tokens == EOS) + 1)
        texts[name] = [tokenizer.decode(row[row != EOS].tolist()) for row in rows if len(row)]
    return texts


def check_as(config: Any) -> CheckReport:
    """`check` with what every task can predict."""
    return check(config, lambda name: TASK_RECORDS[name].targets)
