"""Sentences with a tag for each word: CoNLL's columns and CoNLL-U, lists in JSON lines, a word a row in a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from canon.data.checking.report import CheckReport
from canon.data.formats.conll import ENDINGS, has_tags, is_conll, read_conll
from canon.data.formats.files import ending
from canon.data.formats.rows import TagRows
from canon.data.formats.tagged_tables import is_tagged, read_tagged
from canon.data.kinds.examples import ExampleKind
from canon.data.kinds.parts import leading_file
from canon.data.settings import Columns
from canon.data.targets import Tags


class TaggedKind(ExampleKind):
    name = "tagged"
    singular = "a set of sentences with tags"
    plural = "sentences with tags"
    plural_zh = "带词性或实体标签的句子"
    settings = Columns  # data.label is the tags' column, data.features the words'
    formats = ("conll",)
    targets = (Tags,)

    def sniff(self, path: Path, config: Any) -> str:
        file = leading_file(path)
        if file is None or not self.holds(file, config):
            return ""
        named = f"{path.name} is CoNLL by its ending"
        return named if ending(file) in ENDINGS else f"{path.name} has a word and its tag on each line"

    def sniff_text(self, path: Path, config: Any) -> str:
        """Where a system needs tags, any columns are accepted."""
        file = leading_file(path)
        columns = file is not None and is_conll(file, config.encoding)
        return f"{path.name} has a word a line in columns, and blank lines between sentences" if columns else ""

    def holds(self, path: Path, config: Any) -> bool:
        known = is_tagged(path, config.encoding) or has_tags(path, config.encoding)
        return known or (config.format in self.formats and is_conll(path, config.encoding))

    def rows(self, path: Path, config: Any) -> tuple[TagRows, tuple[str, ...]]:
        read = read_tagged if is_tagged(path, config.encoding) else read_conll
        return read(path, config.encoding, config.label, config.features)

    def count_part(self, report: CheckReport, name: str, rows: TagRows) -> None:
        report.classes[name] = dict(Counter(tag for sentence in rows.tags or () for tag in sentence).most_common())


TAGGED = TaggedKind()
