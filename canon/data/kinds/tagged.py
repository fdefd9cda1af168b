"""Sentences with a tag for each word: CoNLL's columns and CoNLL-U."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from canon.data.checking.report import CheckReport
from canon.data.formats.conll import ENDINGS, is_conll, read_conll
from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.rows import TagRows
from canon.data.kinds.base import holds_tables
from canon.data.kinds.examples import ExampleKind
from canon.data.settings import Columns
from canon.data.source import split_of
from canon.data.targets import Tags


class TaggedKind(ExampleKind):
    name = "tagged"
    singular = "a set of sentences with tags"
    plural = "sentences with tags"
    plural_zh = "带词性或实体标签的句子"
    settings = Columns  # data.label says which column the tag is
    formats = ("conll",)
    targets = (Tags,)

    def sniff(self, path: Path, config: Any) -> str:
        if holds_tables(path):
            return ""
        files = [path] if path.is_file() else [item for item in visible(path) if item.is_file()]
        return f"{path.name} is CoNLL by its ending" if any(ending(item) in ENDINGS for item in files) else ""

    def sniff_text(self, path: Path, config: Any) -> str:
        files = [path] if path.is_file() else [item for item in visible(path) if split_of(item) == "train"]
        columns = len(files) == 1 and files[0].is_file() and is_conll(files[0], config.encoding)
        return f"{path.name} has a word a line in columns, and blank lines between sentences" if columns else ""

    def rows(self, path: Path, config: Any) -> tuple[TagRows, tuple[str, ...]]:
        return read_conll(path, config.encoding, config.label)

    def count(self, report: CheckReport, name: str, rows: TagRows) -> None:
        report.classes[name] = dict(Counter(tag for sentence in rows.tags or () for tag in sentence).most_common())


TAGGED = TaggedKind()
