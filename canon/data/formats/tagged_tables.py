"""Sentences with tags that are not in CoNLL's columns: JSON lines or Parquet with lists of words and of tags, texts
with the places of their entities, and tables with a word in each row and a column that begins or numbers the sentences.

data.features names the words' column, data.label the tags'.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canon.data.formats import json_lines, parquet
from canon.data.formats.conll import WORDS, entity_notes
from canon.data.formats.files import ending
from canon.data.formats.layout import layout_of
from canon.data.formats.rows import TagRows
from canon.data.formats.tables import read_table
from canon.data.formats.tagged_spans import fields_of, read_spans
from canon.data.settings import Columns
from canon.errors import CanonError

TAGS = ("ner_tags", "ner", "tags", "tag", "labels", "label", "pos_tags", "pos", "upos", "bio")
_SENTENCES = ("sentence #", "sentence_id", "sentence id", "sentence", "sent_id", "sentence_idx")


def is_tagged(path: Path, encoding: str = "") -> bool:
    """Whether a file has sentences in one of these forms."""
    return bool(_fields(path, encoding) or _columns(path, encoding) or fields_of(path, encoding))


def _fields(path: Path, encoding: str) -> tuple[str, str] | None:
    """The names of the lists of words and of tags."""
    row = None
    if ending(path) in json_lines.ENDINGS:
        row = json_lines.first_object(path, encoding)
    elif ending(path) == ".parquet":
        try:
            row = next(parquet.rows(path), None)
        except CanonError:  # reading the table says so
            return None
    lists = {name: value for name, value in (row or {}).items() if isinstance(value, list) and value}
    words = next((name for name in WORDS if name in lists and isinstance(lists[name][0], str)), "")
    tags = next((name for name in TAGS if name in lists and len(lists[name]) == len(lists.get(words, ()))), "")
    return (words, tags) if words and tags else None


def _columns(path: Path, encoding: str) -> tuple[str, str, str] | None:
    """The columns of sentences, words and tags."""
    layout = layout_of(path, encoding)
    plain = {} if layout is None or layout.bare else {name.strip().lower(): name for name in reversed(layout.names)}
    columns = [next((plain[name] for name in known if name in plain), "") for known in (_SENTENCES, WORDS, TAGS)]
    return (columns[0], columns[1], columns[2]) if all(columns) else None


def read_tagged(
    path: Path, encoding: str = "", label: str = "", features: Sequence[str] = ()
) -> tuple[TagRows, tuple[str, ...]]:
    """All sentences of a file, and notes on what was decided."""
    if (names := _fields(path, encoding)) is not None:
        word, tag = (*features[:1], names[0])[0], label or names[1]
        rows, wheres = _of_lists(path, encoding, word, tag)
    elif (columns := _columns(path, encoding)) is not None:
        word, tag = (*features[:1], columns[1])[0], label or columns[2]
        rows, wheres = _of_table(path, encoding, columns[0], word, tag)
    elif (fields := fields_of(path, encoding)) is not None:
        word, tag = fields
        read = [(words, tags, f"line {line}") for line, words, tags in read_spans(path, encoding, fields)]
        rows, wheres = [(words, tags) for words, tags, _ in read], [where for _, _, where in read]
    else:
        raise CanonError(f"{path} has no words with tags: lists of them in JSON lines, or columns of a table.")
    tags = [tags for _, tags in rows]
    labelled = tags if all(tags) else None
    note = f'The words are "{word}", the tags are "{tag}"; data.features and data.label choose others.'
    if (word, tag) == fields_of(path, encoding):
        note = f'The text is "{word}", the places of its entities are "{tag}".'
    notes = (note, *entity_notes(tags)) if labelled else (note,)
    return TagRows(str(path), lambda row: wheres[row], [words for words, _ in rows], labelled), notes


def _of_lists(path: Path, encoding: str, word: str, tag: str) -> tuple[list[tuple[list[str], list[str]]], list[str]]:
    rows, wheres = [], []
    table = ending(path) == ".parquet"
    for number, row in enumerate(parquet.rows(path), start=1) if table else json_lines.objects(path, encoding):
        words, tags = row.get(word), row.get(tag, [])
        where = f"{path}, {'row' if table else 'line'} {number}"
        if not isinstance(words, list) or not isinstance(tags, list) or len(tags) not in (0, len(words)):
            raise CanonError(f'{where}: "{word}" and "{tag}" must be lists of as many words as tags.')
        if words:
            rows.append((list(map(str, words)), list(map(str, tags))))
            wheres.append(f"{'row' if table else 'line'} {number}")
    if not rows:
        raise CanonError(f"{path} is empty.")
    return rows, wheres


def _of_table(
    path: Path, encoding: str, sentence: str, word: str, tag: str
) -> tuple[list[tuple[list[str], list[str]]], list[str]]:
    """A cell of the sentences' column that is filled, and not the one before, begins a sentence."""
    table = read_table(path, Columns(encoding=encoding))
    word, tag = table.require(word, "data.features"), table.require(tag, "data.label")
    columns: Any = (table.texts(name).tolist() for name in (sentence, word, tag))
    rows: list[tuple[list[str], list[str]]] = []
    wheres: list[str] = []
    last = None
    for place, (begins, text, tag_cell) in enumerate(zip(*columns, strict=True)):
        if not rows or (begins.strip() and begins != last):
            rows.append(([], []))
            wheres.append(f"row {place + 1}")
            last = begins
        rows[-1][0].append(text)
        rows[-1][1].append(tag_cell)
    return rows, wheres
