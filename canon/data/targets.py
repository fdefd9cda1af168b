"""What is predicted for an example: one small class for each target, which the schema of a run holds.

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
    of_classes: ClassVar[str] = "classes"  # "… is a table (3 classes)"
    classes: tuple[str, ...] = ()
    label: str = ""  # the column of a table that holds it
    counts: tuple[int, ...] = ()  # training examples of each class, or words of each tag

    def __init_subclass__(cls, name: str, what: str) -> None:
        cls.name, cls.what = name, what

    def sizes(self) -> dict[str, Any]:
        """The settings of a system that it decides."""
        return {"num_classes": len(self.classes)} if self.classes else {}


class Nothing(Target, name="none", what="nothing"):
    """Data that is only read, generated or embedded."""


class Class(Target, name="class", what="a class"):
    """One class for each example."""


class Labels(Target, name="labels", what="labels"):
    """Classes of which an example may have several."""

    of_classes = "labels"


class Tags(Target, name="tags", what="a tag of every word"):
    """One class for each word."""

    of_classes = "tags"


@dataclass(frozen=True)
class Number(Target, name="number", what="a number"):
    """Learned as (value − mean) / std."""

    mean: float = 0.0
    std: float = 1.0

    def sizes(self) -> dict[str, Any]:
        return {"outputs": 1}

    def scaled(self, values: Any) -> Any:
        """As it is learned."""
        return (values - self.mean) / self.std

    def restored(self, values: Any) -> Any:
        """In the units of the data."""
        return values * self.std + self.mean


@dataclass(frozen=True)
class Span(Target, name="span", what="the part of a text that answers a question"):
    unanswerable: bool = False  # whether there are questions that the text does not answer


class Choice(Target, name="choice", what="the right one of several texts for a question"):
    """The index of a text."""


class Match(Target, name="match", what="the text that belongs to a text"):
    """The second text of a row, among all others."""


@dataclass(frozen=True)
class Score(Target, name="score", what="how alike two texts are"):
    """Learned as (score − low) / (high − low)."""

    low: float = 0.0
    high: float = 1.0

    def scaled(self, values: Any) -> Any:
        """From 0 to 1."""
        return (values - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Relevance(Target, name="relevance", what="the order of a query's documents"):
    """Learned from grades: 0 is not relevant."""

    highest: float = 0.0  # grade of the training examples
    shift: float = 0.0  # what is taken off the grades of the files, whose least is not 0

    def sizes(self) -> dict[str, Any]:
        whole = self.highest == int(self.highest)
        return {"grades": int(self.highest) + 1} if whole else {}


class NextToken(Target, name="next", what="the next token"):
    """Every token of a running text, from those before it."""


class HiddenTokens(Target, name="tokens", what="hidden tokens"):
    """Those tokens of a text that an objective of pre-training asks for."""


class OtherText(Target, name="sequence", what="another text"):
    """A translation, a pronunciation, an answer."""


TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        Nothing,
        Class,
        Labels,
        Tags,
        Number,
        Span,
        Choice,
        Match,
        Score,
        Relevance,
        NextToken,
        HiddenTokens,
        OtherText,
    )
}


def to_record(target: Target) -> dict[str, Any]:
    return {"name": target.name, **asdict(target)}


def from_record(record: dict[str, Any]) -> Target:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
    if (name := values.pop("name")) not in TARGETS:
        raise unknown("target", str(name), TARGETS)
    return TARGETS[name](**values)
