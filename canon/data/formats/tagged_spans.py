"""Texts with entities by their places in the text, in JSON lines, as annotation tools and CLUENER write them.

{"text": "Anna saw Rome", "label": [[0, 4, "PER"]]}           (also entities, spans, labels), ends exclusive
{"text": "Anna saw Rome", "entities": [{"start": 0, "end": 4, "label": "PER"}]}
{"text": "…", "label": {"name": {"叶老桂": [[9, 11]]}}}        CLUENER, ends inclusive

Words are what white space and punctuation part; a Chinese character or kana is a word. Tags are in BIO form: the words
of a span, where spans overlap those of the one that begins first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from canon.data.formats import json_lines
from canon.data.formats.files import ending
from canon.data.formats.names import TEXTS
from canon.errors import CanonError

_SPANS = ("entities", "spans", "label", "labels", "annotations")
_STARTS, _ENDS = ("start", "start_offset", "begin", "start_idx"), ("end", "end_offset", "stop", "end_idx")
_KINDS = ("label", "type", "entity", "entity_type", "tag")
_PEEK = 50  # rows, of which the first may have no entity
_LETTER = "\u3040-\u30ff\u3400-\u9fff"  # kana and Chinese characters
_WORD = re.compile(rf"[{_LETTER}]|[^\W{_LETTER}]+|[^\w\s]")


class SpanFields(NamedTuple):
    text: str
    spans: str


def fields_of(path: Path, encoding: str = "") -> SpanFields | None:
    """The fields of the text and of its entities; None where a file has none."""
    if ending(path) not in json_lines.ENDINGS:
        return None
    try:
        rows = [row for _, row in islice(json_lines.objects(path, encoding), _PEEK)]
    except CanonError:  # reading the file raises it again
        return None
    for text in TEXTS:
        for spans in _SPANS:
            if any(isinstance(row.get(text), str) and _spans(row.get(spans)) for row in rows):
                return SpanFields(text, spans)
    return None


def read_spans(path: Path, encoding: str, fields: SpanFields) -> Iterator[tuple[int, list[str], list[str]]]:
    """The line, the words and the tags of each text; no tags where a row has no field of entities."""
    for number, row in json_lines.objects(path, encoding):
        text = row.get(fields.text)
        if not isinstance(text, str):
            raise CanonError(f'{path}, line {number}: "{fields.text}" must be a text.')
        places = [(match.start(), match.end(), match.group()) for match in _WORD.finditer(text)]
        if not places:
            continue
        tags = ["O"] * len(places)
        for start, end, kind in sorted(_spans(row.get(fields.spans)) or (), key=lambda span: span[0]):
            if not 0 <= start < end <= len(text):
                raise CanonError(f"{path}, line {number}: {start} to {end} is not in a text of {len(text)} characters.")
            inside = [place for place, (begin, stop, _) in enumerate(places) if begin < end and stop > start]
            free = [place for place in inside if tags[place] == "O"]
            for place in free if free == inside else ():
                tags[place] = f"{'B' if place == inside[0] else 'I'}-{kind}"
        yield number, [word for _, _, word in places], tags if fields.spans in row else []


def _spans(value: Any) -> list[tuple[int, int, str]] | None:
    """Start, end (exclusive) and kind of each entity; None where a value is something else."""
    spans: list[tuple[Any, Any, Any]] = []
    if isinstance(value, dict):
        for kind, names in value.items():
            places = names.values() if isinstance(names, dict) else ()
            pairs = [place for listed in places if isinstance(listed, list) for place in listed]
            if not pairs or not all(isinstance(place, list) and len(place) == 2 for place in pairs):
                return None
            spans += [(start, end + 1 if isinstance(end, int) else end, kind) for start, end in pairs]
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                spans.append(tuple(_first(item, names) for names in (_STARTS, _ENDS, _KINDS)))
            elif isinstance(item, list) and len(item) == 3:
                spans.append((item[0], item[1], item[2]))
            else:
                return None
    else:
        return None
    right = all(isinstance(start, int) and isinstance(end, int) and isinstance(kind, str) for start, end, kind in spans)
    return spans if right else None


def _first(item: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((item[name] for name in names if name in item), None)
