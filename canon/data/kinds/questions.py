"""Questions whose answer is a part of a document: SQuAD's JSON, and JSON lines of the same fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canon.data.checking.report import CheckReport
from canon.data.formats.rows import SpanRows
from canon.data.formats.squad import is_squad, read_squad
from canon.data.kinds.examples import ExampleKind
from canon.data.kinds.parts import files_in
from canon.data.settings import Common
from canon.data.targets import Span


class QuestionKind(ExampleKind):
    name = "questions"
    singular = "a set of questions on texts"
    plural = "questions on texts"
    plural_zh = "关于文本的问题"
    settings = Common
    formats = ("squad",)
    targets = (Span,)

    def sniff(self, path: Path, config: Any) -> str:
        asked = any(self.holds(item, config) for item in files_in(path))
        return f"{path.name} has questions with their contexts, as SQuAD has them" if asked else ""

    def holds(self, path: Path, config: Any) -> bool:
        return is_squad(path, config.encoding)

    def rows(self, path: Path, config: Any) -> tuple[SpanRows, tuple[str, ...]]:
        return read_squad(path, config.encoding), ()

    def count_part(self, report: CheckReport, name: str, rows: SpanRows) -> None:
        answered = sum(bool(answers) for answers in rows.answers or ())
        report.notes.append(f"{name}: {answered:,} of {len(rows):,} questions have an answer.")


QUESTIONS = QuestionKind()
