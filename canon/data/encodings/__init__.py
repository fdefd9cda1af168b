"""Encodings: what a network reads. The one table of them.

To add an encoding: one file here with an object like these, and one line in `ENCODINGS`.
"""

from __future__ import annotations

from canon.data.encodings.bags import BAGS
from canon.data.encodings.base import Ask, Encoding
from canon.data.encodings.events import EVENTS
from canon.data.encodings.features import FEATURES
from canon.data.encodings.fields import FIELDS
from canon.data.encodings.framed import FRAMED
from canon.data.encodings.lists import LISTS
from canon.data.encodings.observations import DYNAMICS, OBSERVATIONS, STATES
from canon.data.encodings.passages import PASSAGES
from canon.data.encodings.pixels import PIXELS
from canon.data.encodings.prompted import PROMPTED
from canon.data.encodings.sequences import SEQUENCES
from canon.data.encodings.steps import STEPS
from canon.data.encodings.texts import TEXTS
from canon.data.encodings.windows import WINDOWS
from canon.data.encodings.word_ids import WORD_IDS
from canon.errors import unknown

__all__ = ["ENCODINGS", "Ask", "Encoding", "find"]

ENCODINGS: tuple[Encoding, ...] = (
    EVENTS,
    *(FEATURES, PIXELS, WINDOWS, SEQUENCES, PASSAGES, WORD_IDS, BAGS, FRAMED, PROMPTED, TEXTS, STEPS),
    LISTS,
    FIELDS,
    *(OBSERVATIONS, STATES, DYNAMICS),
)


def find(name: str) -> Encoding:
    by_name = {encoding.name: encoding for encoding in ENCODINGS}
    if name not in by_name:
        raise unknown("encoding", name, by_name)
    return by_name[name]
