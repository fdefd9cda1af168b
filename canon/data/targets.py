"""What is to be predicted of an example: one small class for each, which the schema of a run holds.

A task says which targets it can predict (`Task.targets`; the first that the data has is taken), and code asks
`isinstance(schema.target, Number)`. A target is stored in vocab/schema.json by its name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from canon.errors import unknown


@dataclass(frozen=True)
class Target:
    name: ClassVar[str]
    what: ClassVar[str]  # for sentences: "The run predicts …"
    classes: tuple[str, ...] = ()
    label: str = ""  # the column of a table that holds it
    counts: tuple[int, ...] = ()  # training examples of each class, or words of each tag

    def sizes(self) -> dict[str, Any]:
        """The settings of a system that it decides."""
        return {"num_classes": len(self.classes)} if self.classes else {}


@dataclass(frozen=True)
class Nothing(Target):
    name = "none"
    what = "nothing"


@dataclass(frozen=True)
class Class(Target):
    name = "class"
    what = "a class"


@dataclass(frozen=True)
class Labels(Target):
    """Classes of which an example may have several."""

    name = "labels"
    what = "labels"


@dataclass(frozen=True)
class Tags(Target):
    name = "tags"
    what = "a tag of every word"


@dataclass(frozen=True)
class Number(Target):
    """Learned as (value − mean) / std."""

    name = "number"
    what = "a number"
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class Span(Target):
    name = "span"
    what = "the part of a text that answers a question"
    unanswerable: bool = False  # whether there are questions that the text does not answer


@dataclass(frozen=True)
class Choice(Target):
    name = "choice"
    what = "the right one of several texts for a question"


@dataclass(frozen=True)
class NextToken(Target):
    name = "next"
    what = "the next token"


@dataclass(frozen=True)
class HiddenTokens(Target):
    """Those tokens of a text that an objective of pre-training asks for."""

    name = "tokens"
    what = "hidden tokens"


@dataclass(frozen=True)
class OtherText(Target):
    name = "sequence"
    what = "another text"


TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (Nothing, Class, Labels, Tags, Number, Span, Choice, NextToken, HiddenTokens, OtherText)
}


def to_record(target: Target) -> dict[str, Any]:
    return {"name": target.name, **asdict(target)}


def from_record(record: dict[str, Any]) -> Target:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
    name = values.pop("name")
    if name not in TARGETS:
        raise unknown("target", str(name), TARGETS)
    return TARGETS[name](**values)
