"""More texts for a run that was fine-tuned: to evaluate it on, or to predict.

A text to predict is a file (as the training data was, with or without labels; else a text on each line) or the text
itself: of two texts, of a question and its document, or of a question and its choices, with tabs between, or as a JSON
object. Words to tag are parted by spaces, Chinese into its characters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from canon.data.config import DataConfig
from canon.data.finetune_open import WHAT, open_labelled
from canon.data.finetune_rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.finetune_tables import Guess, choice_rows, open_table, text_rows
from canon.data.formats import json_lines
from canon.data.formats.choices import LETTERS, is_choices, parse_choice, read_choices
from canon.data.formats.conll import is_conll, read_conll
from canon.data.formats.files import ending, lines
from canon.data.formats.squad import is_squad, read_squad
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.open import file_of
from canon.data.read_finetune import columns_of
from canon.data.schema import Columns, Schema
from canon.data.text.tokenizers import is_wide
from canon.errors import CanonError

_FORM = {
    "class": "two texts with a tab between them",
    "number": "two texts with a tab between them",
    "span": 'a question and its text with a tab between them, or {"question": …, "context": …}',
    "choice": 'a question and its choices with tabs between them, or {"question": …, "choices": […]}',
}


def read_labelled_finetune(schema: Schema, path: str, config: DataConfig) -> Columns:
    """Other labelled data (its test part, where it has one), to evaluate a run on."""
    assert schema.reading is not None
    plain = replace(config, source=path, format="auto", valid=0.0, test=0.0, limit=0, label="", features=())
    numbers_or_classes = schema.target in ("class", "number")
    if numbers_or_classes:
        plain = replace(plain, label=schema.label, features=schema.reading.columns)
    elif schema.target == "tags":
        plain = replace(plain, label=config.label)
    opened = open_labelled(plain, schema.target if numbers_or_classes else "")
    if opened.kind != schema.target:
        raise CanonError(f"The run predicts {WHAT[schema.target]}, but {path} is for {WHAT[opened.kind]}.")
    parts = opened.source.parts
    return columns_of(schema, (parts.get("test") or parts["train"]).inputs)[0]


def encode_finetune(
    schema: Schema, sources: Sequence[str], config: DataConfig, text: bool = False
) -> tuple[Columns, list[str]]:
    """The texts in files, or the texts themselves, and a name for each example."""
    found: list[Rows] = []
    names: list[str] = []
    for source in sources:
        if (path := file_of(source, text)) is not None:
            rows = _from_file(schema, path, config)
            names += [f"{source}, {rows.where(row)}" for row in range(len(rows))]
        else:
            rows = _from_text(schema, source, f'"{source[:40]}"')
            names.append(source[:60])
        found.append(rows)
    if not names:
        raise CanonError(f"{', '.join(sources)}: there is no text.")
    return columns_of(schema, _merged(found))[0], names


def _from_file(schema: Schema, path: Path, config: DataConfig) -> Rows:
    """Labels in the file are passed over."""
    assert schema.reading is not None
    if schema.target == "tags" and is_conll(path, config.encoding):
        return replace(read_conll(path, config.encoding, config.label)[0], tags=None)
    if schema.target == "span" and is_squad(path, config.encoding):
        return replace(read_squad(path, config.encoding), answers=None)
    if schema.target == "choice" and is_choices(path, config.encoding):
        return replace(read_choices(path, config.encoding), answers=None)
    if ending(path) in TABLES and schema.target in ("class", "number", "choice"):
        table = open_table(path, config)
        columns = schema.reading.columns
        if schema.target != "choice":
            rows = replace(text_rows(table, Guess("class", columns)), labels=None)
            _refuse_empty(rows)
            return rows
        asked = 2 if columns[:2] == ("sent1", "sent2") else 1  # columns of the question
        return choice_rows(table, Guess("choice", columns[:asked], "", columns[asked:]))
    numbered = [(number, line) for number, line in enumerate(lines(path, config.encoding), start=1) if line.strip()]
    if not numbered:
        raise CanonError(f"{path} is empty.")
    merged = _merged([_from_text(schema, line, f"{path}, line {number}") for number, line in numbered])
    return replace(merged, path=str(path), where=lambda row: f"line {numbered[row][0]}")


def _from_text(schema: Schema, text: str, where: str) -> Rows:
    """One example, from what the user typed or a line."""
    assert schema.reading is not None
    if not text.strip():
        raise CanonError("The text is empty." if where.startswith('"') else f"{where}: the text is empty.")
    if text.lstrip().startswith("{") and schema.target != "tags":
        try:
            row = json_lines.parse(text, where)
        except CanonError as mistake:
            if not isinstance(mistake.__cause__, json.JSONDecodeError):  # a text may begin with a brace
                raise
        else:
            return _from_object(schema, row, where)
    if schema.target == "tags":
        return TagRows(where, lambda row: "", [split_words(text)])
    cells = [cell.strip() for cell in text.split("\t")]
    pair = len(schema.reading.columns) == 2
    if schema.target in ("class", "number") and not pair:
        return TextRows(where, lambda row: "", [text])
    if len(cells) != 2 if schema.target != "choice" else len(cells) < 3:
        raise CanonError(f"{where}: the run reads {_FORM[schema.target]}.")
    if not all(cells):
        raise CanonError(f"{where}: a text is empty.")
    if schema.target == "span":
        return SpanRows(where, lambda row: "", [cells[0]], [cells[1]])
    if schema.target == "choice":
        return ChoiceRows(
            where, lambda row: "", [cells[0]], [tuple(cells[1:])], None, [tuple(LETTERS[: len(cells) - 1])]
        )
    return TextRows(where, lambda row: "", [cells[0]], [cells[1]])


def _from_object(schema: Schema, row: dict[str, Any], where: str) -> Rows:
    assert schema.reading is not None
    if schema.target == "choice":
        question, choices, labels, _ = parse_choice(row, where)
        return ChoiceRows(where, lambda index: "", [question], [choices], None, [labels])
    wanted = ("question", "context") if schema.target == "span" else schema.reading.columns
    for name in wanted:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise CanonError(f'{where}: there is no "{name}"; an object has {", ".join(wanted)}.')
    texts = [row[name] for name in wanted]
    if schema.target == "span":
        return SpanRows(where, lambda index: "", [texts[0]], [texts[1]], keys=[str(row.get("id", "1"))])
    return TextRows(where, lambda index: "", [texts[0]], [texts[1]] if len(texts) > 1 else None)


def split_words(text: str) -> list[str]:
    """The words of a plain text: at spaces, and each character that is written without them by itself."""
    found: list[str] = []
    for piece in text.split():
        word = ""
        for character in piece:
            if is_wide(character):
                found += [word, character] if word else [character]
                word = ""
            else:
                word += character
        found += [word] if word else []
    return found


def _refuse_empty(rows: TextRows) -> None:
    for texts in (rows.first, rows.second or ()):
        for row, text in enumerate(texts):
            if not text.strip():
                raise CanonError(f"{rows.path}, {rows.where(row)}: the text is empty.")


def _merged(parts: Sequence[Rows]) -> Any:
    """Rows of one kind behind each other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    path, where = "the input", lambda row: f"example {row + 1}"
    if isinstance(first, TextRows):
        second = None if first.second is None else [text for part in parts for text in part.second]  # type: ignore[union-attr]
        return TextRows(path, where, [text for part in parts for text in part.first], second)  # type: ignore[union-attr]
    if isinstance(first, TagRows):
        return TagRows(path, where, [words for part in parts for words in part.words])  # type: ignore[union-attr]
    questions = [text for part in parts for text in part.questions]  # type: ignore[union-attr]
    if isinstance(first, SpanRows):
        documents = [text for part in parts for text in part.documents]  # type: ignore[union-attr]
        keys = [key for part in parts for key in part.keys or [""] * len(part)]  # type: ignore[union-attr]
        return SpanRows(path, where, questions, documents, None, keys)
    choices = [own for part in parts for own in part.choices]  # type: ignore[union-attr]
    return ChoiceRows(path, where, questions, choices, None, [own for part in parts for own in part.names])  # type: ignore[union-attr]
