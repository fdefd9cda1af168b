"""Texts for a run that embeds them: a text, a line of a file, a row of a table; two of a row are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from canon.data.encodings.texts import SentenceSchema, single
from canon.data.formats.files import ending, lines
from canon.data.formats.rows import SentenceRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import read_table
from canon.data.kinds.sentence_columns import choose_sentences
from canon.data.paths import file_of
from canon.data.records import Given, Records
from canon.errors import CanonError


def read_texts(
    schema: SentenceSchema, sources: Sequence[Given], config: Any, text: bool
) -> tuple[SentenceRows, list[str]]:
    """The texts in files, in rows, or the texts themselves, and a name for each row."""
    rows: list[tuple[str, ...]] = []
    names: list[str] = []
    for source in sources:
        if isinstance(source, Records):
            wanted = [name for name in schema.columns if name in source.columns]
            columns = [source.table().texts(name).tolist() for name in wanted]
            rows += zip(*columns, strict=True) if columns else single(source)
            names += source.labels()
        elif (path := file_of(source, text)) is None:
            rows.append(tuple(part.strip() for part in source.split("\t")))
            names.append(source[:60])
        elif ending(path) in TABLES:
            table = read_table(path, config, like=schema.columns)
            known = tuple(name for name in schema.columns if name in table.names)
            chosen = known or choose_sentences(table, replace(config, label="", features=())).texts
            rows += zip(*(table.texts(name).tolist() for name in chosen), strict=True)
            names += [f"{source}, {table.line(row)}" for row in range(len(table))]
        else:
            numbered = [(number, line) for number, line in enumerate(lines(path, config.encoding), 1) if line.strip()]
            rows += [tuple(part.strip() for part in line.split("\t")) for _, line in numbered]
            names += [f"{source}, line {number}" for number, _ in numbered]
    if not rows:
        raise CanonError(f"{', '.join(map(str, sources))}: there is no text to embed.")
    for row, texts in enumerate(rows):
        if len(texts) != len(rows[0]):
            raise CanonError(f"{names[row]} has {len(texts)} texts where the first row has {len(rows[0])}.")
        if not all(part.strip() for part in texts):
            raise CanonError(f"{names[row].strip() or 'The input'}: a text is empty.")
    return SentenceRows("the input", lambda row: names[row], rows), names
