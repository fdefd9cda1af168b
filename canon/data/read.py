"""The door to data: what a system reads, from a source to columns; and more of it for a run that was trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from canon.data import encodings
from canon.data.encodings import Ask, Encoding
from canon.data.kinds import Kind, kind_for
from canon.data.schema import Columns, Data, Schema
from canon.errors import CanonError


def read(config: Any, reads: Sequence[Encoding], ask: Ask) -> Data:
    """Everything of `config.source`, split and encoded by the first of the encodings that can be given its kind."""
    encoding_of: dict[Kind, Encoding] = {}
    for encoding in reads:
        for kind in encoding.kinds(ask):
            encoding_of.setdefault(kind, encoding)
    kind = kind_for(list(encoding_of), config, ask.system)
    return encoding_of[kind].fit(kind.source(config), config, ask)


def inputs(schema: Schema, sources: Sequence[str | Path], config: Any, text: bool = False) -> tuple[Columns, list[str]]:
    """The inputs in files, or the texts that are given, to predict; and a name for each example."""
    encoding = encodings.find(schema.encoding)
    if text and not encoding.takes_text:
        wanted = " or ".join(kind.plural for kind in encoding.reads)
        raise CanonError(f"--text is for runs that read text; this one was trained on {wanted}.")
    return encoding.inputs(schema, [str(source) for source in sources], config, text)


def labelled(schema: Schema, source: str | Path, config: Any) -> Columns:
    """Inputs and targets of other labelled data (its test part, where it has one), to evaluate a run on."""
    return encodings.find(schema.encoding).labelled(schema, str(source), config)
