"""Framed tokens: labelled texts of any kind as sequences with the special tokens that a pre-trained network knows.

The kind decides the target: a class or a number for one text or two, tags of words (CoNLL), answers in documents
(SQuAD), one of several choices. The tokeniser is that of the network. Questions are split by article, since those of
one article share its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from canon.config import settings
from canon.data.batching.framed import FramedTexts, Values, objects
from canon.data.columns import class_names, listed
from canon.data.encodings.base import Ask, Encoding, Inputs, counted, finish, tokenizer_for
from canon.data.encodings.framing_rows import encode_choices, encode_spans, encode_tags, encode_texts
from canon.data.formats.cells import parse_number
from canon.data.formats.rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows, groups_of
from canon.data.formats.tables import Table, canonical
from canon.data.kinds import Kind
from canon.data.kinds.choices import CHOICES
from canon.data.kinds.examples import ExampleKind, ExampleSource
from canon.data.kinds.labelled import LABELLED
from canon.data.kinds.questions import QUESTIONS
from canon.data.kinds.tagged import TAGGED
from canon.data.records import Given
from canon.data.schema import Columns, Data, Schema, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Choice, Class, Number, Span, Tags, Target
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

OVERLAP = 128  # tokens that neighbouring windows of a document share, where they are long enough


class Backbone(NamedTuple):
    """What a pre-trained network asks of its texts (`Ask.start`)."""

    name: str  # a run, a folder, or a system, for sentences
    framing: str
    limit: int  # tokens of a sequence; 0: any
    tokenizer: Tokenizer | None = None  # None: one is made of the training texts
    kind: str = "wordpiece"  # of such a one, where data.tokenizer does not say
    note: str = ""  # what a user should know about it

    def tokenizer_or(self, config: Vocabulary, make: Callable[[str], tuple[Tokenizer, str]]) -> tuple[Tokenizer, str]:
        """Its tokeniser, or one that is made, of a kind; and a note about one that is new."""
        if self.tokenizer is None:
            return make(config.tokenizer or self.kind)
        if config.tokenizer:
            raise CanonError(f"{self.name} needs the tokenizer that it was trained with: leave data.tokenizer out.")
        return self.tokenizer, ""


@settings
class FramedSettings(Vocabulary, Length):
    """No settings of its own."""


@dataclass(frozen=True)
class FramedSchema(TokenSchema):
    """Its tokeniser is "text"."""

    encoding = "framed"
    framing: str = ""  # canon/data/text/framing.py: where special tokens stand
    limit: int = 0  # tokens of a sequence, special ones among them
    overlap: int = 0  # tokens that neighbouring windows of a long text share, for answers in documents
    columns: tuple[str, ...] = ()  # of a table: of the text, or of both texts
    monitor: str = ""  # the metric that the data set is judged by, if it has a special one

    def sizes(self) -> dict[str, Any]:
        return {**super().sizes(), "kind": self.target.name}

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        texts = columns["input"]
        assert isinstance(texts, FramedTexts)
        return texts.num_tokens, texts.num_tokens

    def shown(self, inputs: Any, row: int) -> str:
        """The first sequence of an example, as its tokeniser reads it back."""
        return self.tokenizers["text"].decode(inputs.sequence(inputs.starts_n[row]))

    def comparable(self) -> Schema:
        """Without the tokeniser and the frame, which each pre-trained network brings along."""
        return replace(self, tokenizers={}, framing="", limit=0, overlap=0, longest=(), typical=())


class FramedEncoding(Encoding):
    reads: ClassVar[tuple[ExampleKind, ...]] = (QUESTIONS, CHOICES, TAGGED, LABELLED)
    settings = FramedSettings
    schema = FramedSchema
    causes = (
        "another rate is needed: 1e-4 for small networks, 2e-5 for large ones (optimizer.lr, with warmup)",
        "the network may not be pre-trained, or on another language (train.init)",
        "the label may be another column (data.label), or too few texts have each label",
    )
    takes_text = True

    def kinds(self, ask: Ask) -> Sequence[Kind]:
        return [kind for kind in self.reads if set(kind.targets) & set(ask.targets)]

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Split and framed for the network that `ask.start` describes."""
        assert isinstance(source, ExampleSource)
        backbone: Backbone = ask.start
        source, target, parts, rule = divide(source, config, ask)
        tokenizer, note = backbone.tokenizer_or(
            config, lambda kind: tokenizer_for(kind, parts["train"].texts(), config, native=True)
        )
        schema = FramedSchema(
            _measured(target, parts),
            tokenizers={"text": tokenizer},
            framing=backbone.framing,
            limit=min(limit for limit in (backbone.limit, config.max_length) if limit),
            overlap=OVERLAP if isinstance(target, Span) else 0,
            columns=source.columns,
            monitor=source.monitor,
        )
        splits: dict[str, Columns] = {}
        task = f"The task: {target.what}."
        notes = ["" if task in source.notes else task, note, backbone.note]
        for name, part in parts.items():
            splits[name], more = columns_of(schema, part)
            notes += [f"{name}: {text}" for text in more]
        schema = schema.measured(splits["train"]["input"].lengths_S)  # type: ignore[union-attr]
        return finish(source, schema, splits, rule, config, notes)

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        assert isinstance(source, ExampleSource)
        return divide(source, replace(config, limit=0), ask)[1]

    # For a run that was trained

    def layout(self, schema: FramedSchema, config: Any) -> Any:
        plain = replace(super().layout(schema, config), limit=0, label="", features=())
        if isinstance(schema.target, Tags):
            return replace(plain, label=config.label, features=config.features)
        if isinstance(schema.target, Class | Number):
            return replace(plain, label=schema.target.label, features=schema.columns)
        return plain

    def columns(self, schema: FramedSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source.kind, ExampleKind)
        if type(schema.target) not in source.kind.targets:
            asked = source.kind.targets[0].what
            raise CanonError(f"The run predicts {schema.target.what}, but {source.name} is for {asked}.")
        return columns_of(schema, source.scored())[0]

    def kinds_of(self, schema: FramedSchema) -> Sequence[Kind]:
        return [kind for kind in self.reads if type(schema.target) in kind.targets]

    def inputs(self, schema: FramedSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        from canon.data.encodings.framed_inputs import read_rows

        rows, names = read_rows(schema, sources, config, text)
        return columns_of(schema, rows)[0], names

    def example(self, schema: FramedSchema, texts: tuple[str, ...]) -> Given | None:
        several = isinstance(schema.target, Span | Choice) or len(schema.columns) == 2
        return "\t".join(texts) if several else None

    def piped_ending(self, head: bytes) -> str:
        return ".jsonl" if head.lstrip().startswith(b"{") else ".txt"


FRAMED = FramedEncoding()


class Divided(NamedTuple):
    """A source in rows, before they are framed."""

    source: ExampleSource
    target: Target
    parts: dict[str, Rows]  # of train, valid and test
    rule: dict[str, str]  # how they were chosen


def divide(source: ExampleSource, config: Any, ask: Ask) -> Divided:
    """The rows of each split, without empty texts, and what is to be predicted of them."""
    if config.fold and Path(config.source).is_file():
        raise CanonError(
            f"{config.source} is one file, without data.fold = {config.fold}: leave it out; data.seed draws others."
        )
    source = _without_empty(source)
    target, codes = _target(source, ask)
    chosen, rule = choose(source, config, codes, groups=groups_of(source.parts["train"]))
    parts = {name: source.parts[part].take(taken) for name, (part, taken) in chosen.items()}
    return Divided(source, target, parts, rule)


def _without_empty(source: ExampleSource) -> ExampleSource:
    """Without texts that are empty."""
    parts, notes = dict(source.parts), list(source.notes)
    for name, rows in parts.items():
        if not isinstance(rows, TextRows):
            continue
        both = [rows.first] if rows.second is None else [rows.first, rows.second]
        filled = np.all([[bool(text.strip()) for text in texts] for texts in both], axis=0)
        if not filled.any():
            raise CanonError(f"{rows.path}: every text is empty.")
        if not filled.all():
            empty = np.flatnonzero(~filled)
            counted = f"{Path(rows.path).name}: {len(empty):,} of {len(rows):,} texts are empty and left out"
            notes.append(f"{counted} (the first: {rows.where(int(empty[0]))}).")
            parts[name] = rows.take(np.flatnonzero(filled))
    return replace(source, parts=parts, notes=tuple(notes))


def _target(source: ExampleSource, ask: Ask) -> tuple[Target, np.ndarray | None]:
    """What is to be predicted, and for classes the codes of the training part, by which splits are drawn."""
    assert isinstance(source.kind, ExampleKind)
    possible = [target for target in source.kind.targets if target in ask.targets]
    kind = Number if source.numeric and Number in possible else possible[0]
    train = source.parts["train"]
    if kind is Class:
        assert isinstance(train, TextRows)
        names = train.single() if train.soft is None else list(train.soft[0])
        classes = class_names(Table(train.path, {"label": np.array(names, dtype=object)}), "label")
        if len(classes) < 2:
            raise CanonError(f'{train.path}: every text has the label "{classes[0]}"; at least two classes are needed.')
        target = Class(classes, source.label)
        return target, codes_of(train, classes)
    if kind is Tags:
        return Tags(tuple(sorted({tag for sentence in train.tags or () for tag in sentence}))), None
    return (Number(label=source.label) if kind is Number else kind()), None


def _measured(target: Target, parts: dict[str, Rows]) -> Target:
    """With what is counted in the training split."""
    train = parts["train"]
    if isinstance(target, Span):
        parts_answers = (part.answers or () for part in parts.values() if isinstance(part, SpanRows))
        return replace(target, unanswerable=any(not answers for part in parts_answers for answers in part))
    if isinstance(train, TextRows):
        return counted(target, _labels_of(train, target))
    return counted(target, _tag_codes(train, target.classes)[0]) if isinstance(target, Tags) else target


# Targets


def _labels_of(rows: TextRows, target: Target) -> np.ndarray:
    return numbers_of(rows) if isinstance(target, Number) else codes_of(rows, target.classes)


def codes_of(rows: TextRows, classes: Sequence[str]) -> np.ndarray:
    place = {name: code for code, name in enumerate(classes)}
    labels = rows.single()
    codes = {text: place.get(text, place.get(canonical(text), -1)) for text in set(labels)}
    codes_n = np.array([codes[text] for text in labels], dtype=np.int64)
    if (codes_n < 0).any():
        row = int((codes_n < 0).argmax())
        known = f'label "{labels[row]}" is not one of {listed(classes)}'
        raise CanonError(f"{rows.path}, {rows.where(row)}: {known if labels[row].strip() else 'the label is empty'}.")
    return codes_n


def numbers_of(rows: TextRows) -> np.ndarray:
    labels = rows.single()
    values = [parse_number(text) for text in labels]
    for row, value in enumerate(values):
        if value is None or not np.isfinite(value):
            raise CanonError(f'{rows.path}, {rows.where(row)}: the label must be a number, got "{labels[row]}".')
    return np.array(values, dtype=np.float32)


def _tag_codes(rows: Rows, classes: Sequence[str]) -> tuple[np.ndarray, Counter[str]]:
    """Codes of all tags end to end, and how often tags come that training does not have; they are left out."""
    assert isinstance(rows, TagRows)
    place = {name: code for code, name in enumerate(classes)}
    every = [tag for sentence in rows.tags or () for tag in sentence]
    codes = np.array([place.get(tag, -1) for tag in every], dtype=np.int64)
    return codes[codes >= 0], Counter(tag for tag in every if tag not in place)


# Columns


def columns_of(schema: FramedSchema, rows: Rows) -> tuple[Columns, list[str]]:
    """Tokens, targets where there are labels, and what scoring needs; and notes."""
    tokenizer, size = schema.tokenizers["text"], len(rows)
    longer = f"longer than {schema.limit} tokens"
    columns: dict[str, Any] = {}
    notes: list[str] = []
    if isinstance(rows, TextRows):
        columns["input"], cut = encode_texts(tokenizer, schema, rows)
        if rows.labels is not None:
            columns["target"] = _labels_of(rows, schema.target)
        if rows.soft is not None:
            soft = [[row.get(name, 0.0) for name in schema.classes] for row in rows.soft]
            columns["soft"] = np.array(soft, dtype=np.float32)
        long = f"{cut:,} of {size:,} texts are {longer} and cut."
    elif isinstance(rows, ChoiceRows):
        columns["input"], cut = encode_choices(tokenizer, schema, rows)
        if rows.answers is not None:
            columns["target"] = np.array(rows.answers, dtype=np.int64)
        columns["choices"] = objects(list(zip(rows.names, rows.choices, strict=True)))
        long = f"{cut:,} choices are {longer} with their question and cut."
    elif isinstance(rows, SpanRows):
        columns["input"], columns["asked"], target, cut = encode_spans(tokenizer, schema, rows)
        if target is not None:
            columns["target"] = target
        long = f"{cut:,} of {size:,} questions have a text {longer}, read in windows."
    else:
        assert isinstance(rows, TagRows)
        columns["input"], cut = encode_tags(tokenizer, schema, rows)
        columns["words"] = objects([tuple(sentence) for sentence in rows.words])
        if rows.tags is not None:
            place = {name: code for code, name in enumerate(schema.classes)}
            codes = [place.get(tag, -1) for sentence in rows.tags for tag in sentence]
            lengths = np.array([len(sentence) for sentence in rows.tags], dtype=np.int64)
            columns["target"] = Values(np.array(codes, dtype=np.int64), lengths)
            columns["tags"] = objects([tuple(sentence) for sentence in rows.tags])
            notes += _unseen(rows, schema.classes)
        long = f"{cut:,} of {size:,} sentences are {longer} and read in parts."
    return columns, [*notes, long] if cut else notes


def _unseen(rows: TagRows, classes: Sequence[str]) -> list[str]:
    """A note on tags that training does not have."""
    if not (unseen := _tag_codes(rows, classes)[1]):
        return []
    if unseen.total() == sum(len(sentence) for sentence in rows.tags or ()):
        raise CanonError(f"{rows.path}: none of its tags is one that the run knows, {listed(classes)}.")
    shown = ", ".join(f"{tag} ({count})" for tag, count in unseen.most_common(5))
    return [f"{unseen.total():,} words have tags that training does not have and count as wrong: {shown}."]
