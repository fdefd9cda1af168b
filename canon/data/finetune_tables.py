"""A table to examples for fine-tuning: which columns are the texts, which the label, and what is asked.

What the columns' names say, in this order: several choices (ending0 … of SWAG; Choices as "(A) … (B) …" of OpenBookQA),
two texts (sentence1 and sentence2, and the names that GLUE and others have for them), else one text, that of the
longest column. The label is a number where it has fractions or more values than classes have, else a class. GLUE's
files are read as they are: CoLA's have no header line. data.label, data.features and system.kind say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from canon.data import features
from canon.data.config import DataConfig
from canon.data.finetune_rows import ChoiceRows, TextRows
from canon.data.formats.choices import ANSWERS, QUESTIONS, right_one
from canon.data.formats.files import ending, lines
from canon.data.formats.tables import Table, read_table
from canon.errors import CanonError

PAIRS = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
    ("sentence_a", "sentence_b"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("query", "passage"),
    ("query", "document"),
    ("query", "title"),
)
TEXTS = ("sentence", "text", "review", "content", "comment", "tweet", "text_a", "title", "body")
LABELS = (
    *("label", "gold_label", "target", "class", "y", "score", "similarity", "quality", "is_duplicate", "stars"),
    *("rating", "sentiment", "category", "relatedness_score", "entailment_judgment"),
)
NUMBERS = ("score", "similarity", "relatedness_score")  # numbers by their name, whole ones too
COLA = ("source", "label", "mark", "sentence")  # of a file without a header line
MOST_CLASSES = 20  # whole numbers of more values are numbers, not classes
_CHOICE = re.compile(r"(ending|choice|option|answer|sol)[ _]?([0-9]|[a-e])")
_LETTERED = re.compile(r"\(([A-J1-9])\)\s*")
_PEEK = 500  # rows looked at for a header line


@dataclass(frozen=True)
class Guess:
    """What a table is taken for."""

    kind: str  # class, number or choice
    texts: tuple[str, ...]  # columns: of one text or of two; of choices, of the question
    label: str = ""  # "" where there is none, as in a test part
    choices: tuple[str, ...] = ()  # columns of the choices, or the one that holds all

    def note(self) -> str:
        what = {"class": "a class", "number": "a number", "choice": "the right one of several texts"}[self.kind]
        many = {1: "of a text", 2: "of two texts"}[len(self.texts)] if self.kind != "choice" else "for a question"
        columns = ", ".join(f'"{name}"' for name in (*self.texts, *self.choices))
        told = f'The task: {what} (column "{self.label}") {many} ({columns})'
        return f"{told}; system.kind, data.label and data.features say otherwise."


def open_table(path: Path, config: DataConfig) -> Table:
    """The table in a file, which may lack a header line."""
    if ending(path) in (".tsv", ".tab") and not config.delimiter and (names := _bare(path, config.encoding)):
        return read_table(path, config, names)
    return read_table(path, config)


def _bare(path: Path, encoding: str) -> tuple[str, ...]:
    """Names for the columns of a tab-separated file without a header line; () where it has one."""
    rows = [line.split("\t") for line in islice(lines(path, encoding), _PEEK) if line.strip()]
    if not rows:
        return ()
    first = rows[0]
    known = {*LABELS, *TEXTS, *(name for pair in PAIRS for name in pair), "index", "id", "label", "text_b"}
    if any(cell.strip().lower() in known for cell in first):
        return ()
    if len(first) == 4 and all(len(row) == 4 and row[1] in ("0", "1") and len(row[2]) < 4 for row in rows):
        return COLA
    if len(first) == 2 and len(rows) > 2:
        cells = list(zip(*(row for row in rows if len(row) == 2), strict=True))
        label = 0 if len(set(cells[0])) < len(set(cells[1])) else 1
        if first[label] in cells[label][1:]:  # a label comes again, a column's name does not
            return ("label", "text") if label == 0 else ("text", "label")
    return ()


def guess(table: Table, label: str = "", wanted: Sequence[str] = (), kind: str = "") -> Guess:
    """What a table asks; `label`, `wanted` (columns of text) and `kind` are wishes."""
    plain = {name.strip().lower(): name for name in reversed(table.names)}
    if kind in ("", "choice") and not wanted and (found := _guess_choices(table, plain, label)):
        return found
    if kind == "choice":
        raise CanonError(f"{table.path} has no columns of choices, as ending0, ending1 … or choice_a, choice_b ….")
    texts = _text_columns(table, plain, label, wanted)
    label = _label_column(table, plain, label, texts)
    return Guess(kind or _number_or_class(table, label), texts, label)


def _guess_choices(table: Table, plain: dict[str, str], label: str) -> Guess | None:
    found = sorted((name for name in plain if _CHOICE.fullmatch(name)), key=lambda name: name[-1])
    spaced = {name.replace(" ", "").replace("_", ""): own for name, own in plain.items()}
    right = label or next((spaced[name] for name in ANSWERS if name in spaced), "")
    if len(found) > 1:
        question = [plain[name] for name in ("sent1", "sent2") if name in plain]
        question = question or [plain[name] for name in QUESTIONS if name in plain][:1]
        if question:
            return Guess("choice", tuple(question), right, tuple(plain[name] for name in found))
    if "choices" in plain and _LETTERED.search(str(table.texts(plain["choices"])[0])):
        stem = next((plain[name] for name in ("question stem", "question_stem", "question") if name in plain), "")
        if stem:
            return Guess("choice", (stem,), right, (plain["choices"],))
    return None


def _text_columns(table: Table, plain: dict[str, str], label: str, wanted: Sequence[str]) -> tuple[str, ...]:
    if len(wanted) > 2:
        raise CanonError(f"data.features must name one column of text, or two; got {len(wanted)}.")
    if wanted:
        return features.choose_features(table, wanted, label)
    for first, second in PAIRS:
        if first in plain and second in plain and label not in (plain[first], plain[second]):
            return plain[first], plain[second]
    for name in TEXTS:
        if name in plain and plain[name] != label:
            return (plain[name],)
    if len(table.names) == 1:
        return (table.names[0],)
    taken = label or next((plain[name] for name in LABELS if name in plain), "")
    return (features.choose_text(table, (), taken),)


def _label_column(table: Table, plain: dict[str, str], label: str, texts: tuple[str, ...]) -> str:
    if label:
        return table.require(label, "data.label")
    for name in LABELS:
        if name in plain and plain[name] not in texts:
            return plain[name]
    counted = ("index", "id", "genre", "source")
    rest = [name for name in table.names if name not in texts and name.strip().lower() not in counted]
    return rest[-1] if rest else ""


def _number_or_class(table: Table, label: str) -> str:
    if not label:
        return "class"
    values, bad = table.numbers(label)
    known = values[np.isfinite(values)]
    if bad.any() or not len(known):
        return "class"
    fractions, several = bool((known != np.rint(known)).any()), len(np.unique(known)) > MOST_CLASSES
    return "number" if fractions or several or label.strip().lower() in NUMBERS else "class"


# Rows


def text_rows(table: Table, found: Guess) -> TextRows:
    """The examples of a part; its labels are None where it lacks their column."""
    for name in found.texts:
        if name not in table.names:
            raise CanonError(
                f'{table.path} has no column "{name}", which is {"a" if len(found.texts) > 1 else "the"} text.'
            )
    first, *second = (table.texts(name).tolist() for name in found.texts)
    labels = table.texts(found.label).tolist() if found.label in table.names else None
    return TextRows(str(table.path), table.line, first, second[0] if second else None, labels)


def choice_rows(table: Table, found: Guess) -> ChoiceRows:
    for name in (*found.texts, *found.choices):
        if name not in table.names:
            raise CanonError(f'{table.path} has no column "{name}", which is one of the question and its choices.')
    questions, *more = (table.texts(name).tolist() for name in found.texts)
    columns = [table.texts(name).tolist() for name in found.choices]
    told = table.texts(found.label).tolist() if found.label in table.names else None
    names = [_names(found.choices, told)] * len(table)
    choices = list(zip(*columns, strict=True))
    if len(columns) == 1:
        parted = [_lettered(table, row, cell) for row, cell in enumerate(columns[0])]
        names, choices = [labels for labels, _ in parted], [texts for _, texts in parted]
    for row, texts in enumerate(choices):
        if not questions[row].strip() or not all(text.strip() for text in texts):
            raise table.mistake(row, "the question or a choice is empty.")
    if more:  # SWAG: the beginning of every ending
        choices = [tuple(f"{more[0][row]} {text}" for text in texts) for row, texts in enumerate(choices)]
    answers = None
    if told is not None:
        answers = [right_one(told[row], choices[row], names[row]) for row in range(len(table))]
        if -1 in answers:
            row = answers.index(-1)
            raise table.mistake(row, f'the answer "{told[row]}" is none of {", ".join(names[row])}.')
    return ChoiceRows(str(table.path), table.line, questions, choices, answers, names)


def _names(columns: Sequence[str], told: list[str] | None) -> tuple[str, ...]:
    """What the answers call the choices: by what the columns' names end in, but from 0 where an answer is 0."""
    ends = tuple(name.strip()[-1].upper() for name in columns)
    if ends[0].isdigit() and told is not None and "0" in told:
        return tuple(str(number) for number in range(len(ends)))
    return ends


def _lettered(table: Table, row: int, cell: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """ "(A) one (B) two" in parts."""
    _, *parts = _LETTERED.split(cell)
    if len(parts) < 4:
        raise table.mistake(row, f'choices are written as "(A) one (B) two", got "{cell[:40]}".')
    return tuple(parts[::2]), tuple(text.strip() for text in parts[1::2])
