"""Questions with several answers to choose from, as JSON lines: OpenBookQA, ARC, CommonsenseQA, HellaSwag and the like.

A line has a question (a text, or {stem, choices}), choices (texts, {text, label} each, or lists of both) and the right
one (answerKey, answer, label or gold: a choice's label, its number from 0, or its text). A context, article or passage
is read as the beginning of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canon.data.formats import json_lines
from canon.data.formats.files import ending
from canon.data.formats.rows import ChoiceRows
from canon.errors import CanonError

CHOICES = ("choices", "options", "endings", "answers")
ANSWERS = ("answerkey", "answer", "label", "gold", "correct")
QUESTIONS = ("question", "question_stem", "stem", "ctx", "query", "premise", "startphrase")
CONTEXTS = ("context", "article", "passage", "fact1")
LETTERS = "ABCDEFGHIJ"


def is_choices(path: Path, encoding: str = "utf-8") -> bool:
    """Whether the first line is an object with a list of choices."""
    row = json_lines.first_object(path, encoding) if ending(path) in json_lines.WITH_LISTS else None
    return row is not None and _listed(row) is not None


def _listed(row: dict[str, Any]) -> Any:
    """The choices of a row, wherever they are; None where there are none."""
    question = row.get("question")
    inner = question if isinstance(question, dict) else row
    choices = next((inner[name] for name in CHOICES if isinstance(inner.get(name), list | dict)), None)
    return None if isinstance(choices, dict) and "text" not in choices else choices or None


def read_choices(path: Path, encoding: str = "utf-8") -> ChoiceRows:
    rows = []
    answers: list[int] = []
    for number, row in json_lines.rows(path, encoding):
        question, texts, labels, answer = parse_choice(row, f"{path}, line {number}")
        rows.append((number, question, texts, labels))
        if answer is not None:
            answers.append(right_one(answer, texts, labels))
            if answers[-1] < 0:
                raise CanonError(f'{path}, line {number}: the answer "{answer}" is not one of {", ".join(labels)}.')
    if not rows:
        raise CanonError(f"{path} is empty.")
    numbers, questions, choices, names = (list(column) for column in zip(*rows, strict=True))
    labelled = answers if len(answers) == len(rows) else None
    return ChoiceRows(str(path), lambda row: f"line {numbers[row]}", questions, choices, labelled, names)


def parse_choice(row: Any, where: str) -> tuple[str, tuple[str, ...], tuple[str, ...], Any]:
    """Question, choices, their labels, and the answer as the row gives it (None where it has none)."""
    listed = _listed(row) if isinstance(row, dict) else None
    if listed is None:
        raise CanonError(f'{where}: there are no choices; a line is {{"question": …, "choices": […], "answerKey": …}}.')
    if isinstance(listed, dict):
        lists = listed["text"], listed.get("label")
        texts, labels = (values if isinstance(values, list) else [] for values in lists)
        labels = [str(label) for label in labels]
    elif all(isinstance(choice, dict) for choice in listed):
        texts = [choice.get("text") for choice in listed]
        labels = [str(choice["label"]) for choice in listed if "label" in choice]
    else:
        texts, labels = listed, []
    if len(texts) < 2 or not all(isinstance(text, str) and text.strip() for text in texts):
        raise CanonError(f"{where}: a question needs two or more choices, none of them empty.")
    if len(labels) != len(texts):
        labels = [LETTERS[place] if place < len(LETTERS) else str(place + 1) for place in range(len(texts))]
    inner = row["question"] if isinstance(row.get("question"), dict) else row
    question = next((inner[name] for name in QUESTIONS if isinstance(inner.get(name), str)), "")
    context = next((row[name] for name in CONTEXTS if isinstance(row.get(name), str)), "")
    asked = " ".join(filter(None, [context.strip(), question.strip()]))
    if not asked:
        raise CanonError(f'{where}: there is no question; give it as "question".')
    plain = {name.lower(): value for name, value in row.items()}
    answer = next((plain[name] for name in ANSWERS if plain.get(name) not in (None, "")), None)
    return asked, tuple(texts), tuple(labels), None if answer is listed else answer


def right_one(answer: Any, texts: Sequence[str], labels: Sequence[str]) -> int:
    """The number of the right choice: by its label, its number from 0, or its text; −1 for none."""
    name = str(answer).strip()
    for known in (labels, [label.lower() for label in labels], texts):
        if name in known:
            return list(known).index(name)
    return int(name) if name.isdecimal() and len(name) < 4 and int(name) < len(texts) else -1
