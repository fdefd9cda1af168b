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

from canon.data.encodings.framed import FramedSchema
from canon.data.formats import json_lines
from canon.data.formats.choices import LETTERS, is_choices, parse_choice, read_choices
from canon.data.formats.conll import is_conll, read_conll
from canon.data.formats.fasttext_lines import is_labelled, without_labels
from canon.data.formats.files import ending, lines
from canon.data.formats.rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.formats.squad import is_squad, read_squad
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.kinds import labelled
from canon.data.kinds.choices import choice_rows, choose_columns
from canon.data.kinds.labelled import TextColumns, open_table, text_rows
from canon.data.paths import file_of
from canon.data.targets import Choice, Class, Number, Span, Tags
from canon.data.text.tokenizers import is_wide
from canon.errors import CanonError

_FORM = {
    Class: "two texts with a tab between them",
    Number: "two texts with a tab between them",
    Span: 'a question and its text with a tab between them, or {"question": …, "context": …}',
    Choice: 'a question and its choices with tabs between them, or {"question": …, "choices": […]}',
}


def read_rows(schema: FramedSchema, sources: Sequence[str], config: Any, text: bool) -> tuple[Rows, list[str]]:
    """The texts in files, or the texts themselves, and a name for each example."""
    read: list[Rows] = []
    names: list[str] = []
    for source in sources:
        if (path := file_of(source, text)) is not None:
            rows = _from_file(schema, path, config)
            names += [f"{source}, {rows.where(row)}" for row in range(len(rows))]
        else:
            rows = _from_text(schema, source, f'"{source[:40]}"')
            names.append(source[:60])
        read.append(rows)
    if not names:
        raise CanonError(f"{', '.join(sources)}: there is no text.")
    return _merged(read), names


def _from_file(schema: FramedSchema, path: Path, config: Any) -> Rows:
    """Labels in the file are passed over."""
    if isinstance(schema.target, Tags) and is_conll(path, config.encoding):
        return replace(read_conll(path, config.encoding, config.label)[0], tags=None)
    if isinstance(schema.target, Span) and is_squad(path, config.encoding):
        return replace(read_squad(path, config.encoding), answers=None)
    if isinstance(schema.target, Choice) and is_choices(path, config.encoding):
        return replace(read_choices(path, config.encoding), answers=None)
    if ending(path) in TABLES and isinstance(schema.target, Class | Number | Choice):
        table = open_table(path, config)
        if not isinstance(schema.target, Choice):
            rows = text_rows(table, TextColumns(schema.columns or labelled.choose_columns(table).texts))
            _refuse_empty(rows)
            return rows
        if (choices := choose_columns(table)) is None:
            raise CanonError(f"{table.path} has no columns of choices.")
        return replace(choice_rows(table, choices), answers=None)
    read = lines(path, config.encoding)
    if isinstance(schema.target, Class) and is_labelled(path, config.encoding):
        read = map(without_labels, read)
    numbered = [(number, line) for number, line in enumerate(read, start=1) if line.strip()]
    if not numbered:
        raise CanonError(f"{path} is empty.")
    merged = _merged([_from_text(schema, line, f"{path}, line {number}") for number, line in numbered])
    return replace(merged, path=str(path), where=lambda row: f"line {numbered[row][0]}")


def _from_text(schema: FramedSchema, text: str, where: str) -> Rows:
    """One example, from what the user typed or a line."""
    if not text.strip():
        raise CanonError("The text is empty." if where.startswith('"') else f"{where}: the text is empty.")
    if text.lstrip().startswith("{") and not isinstance(schema.target, Tags):
        try:
            row = json_lines.parse(text, where)
        except CanonError as mistake:
            if not isinstance(mistake.__cause__, json.JSONDecodeError):  # a text may begin with a brace
                raise
        else:
            return _from_object(schema, row, where)
    if isinstance(schema.target, Tags):
        return TagRows(where, lambda row: "", [split_words(text)])
    cells = [cell.strip() for cell in text.split("\t")]
    pair = len(schema.columns) == 2
    if isinstance(schema.target, Class | Number) and not pair:
        return TextRows(where, lambda row: "", [text])
    if len(cells) != 2 if not isinstance(schema.target, Choice) else len(cells) < 3:
        raise CanonError(f"{where}: the run reads {_FORM[type(schema.target)]}.")
    if not all(cells):
        raise CanonError(f"{where}: a text is empty.")
    if isinstance(schema.target, Span):
        return SpanRows(where, lambda row: "", [cells[0]], [cells[1]])
    if isinstance(schema.target, Choice):
        return ChoiceRows(
            where, lambda row: "", [cells[0]], [tuple(cells[1:])], None, [tuple(LETTERS[: len(cells) - 1])]
        )
    return TextRows(where, lambda row: "", [cells[0]], [cells[1]])


def _from_object(schema: FramedSchema, row: dict[str, Any], where: str) -> Rows:
    if isinstance(schema.target, Choice):
        question, choices, labels, _ = parse_choice(row, where)
        return ChoiceRows(where, lambda index: "", [question], [choices], None, [labels])
    wanted = ("question", "context") if isinstance(schema.target, Span) else schema.columns or ("text",)
    for name in wanted:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise CanonError(f'{where}: there is no "{name}"; an object has {", ".join(wanted)}.')
    texts = [row[name] for name in wanted]
    if isinstance(schema.target, Span):
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
    """Rows of one kind after each other."""
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
