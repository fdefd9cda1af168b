"""Questions whose answer is a part of a document: SQuAD's JSON, 1.1 and 2.0, and JSON lines of the same fields.

Rajpurkar et al. (2016, 2018). The JSON is data → paragraphs (context) → qas (question, id, answers, is_impossible); a
line of JSON has context, question, id and answers, which are a list of {text, answer_start} or lists of both under
these names. An answer must be at its offset, character for character: with offsets that are counted otherwise (in
bytes, or in another text), everything learnt would be wrong.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

from canon.data.formats import json_lines
from canon.data.formats.files import ending, read_text
from canon.data.formats.rows import Answer, SpanRows
from canon.data.source import SPLITS
from canon.errors import CanonError, reason

_FORM = 'SQuAD has {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": […]}]}]}]}'


def is_squad(path: Path, encoding: str = "utf-8") -> bool:
    """Whether a file is SQuAD's JSON, or its first line has a question and a context."""
    if ending(path) not in json_lines.WITH_LISTS:
        return False
    if (row := json_lines.first_object(path, encoding)) is not None:
        return _has_articles(row) or {"question", "context"} <= set(row)
    try:
        return ending(path) == ".json" and '"paragraphs"' in read_text(path, encoding)
    except CanonError:
        return False


def _has_articles(row: dict[str, Any]) -> bool:
    articles = row.get("data")
    return isinstance(articles, list) and all(isinstance(one, dict) and "paragraphs" in one for one in articles[:1])


def read_squad(path: Path, encoding: str = "utf-8") -> SpanRows:
    row = json_lines.first_object(path, encoding)
    if row is not None and not _has_articles(row):
        return _from_lines(path, encoding)
    whole = row if row is not None else json_lines.parse(read_text(path, encoding), str(path))
    if not isinstance(whole, dict) or "data" not in whole:
        raise CanonError(f"{path} is not SQuAD's JSON; {_FORM}.")
    return _from_articles(path, whole["data"])


class _Questions:
    """Questions of a file, checked as they are added."""

    def __init__(self, path: Path) -> None:
        self.path, self.labelled = path, True
        self.rows: list[tuple[str, str, tuple[Answer, ...], str, int]] = []  # as the columns of SpanRows

    def add(self, row: dict[str, Any], document: Any, group: int, where: str) -> None:
        question, impossible = row.get("question"), bool(row.get("is_impossible"))
        where = f"{self.path}, {where}"
        if not isinstance(question, str) or not isinstance(document, str):
            raise CanonError(f"{where}: question and context must be texts; {_FORM}.")
        if not document.strip() or not question.strip():
            raise CanonError(f"{where}: the {'context' if question.strip() else 'question'} is empty.")
        self.labelled = self.labelled and ("answers" in row or impossible)
        answers = () if impossible else _answers(row.get("answers") or [], document, where)
        self.rows.append((question, document, answers, str(row.get("id", len(self.rows) + 1)), group))

    def columns(self) -> SpanRows:
        if not self.rows:
            raise CanonError(f"{self.path} has no questions; {_FORM}.")
        questions, documents, answers, keys, groups = (list(column) for column in zip(*self.rows, strict=True))
        labelled = answers if self.labelled else None
        return SpanRows(
            str(self.path), lambda row: f'question "{keys[row]}"', questions, documents, labelled, keys, groups
        )


def _answers(listed: Any, document: str, where: str) -> tuple[Answer, ...]:
    if isinstance(listed, dict):  # lists side by side
        texts, starts = (listed.get(name) for name in ("text", "answer_start"))
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise CanonError(f"{where}: answers must have as many answer_start as text, in two lists.")
        listed = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
    if not isinstance(listed, list) or not all(isinstance(answer, dict) for answer in listed):
        raise CanonError(f"{where}: answers must be a list of objects; {_FORM}.")
    answers = []
    for answer in listed:
        text, start = answer.get("text"), answer.get("answer_start")
        if not isinstance(text, str) or not isinstance(start, int) or not text:
            raise CanonError(f"{where}: an answer has a text and answer_start, got {answer!r}.")
        there = document[start : start + len(text)] if start >= 0 else ""
        if there != text:
            raise CanonError(
                f'{where}: the answer "{_short(text)}" is not at character {start} of its context, where '
                f'"{_short(there)}" is; answer_start counts characters from 0.'
            )
        answers.append(Answer(text, start))
    return tuple(answers)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _from_articles(path: Path, articles: Any) -> SpanRows:
    """Questions of one article belong together; of fewer articles than splits, those of one paragraph."""
    questions = _Questions(path)
    paragraphs = count()
    try:
        few = len(articles) < len(SPLITS)
        for number, article in enumerate(articles):
            for paragraph in article["paragraphs"]:
                group = next(paragraphs) if few else number
                for row in paragraph["qas"]:
                    where = f'question "{row.get("id", len(questions.rows) + 1)}"'
                    questions.add(row, paragraph["context"], group, where)
    except (KeyError, TypeError, AttributeError) as mistake:
        raise CanonError(f"{path} is not SQuAD's JSON ({reason(mistake)}); {_FORM}.") from None
    return questions.columns()


def _from_lines(path: Path, encoding: str) -> SpanRows:
    questions = _Questions(path)
    groups: dict[str, int] = {}
    for number, row in json_lines.objects(path, encoding):
        document = row.get("context")
        group = groups.setdefault(str(row.get("title") or document), len(groups))
        questions.add(row, document, group, f"line {number}")
    return questions.columns()
