"""Files of labelled texts to rows of examples: which format, which columns, what is asked.

A named set, a file or a folder; the format by ending and content (table, JSON lines of choices, CoNLL, SQuAD), the
columns of a table by their names (finetune_tables.py). What was decided is told in notes. A test part without labels,
as GLUE has it, is left out, and the validation part is tested on in its place; empty texts are left out too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from canon.data import catalogue
from canon.data.catalogue import CATALOGUE
from canon.data.catalogue.builtin import read_builtin
from canon.data.config import DataConfig
from canon.data.finetune_rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows, is_labelled
from canon.data.finetune_tables import COLA, choice_rows, guess, open_table, text_rows
from canon.data.formats.choices import is_choices, read_choices
from canon.data.formats.conll import is_conll, read_conll
from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.squad import is_squad, read_squad
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, read_table
from canon.data.open import find_path
from canon.data.schema import FileRecord, TargetKind
from canon.data.source import Part, Source, split_of
from canon.errors import CanonError

KINDS: tuple[TargetKind, ...] = ("class", "number", "tags", "span", "choice")
WHAT: dict[str, str] = {
    "class": "a class",
    "number": "a number",
    "tags": "a tag of every word",
    "span": "the part of a text that answers a question",
    "choice": "the right one of several texts for a question",
}
_KIND_OF: dict[type, TargetKind] = {TagRows: "tags", SpanRows: "span", ChoiceRows: "choice"}
FORMS = ("table", "conll", "squad")  # of data.format


@dataclass(frozen=True)
class Opened:
    source: Source  # parts are Rows
    kind: TargetKind
    label: str = ""
    columns: tuple[str, ...] = ()
    monitor: str = ""

    def rows(self, part: str) -> Rows:
        return self.source.parts[part].inputs


def open_labelled(config: DataConfig, kind: str = "") -> Opened:
    """The source as rows of examples, each part with its labels."""
    if kind and kind not in KINDS:
        raise CanonError(f'system.kind must be one of {", ".join(KINDS)}, got "{kind}".')
    opened = _open(config, kind)
    source, notes = opened.source, list(opened.source.notes)
    parts = {name: part.inputs for name, part in source.parts.items()}
    if not is_labelled(parts["train"]):
        raise CanonError(f"{parts['train'].path} has no labels to learn from.")
    for name in ("valid", "test"):
        if name in parts and not is_labelled(parts[name]):
            path = Path(parts.pop(name).path).name
            if name == "test" and "valid" in parts:
                parts["test"] = parts.pop("valid")
                told = f"{Path(parts['test'].path).name} is the test set"
            else:
                told = "it is left out"
            notes.append(f"{path} has no labels: {told}.")
    for name, rows in parts.items():
        if isinstance(rows, TextRows):
            parts[name], more = _without_empty(rows)
            notes += more
    wrapped = {name: Part(rows) for name, rows in parts.items()}
    return replace(opened, source=replace(source, parts=wrapped, notes=tuple(notes)))


def _without_empty(rows: TextRows) -> tuple[TextRows, list[str]]:
    both = [rows.first] if rows.second is None else [rows.first, rows.second]
    filled = np.all([[bool(text.strip()) for text in texts] for texts in both], axis=0)
    if not filled.any():
        raise CanonError(f"{rows.path}: every text is empty.")
    if filled.all():
        return rows, []
    empty = np.flatnonzero(~filled)
    told = f"{Path(rows.path).name}: {len(empty):,} of {len(rows):,} texts are empty and left out"
    return rows.take(np.flatnonzero(filled)), [f"{told} (the first: {rows.where(int(empty[0]))})."]


def _open(config: DataConfig, kind: str) -> Opened:
    if config.source in CATALOGUE:
        return _open_named(config, kind)
    path = find_path(config.source)
    return _open_files(path.name, *_files_of(path), config, kind)


def _open_named(config: DataConfig, kind: str) -> Opened:
    record = CATALOGUE[config.source]
    config = replace(config, label=config.label or record.label, features=config.features or record.features)
    if record.builtin:
        source = read_builtin(record.name)
        if source.kind != "features":
            raise CanonError(f"Fine-tuning reads texts with labels, but {record.name} is {record.kind}.")
        return _from_tables(source, {name: part.inputs for name, part in source.parts.items()}, config, kind)
    if record.format not in FORMS or record.kind == "tests":
        raise CanonError(f"Fine-tuning reads texts with labels, but {record.name} is {record.kind}.")
    folder = catalogue.require(record.name)
    files: dict[str, Path] = {}
    for file in record.files:
        path = catalogue.find_file(folder, file)
        assert path is not None
        catalogue.verify(path, file)
        files[file.split] = path
    return _open_files(record.name, files, [], config, kind, record.columns, record.format)


def _files_of(path: Path) -> tuple[dict[str, Path], list[str]]:
    """The file of each split, and notes."""
    if path.is_file():
        return {"train": path}, []
    files = [item for item in visible(path) if item.is_file()]
    known = [item for item in files if ending(item) in TABLES or split_of(item)]
    notes = []
    if any("mismatched" in item.name for item in known) and any("matched" in item.name for item in known):
        left = [item.name for item in known if "mismatched" in item.name]
        known = [item for item in known if item.name not in left]
        notes.append(f"{', '.join(left)}: left out; evaluate it with canon evaluate RUN --data FILE.")
    if len(known) == 1:
        return {"train": known[0]}, notes
    found: dict[str, Path] = {}
    for item in known:
        split = split_of(item)
        if split in found:
            raise CanonError(f"{path}: {found[split].name} and {item.name} both seem to be the {split} part; keep one.")
        if split:
            found[split] = item
    if "train" not in found:
        raise CanonError(f"{path} has no file whose name says train; give the file.")
    return found, notes


def _form(path: Path, config: DataConfig) -> str:
    if config.format in FORMS:
        return config.format
    if config.format != "auto":
        raise CanonError(f'data.format = "{config.format}" has no labelled texts; those that have: {", ".join(FORMS)}.')
    if is_squad(path, config.encoding):
        return "squad"
    if is_choices(path, config.encoding):
        return "choices"
    if ending(path) in TABLES:
        return "table"
    if is_conll(path, config.encoding):
        return "conll"
    raise CanonError(
        f"{path} is not known to be a file of labelled texts; say what it is with data.format, which is one of "
        f"{', '.join(FORMS)}."
    )


def _open_files(
    name: str,
    files: dict[str, Path],
    notes: list[str],
    config: DataConfig,
    kind: str,
    columns: Sequence[str] = (),
    form: str = "",
) -> Opened:
    form = form or _form(files["train"], config)
    origin: dict[str, Any] = {}
    for split, given in (("valid", config.valid), ("test", config.test)):
        if isinstance(given, str) and given:
            other = find_path(given, named=False)
            files, origin = {**files, split: other}, {**origin, split: other.name}
    records = {record.name: record for record in map(FileRecord.of, files.values())}
    source = Source(name, "tokens", {}, files=tuple(records.values()), notes=tuple(notes), origin=origin)
    if form == "table":
        tables = {
            split: read_table(file, config, columns) if columns else open_table(file, config)
            for split, file in files.items()
        }
        return _from_tables(source, tables, config, kind)
    parts: dict[str, Part] = {}
    told: list[str] = []
    for split, file in files.items():
        if form == "conll":
            rows, more = read_conll(file, config.encoding, config.label)
            parts[split] = Part(rows)
            told += more
        else:
            parts[split] = Part((read_squad if form == "squad" else read_choices)(file, config.encoding))
    own = _KIND_OF[type(parts["train"].inputs)]
    if kind and kind != own:
        raise CanonError(f"system.kind is {kind}, but {files['train']} asks for {WHAT[own]}.")
    note = f"The task: {WHAT[own]}."
    return Opened(replace(source, parts=parts, notes=(*notes, *told, note)), own)


def _from_tables(source: Source, tables: dict[str, Table], config: DataConfig, kind: str) -> Opened:
    if kind in ("tags", "span"):
        raise CanonError(f"system.kind is {kind}, but {tables['train'].path} is a table; give CoNLL or SQuAD files.")
    found = guess(tables["train"], config.label or source.label, config.features or source.features, kind)
    if not found.label:
        raise CanonError(f"{tables['train'].path} has no column beside its text to be the label.")
    rows_of = choice_rows if found.kind == "choice" else text_rows
    parts = {name: Part(rows_of(table, found)) for name, table in tables.items()}
    cola = tuple(tables["train"].names) == COLA
    made = replace(source, kind="tokens", parts=parts, notes=(*source.notes, found.note()))
    columns = (*found.texts, *found.choices)
    return Opened(made, found.kind, found.label, columns, "matthews" if cola else "")  # type: ignore[arg-type]
