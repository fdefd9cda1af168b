"""Questions with several answers to choose from: JSON lines (OpenBookQA, ARC and the like), or columns of a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.formats.choices import ANSWERS, LETTERS, QUESTIONS, is_choices, read_choices, right_one
from canon.data.formats.rows import ChoiceRows
from canon.data.formats.tables import Table, is_table, read_table
from canon.data.kinds.base import peeked, records_of
from canon.data.kinds.examples import ExampleKind, ExampleSource
from canon.data.kinds.parts import files_in
from canon.data.settings import Columns
from canon.data.targets import Choice
from canon.errors import CanonError

_CHOICE = re.compile(r"(ending|choice|option|answer|sol)[ _]?([0-9]|[a-e])")
_LETTERED = re.compile(r"\(([A-J1-9])\)\s*")


class ChoiceColumns(NamedTuple):
    """The columns of a table that are read."""

    question: tuple[str, ...]  # SWAG has two: the question, and the beginning of every ending
    label: str  # "" where there is none
    choices: tuple[str, ...]  # or the one column that holds all


class ChoiceKind(ExampleKind):
    name = "choices"
    singular = "a set of questions with choices"
    plural = "questions with choices"
    plural_zh = "选择题"
    settings = Columns
    formats = ("choices",)
    targets = (Choice,)

    def sniff(self, path: Path, config: Any) -> str:
        listed = any(is_choices(item, config.encoding) for item in files_in(path))
        return f"{path.name} has questions with lists of choices" if listed else ""

    def sniff_table(self, path: Path, config: Any) -> str:
        """By the first rows: columns named as choices are, and no columns of text asked for."""
        if config.features:
            return ""
        try:
            table = peeked(path, config)
        except CanonError:
            return ""
        columns = choose_columns(table, config.label) if len(table) else None
        return f"{path.name} has columns of choices, as {columns.choices[0]}" if columns else ""

    def holds(self, path: Path, config: Any) -> bool:
        return is_table(path, config)

    def rows(self, path: Path, config: Any) -> tuple[ChoiceRows, tuple[str, ...]]:
        if is_choices(path, config.encoding):
            return read_choices(path, config.encoding), ()
        table = read_table(path, config)
        return choice_rows(table, config.label), table.notes

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ExampleSource:
        tables = {split: read_table(path, config, record.columns) for split, path in files.items()}
        parts = {split: choice_rows(table, config.label or record.label) for split, table in tables.items()}
        return ExampleSource(record.name, parts, records_of(files))

    def count_part(self, report: CheckReport, name: str, rows: ChoiceRows) -> None:
        report.classes[name] = dict(sorted(Counter(f"{len(texts)} choices" for texts in rows.choices).items()))


def choose_columns(table: Table, label: str = "") -> ChoiceColumns | None:
    """By the names of the columns; None for a table without choices."""
    plain = {name.strip().lower(): name for name in reversed(table.names)}
    matching = sorted((name for name in plain if _CHOICE.fullmatch(name)), key=lambda name: name[-1])
    matching = matching or list(takewhile(plain.__contains__, LETTERS.lower()))  # as C-Eval has them
    spaced = {name.replace(" ", "").replace("_", ""): real for name, real in plain.items()}
    right = label or next((spaced[name] for name in ANSWERS if name in spaced), "")
    if len(matching) > 1:
        question = [plain[name] for name in ("sent1", "sent2") if name in plain]
        question = question or [plain[name] for name in QUESTIONS if name in plain][:1]
        if question:
            return ChoiceColumns(tuple(question), right, tuple(plain[name] for name in matching))
    if "choices" in plain and _LETTERED.search(str(table.texts(plain["choices"])[0])):
        stem = next((plain[name] for name in ("question stem", "question_stem", "question") if name in plain), "")
        if stem:
            return ChoiceColumns((stem,), right, (plain["choices"],))
    return None


def choice_rows(table: Table, label: str = "") -> ChoiceRows:
    if (columns := choose_columns(table, label)) is None:
        raise CanonError(f"{table.path} has no columns of choices, such as ending0, ending1 … or choice_a, choice_b ….")
    for name in (*columns.question, *columns.choices):
        if name not in table.names:
            raise CanonError(f'{table.path} has no column "{name}", which is one of the question and its choices.')
    questions, *more = (table.texts(name).tolist() for name in columns.question)
    cells = [table.texts(name).tolist() for name in columns.choices]
    right = table.texts(columns.label).tolist() if columns.label in table.names else None
    names = [_names(columns.choices, right)] * len(table)
    choices = list(zip(*cells, strict=True))
    if len(cells) == 1:
        lettered = [_lettered(table, row, cell) for row, cell in enumerate(cells[0])]
        names, choices = [labels for labels, _ in lettered], [texts for _, texts in lettered]
    for row, texts in enumerate(choices):
        if not questions[row].strip() or not all(text.strip() for text in texts):
            raise table.mistake(row, "the question or a choice is empty.")
    if more:  # SWAG: the beginning of every ending
        choices = [tuple(f"{more[0][row]} {text}" for text in texts) for row, texts in enumerate(choices)]
    answers = None
    if right is not None:
        answers = [right_one(right[row], choices[row], names[row]) for row in range(len(table))]
        if -1 in answers:
            row = answers.index(-1)
            raise table.mistake(row, f'the answer "{right[row]}" is not one of {", ".join(names[row])}.')
    return ChoiceRows(str(table.path), table.line, questions, choices, answers, names)


def _names(columns: Sequence[str], right: list[str] | None) -> tuple[str, ...]:
    """What answers call the choices: the endings of the columns' names, or numbers from 0 where an answer is 0."""
    ends = tuple(name.strip()[-1].upper() for name in columns)
    if ends[0].isdigit() and right is not None and "0" in right:
        return tuple(str(number) for number in range(len(ends)))
    return ends


def _lettered(table: Table, row: int, cell: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """ "(A) one (B) two" in parts."""
    _, *parts = _LETTERED.split(cell)
    if len(parts) < 4:
        raise table.mistake(row, f'choices are written as "(A) one (B) two", got "{cell[:40]}".')
    return tuple(parts[::2]), tuple(text.strip() for text in parts[1::2])


CHOICES = ChoiceKind()
