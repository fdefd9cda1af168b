"""Texts for a fine-tuned run to predict.

They come from a file (in the format of the training data, with or without labels; else one text a line), as rows, or
as arguments: two texts, a question and its document, or a question and its choices, separated by tabs or as a JSON
object.
Words to tag are separated by spaces; of Chinese, every character is a word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from canon.data.columns import TextColumns, choose_columns
from canon.data.encodings.framed import FramedSchema
from canon.data.formats import json_lines
from canon.data.formats.choices import LETTERS, is_choices, parse_choice, read_choices
from canon.data.formats.conll import WORDS, is_conll, read_conll
from canon.data.formats.fasttext_lines import is_labelled, without_labels
from canon.data.formats.files import lines
from canon.data.formats.names import TEXTS
from canon.data.formats.rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.formats.squad import is_squad, read_squad
from canon.data.formats.tables import Table
from canon.data.formats.tagged_tables import is_tagged, read_tagged
from canon.data.kinds.choices import choice_rows
from canon.data.kinds.labelled import open_table, text_rows
from canon.data.paths import file_of
from canon.data.records import Given, Records
from canon.data.targets import Choice, Class, Number, Span, Tags
from canon.data.text.tokenizers import is_wide
from canon.errors import CanonError

_FORM = {
    Class: "two texts with a tab between them",
    Number: "two texts with a tab between them",
    Span: 'a question and its text with a tab between them, or {"question": …, "context": …}',
    Choice: 'a question and its choices with tabs between them, or {"question": …, "choices": […]}',
}

_COLUMNS = {
    TextRows: ("first", "second"),
    TagRows: ("words",),
    SpanRows: ("questions", "documents", "keys"),
    ChoiceRows: ("questions", "choices", "names"),
}


def read_rows(schema: FramedSchema, sources: Sequence[Given], config: Any, text: bool) -> tuple[Rows, list[str]]:
    """The texts in files, in rows, or the texts themselves, and a name for each example."""
    read: list[Rows] = []
    names: list[str] = []
    for source in sources:
        if isinstance(source, Records):
            rows = _from_records(schema, source)
            names += source.labels()
        elif (path := file_of(source, text)) is not None:
            rows = _from_file(schema, path, config)
            names += [f"{source}, {rows.where(row)}" for row in range(len(rows))]
        else:
            rows = _from_text(schema, source, f'"{source[:40]}"')
            names.append(source[:60])
        read.append(rows)
    if not names:
        raise CanonError(f"{', '.join(map(str, sources))}: there is no text to predict from.")
    return _merged(read), names


def _from_file(schema: FramedSchema, path: Path, config: Any) -> Rows:
    """Labels in the file are ignored."""
    if isinstance(schema.target, Tags) and is_tagged(path, config.encoding):
        return replace(read_tagged(path, config.encoding, config.label, config.features)[0], tags=None)
    if isinstance(schema.target, Tags) and is_conll(path, config.encoding):
        return replace(read_conll(path, config.encoding, config.label, config.features)[0], tags=None)
    if isinstance(schema.target, Span) and is_squad(path, config.encoding):
        return replace(read_squad(path, config.encoding), answers=None)
    if isinstance(schema.target, Choice) and is_choices(path, config.encoding):
        return replace(read_choices(path, config.encoding), answers=None)
    table = open_table(path, config, schema.columns) if isinstance(schema.target, Class | Number | Choice) else None
    if table is not None:
        if not isinstance(schema.target, Choice):
            return _from_table(schema, table)
        return replace(choice_rows(table), answers=None)
    read = lines(path, config.encoding)
    if isinstance(schema.target, Class) and is_labelled(path, config.encoding):
        read = map(without_labels, read)
    numbered = [(number, line) for number, line in enumerate(read, start=1) if line.strip()]
    if not numbered:
        raise CanonError(f"{path} is empty.")
    merged = _merged([_from_text(schema, line, f"{path}, line {number}") for number, line in numbered])
    return replace(merged, path=str(path), where=lambda row: f"line {numbered[row][0]}")


def _from_records(schema: FramedSchema, records: Records) -> Rows:
    """Labels among the rows are ignored."""
    if isinstance(schema.target, Class | Number):
        return _from_table(schema, records.table())
    if isinstance(schema.target, Tags):
        words = [_words_of(row) for row in records.rows()]
        if not all(words):
            raise CanonError(f'{records.path}, row {words.index([]) + 1}: there are no "words", and no "text".')
        return TagRows(records.path, records.where, words)
    rows = [_from_object(schema, row, f"{records.path}, row {i}") for i, row in enumerate(records.rows(), start=1)]
    return _merged(rows)


def _from_table(schema: FramedSchema, table: Table) -> TextRows:
    rows = text_rows(table, TextColumns(schema.columns or choose_columns(table).texts))
    _refuse_empty(rows)
    return rows


def _from_text(schema: FramedSchema, text: str, where: str) -> Rows:
    """One example, from an argument or a line of a file."""
    if not text.strip():
        raise CanonError("The text is empty." if where.startswith('"') else f"{where}: the text is empty.")
    target = schema.target
    if text.lstrip().startswith("{") and (row := _object(text, where)) is not None:
        return _from_object(schema, row, where)
    if isinstance(target, Tags):
        return TagRows(where, _nowhere, [split_words(text)])
    if isinstance(target, Class | Number) and len(schema.columns) != 2:
        return TextRows(where, _nowhere, [text])
    texts = [cell.strip() for cell in text.split("\t")]
    if len(texts) < 3 if isinstance(target, Choice) else len(texts) != 2:
        raise CanonError(f"{where}: the run reads {_FORM[type(target)]}.")
    if not all(texts):
        raise CanonError(f"{where}: a text is empty.")
    if isinstance(target, Choice):
        return ChoiceRows(where, _nowhere, texts[:1], [tuple(texts[1:])], None, [tuple(LETTERS[: len(texts) - 1])])
    rows = SpanRows if isinstance(target, Span) else TextRows
    return rows(where, _nowhere, texts[:1], texts[1:])


def _from_object(schema: FramedSchema, row: dict[str, Any], where: str) -> Rows:
    """One example, from a dict or a JSON object."""
    if isinstance(schema.target, Tags):
        if not (words := _words_of(row)):
            raise CanonError(f'{where}: there are no "words", and no "text".')
        return TagRows(where, _nowhere, [words])
    if isinstance(schema.target, Choice):
        question, choices, labels, _ = parse_choice(row, where)
        return ChoiceRows(where, _nowhere, [question], [choices], None, [labels])
    wanted = ("question", "context") if isinstance(schema.target, Span) else schema.columns or ("text",)
    for name in wanted:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise CanonError(f'{where}: there is no "{name}"; an object has {", ".join(wanted)}.')
    first, *second = ([row[name]] for name in wanted)
    if isinstance(schema.target, Span):
        return SpanRows(where, _nowhere, first, second[0], keys=[str(row.get("id", "1"))])
    return TextRows(where, _nowhere, first, second[0] if second else None)


def _words_of(row: Mapping[str, Any]) -> list[str]:
    """The words of a sentence to tag: a list of them, else a text; [] where a row has neither."""
    for name in (*WORDS, *TEXTS):
        if isinstance(value := row.get(name), list | str):
            return split_words(value) if isinstance(value, str) else list(map(str, value))
    return []


def _nowhere(row: int) -> str:
    return ""


def _object(text: str, where: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None if it only begins with a brace."""
    try:
        return json_lines.parse(text, where)
    except CanonError as mistake:
        if not isinstance(mistake.__cause__, json.JSONDecodeError):
            raise
        return None


def split_words(text: str) -> list[str]:
    """The words of a plain text: what spaces separate, and every Chinese character by itself."""
    words: list[str] = []
    for piece in text.split():
        for wide, letters in groupby(piece, is_wide):
            run = list(letters)
            words += run if wide else ["".join(run)]
    return words


def _refuse_empty(rows: TextRows) -> None:
    for texts in (rows.first, rows.second or ()):
        for row, text in enumerate(texts):
            if not text.strip():
                raise CanonError(f"{rows.path}, {rows.where(row)}: the text is empty.")


def _merged(parts: Sequence[Rows]) -> Any:
    """Unlabelled rows of one class after each other."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, list[Any]] = {}
    for name in _COLUMNS[type(parts[0])]:
        values = [vars(part)[name] for part in parts]
        if values[0] is not None:
            filled = (rows or [""] * len(part) for part, rows in zip(parts, values, strict=True))
            columns[name] = list(chain.from_iterable(filled))
    return type(parts[0])("the input", lambda row: f"example {row + 1}", **columns)
