"""The door to data: what a system reads, from a source to columns; and more of it for a run that was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canon.data import encodings
from canon.data.encodings import Ask, Encoding
from canon.data.encodings.base import Inputs
from canon.data.formats import json_lines
from canon.data.kinds import Kind, kind_for
from canon.data.records import array_of, sources_of
from canon.data.schema import Columns, Data, Schema
from canon.errors import CanonError


def read(config: Any, reads: Sequence[Encoding], ask: Ask) -> Data:
    """Everything of `config.source`, split and encoded by the first of the encodings that can be given its kind."""
    encoding_of = by_kind(reads, ask)
    kind = kind_for(list(encoding_of), config, ask.system)
    return encoding_of[kind].fit(kind.source(config), config, ask)


def by_kind(reads: Sequence[Encoding], ask: Ask) -> dict[Kind, Encoding]:
    """The kinds of data that can be read, in the order in which they are tried, and the first encoding of each."""
    encoding_of: dict[Kind, Encoding] = {}
    for encoding in reads:
        for kind in encoding.kinds(ask):
            encoding_of.setdefault(kind, encoding)
    return encoding_of


def inputs(schema: Schema, given: Any, config: Any, text: bool = False, run: str = "The run") -> Inputs:
    """What is given to predict (files, texts, rows, an array: canon/data/records.py), and a name for each example."""
    encoding = encodings.find(schema.encoding)
    if text and not encoding.takes_text:
        wanted = " or ".join(kind.plural for kind in encoding.reads)
        raise CanonError(f"--text is for runs that read text; this one was trained on {wanted}.")
    accepted = encoding.accepted(schema, run)
    array = array_of(given)
    if array is not None and (columns := encoding.array(schema, array, config)) is not None:
        return columns
    examples = given if text else _examples(encoding, schema, given)
    if array is not None and examples is given:
        raise CanonError(f"{accepted}; got an array [{', '.join(map(str, array.shape))}].")
    return encoding.inputs(schema, sources_of(examples, accepted), config, text)


def _examples(encoding: Encoding, schema: Schema, given: Any) -> Any:
    """The same, with a row that is written as JSON as a row, and several texts of one example together."""

    def example(part: Any) -> Any:
        if isinstance(part, str) and part.lstrip().startswith("{") and not encoding.takes_text:
            return json_lines.parse(part, f'"{part[:40]}"')
        if isinstance(part, tuple) and part and all(isinstance(text, str) for text in part):
            return encoding.example(schema, part) or part
        return part

    if (whole := example(given)) is not given or not isinstance(given, list | tuple):
        return whole
    parts = list(map(example, given))
    return given if all(one is other for one, other in zip(parts, given, strict=True)) else parts


def labelled(schema: Schema, source: str | Path, config: Any) -> Columns:
    """Inputs and targets of other labelled data (its test part, where it has one), to evaluate a run on."""
    return encodings.find(schema.encoding).labelled(schema, str(source), config)
