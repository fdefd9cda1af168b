"""Tests of word vectors: pairs of words with a judgement, and analogies; nothing is learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.kinds.base import Kind
from canon.data.settings import Common
from canon.data.source import Source
from canon.errors import CanonError


class WordTestKind(Kind):
    name = "tests"
    singular = "a test of word vectors, not a text to learn them from; name it in data.tests"
    plural = "tests of word vectors"
    plural_zh = "词向量测试"
    settings = Common
    formats = ()

    def sniff(self, path: Path, config: Any) -> str:
        return ""  # a table of three columns may be anything

    def read(self, path: Path, config: Any, like: Source | None = None) -> NoReturn:
        raise CanonError(f"{path} is {self.singular}.")

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> NoReturn:
        raise CanonError(f"{record.name} is {self.singular}.")

    def check(self, report: CheckReport, config: Any) -> NoReturn:
        raise CanonError(f"{config.source} is {self.singular}.")


WORD_TESTS = WordTestKind()
