"""Framed tokens: labelled texts of any kind as sequences with the special tokens that a pre-trained network knows.

What is asked follows from the kind: a class or a number of one text or two, tags of words (CoNLL), answers in documents
(SQuAD), one of several choices. The tokeniser is the network's own. Questions are split by article, since those of one
article share its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from canon.config import settings
from canon.data.batching.framed import Texts, Values, objects
from canon.data.columns import class_names, listed
from canon.data.encodings.base import Ask, Encoding, finish, with_statistics
from canon.data.encodings.framing_rows import encode_choices, encode_spans, encode_tags, encode_texts
from canon.data.formats.cells import parse_number
from canon.data.formats.rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.formats.tables import Table, canonical
from canon.data.kinds import Kind
from canon.data.kinds.choices import CHOICES
from canon.data.kinds.examples import ExampleKind, ExampleSource
from canon.data.kinds.labelled import LABELLED
from canon.data.kinds.questions import QUESTIONS
from canon.data.kinds.tagged import TAGGED
from canon.data.schema import Columns, Data, Schema, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source
from canon.data.splits import Chosen, choose, hold_out
from canon.data.targets import Class, Number, Span, Tags, Target
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

if TYPE_CHECKING:
    import torch

    from canon.data.batching.loader import Order

OVERLAP = 128  # tokens that neighbouring windows of a document share, where they are long enough


class Backbone(NamedTuple):
    """What a pre-trained network asks of its texts (`Ask.start`)."""

    name: str  # a run, a folder, or a system, for sentences
    framing: str
    limit: int  # tokens of a sequence; 0: any
    tokenizer: Tokenizer | None = None  # None: one is made of the training texts
    kind: str = "wordpiece"  # of such a one, where data.tokenizer does not say


@settings
class FramedSettings(Vocabulary, Length):
    """No settings of its own."""


@dataclass(frozen=True)
class FramedSchema(TokenSchema):
    """Its tokeniser is "text"."""

    encoding = "framed"
    framing: str = ""  # canon/data/text/framing.py: where special tokens stand
    limit: int = 0  # tokens of a sequence, special ones among them
    overlap: int = 0  # tokens that neighbouring windows of a long text share, where an answer is looked for in it
    columns: tuple[str, ...] = ()  # of a table: of the text, or of both texts
    monitor: str = ""  # the metric that the data set is judged by, where it has one of its own

    def sizes(self) -> dict[str, Any]:
        return {**super().sizes(), "kind": self.target.name, "vocab_size": self.tokenizers["text"].size}

    def order(self, columns: Columns, batch: int, tokens: int, seed: int, device: torch.device | None = None) -> Order:
        if not tokens:
            return super().order(columns, batch, tokens, seed, device)
        from canon.data.batching.loader import ByLength

        texts = columns["input"]
        assert isinstance(texts, Texts)
        return ByLength(texts.num_tokens, texts.num_tokens, tokens, seed)

    def comparable(self) -> Schema:
        """How a pre-trained network reads its texts is its own affair."""
        return replace(self, tokenizers={}, framing="", limit=0, overlap=0, longest=(), typical=())


class FramedEncoding(Encoding):
    name = "framed"
    reads: ClassVar[tuple[ExampleKind, ...]] = (QUESTIONS, CHOICES, TAGGED, LABELLED)
    settings = FramedSettings
    schema = FramedSchema
    takes_text = True

    def kinds(self, ask: Ask) -> Sequence[Kind]:
        return [kind for kind in self.reads if set(kind.targets) & set(ask.targets)]

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Split and framed for the network that `ask.start` describes."""
        assert isinstance(source, ExampleSource)
        backbone: Backbone = ask.start
        source, target, parts, rule = divide(source, config, ask)
        tokenizer, note = _tokenizer(config, backbone, parts["train"])
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
        notes = ["" if task in source.notes else task, note]
        for name, part in parts.items():
            splits[name], more = columns_of(schema, part)
            notes += [f"{name}: {text}" for text in more]
        lengths = splits["train"]["input"].lengths_S  # type: ignore[union-attr]
        schema = replace(schema, longest=(int(lengths.max()),), typical=(round(float(lengths.mean())),))
        return finish(source, schema, splits, rule, config, notes)

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        assert isinstance(source, ExampleSource)
        try:
            _target(_without_empty(source), ask)
        except CanonError as mistake:
            return str(mistake)
        return ""

    # For a run that was trained

    def layout(self, schema: FramedSchema, config: Any) -> Any:
        plain = replace(super().layout(schema, config), limit=0, label="", features=())
        if isinstance(schema.target, Tags):
            return replace(plain, label=config.label)
        if isinstance(schema.target, Class | Number):
            return replace(plain, label=schema.target.label, features=schema.columns)
        return plain

    def columns(self, schema: FramedSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source.kind, ExampleKind)
        if type(schema.target) not in source.kind.targets:
            asked = source.kind.targets[0].what
            raise CanonError(f"The run predicts {schema.target.what}, but {source.name} is for {asked}.")
        return columns_of(schema, source.scored())[0]

    def inputs(
        self, schema: FramedSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        from canon.data.encodings.framed_inputs import read_rows

        rows, names = read_rows(schema, sources, config, text)
        return columns_of(schema, rows)[0], names


FRAMED = FramedEncoding()


class Divided(NamedTuple):
    """A source in rows, before they are framed."""

    source: ExampleSource
    target: Target
    parts: dict[str, Rows]  # of train, valid and test
    rule: dict[str, str]  # how they were chosen


def divide(source: ExampleSource, config: Any, ask: Ask) -> Divided:
    """The rows of each split, without empty texts, and what is to be predicted of them."""
    source = _without_empty(source)
    target, codes = _target(source, ask)
    chosen, rule = _choose(source, config, codes)
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
        cells = {"label": np.array(train.single(), dtype=object)}
        classes = class_names(Table(train.path, cells), "label")
        if len(classes) < 2:
            raise CanonError(f'{train.path}: every text has the label "{classes[0]}"; two classes are the least.')
        target = Class(classes, source.label)
        return target, codes_of(train, classes)
    if kind is Tags:
        return Tags(tuple(sorted({tag for sentence in train.tags or () for tag in sentence}))), None
    return (Number(label=source.label) if kind is Number else kind()), None


def _measured(target: Target, parts: dict[str, Rows]) -> Target:
    """With what is counted in the training split."""
    train = parts["train"]
    if isinstance(target, Number):
        return with_statistics(target, numbers_of(train))
    if isinstance(target, Span):
        answers = (part.answers or () for part in parts.values() if isinstance(part, SpanRows))
        return replace(target, unanswerable=any(not own for part in answers for own in part))
    if target.classes:
        codes = codes_of(train, target.classes) if isinstance(train, TextRows) else _tag_codes(train, target.classes)[0]
        return replace(target, counts=tuple(np.bincount(codes, minlength=len(target.classes)).tolist()))
    return target


def _tokenizer(config: Any, backbone: Backbone, train: Rows) -> tuple[Tokenizer, str]:
    if backbone.tokenizer is not None:
        if config.tokenizer:
            raise CanonError(f"data.tokenizer is left out: {backbone.name} has a tokenizer of its own, which it needs.")
        return backbone.tokenizer, ""
    kind = config.tokenizer or backbone.kind
    if kind.endswith(".json"):
        tokenizer = Tokenizer.load(Path(kind).expanduser(), native=True)
    else:
        tokenizer = Tokenizer.train(train.texts(), kind, config.vocab_size, config.lowercase, config.min_count)
    return tokenizer, f"The vocabulary ({kind}) has {tokenizer.size:,} tokens."


# Targets and splits


def codes_of(rows: TextRows, classes: Sequence[str]) -> np.ndarray:
    place = {name: code for code, name in enumerate(classes)}
    labels = rows.single()
    codes = {text: place.get(text, place.get(canonical(text), -1)) for text in set(labels)}
    found = np.array([codes[text] for text in labels], dtype=np.int64)
    if (found < 0).any():
        row = int((found < 0).argmax())
        what = f'label "{labels[row]}" is not one of {listed(classes)}' if labels[row].strip() else "no label"
        raise CanonError(f"{rows.path}, {rows.where(row)}: {what}.")
    return found


def numbers_of(rows: Rows) -> np.ndarray:
    assert isinstance(rows, TextRows)
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


def _choose(source: ExampleSource, config: Any, codes: np.ndarray | None) -> tuple[Chosen, dict[str, str]]:
    train = source.parts["train"]
    if not isinstance(train, SpanRows):
        return choose(source, config, codes)
    return _choose_articles(source, config, np.array(train.groups))


def _choose_articles(source: Source, config: Any, groups_n: np.ndarray) -> tuple[Chosen, dict[str, str]]:
    """As `choose`, but an article's questions stay together."""
    left = np.unique(groups_n)
    chosen: Chosen = {}
    rule: dict[str, str] = {}
    test = config.test if isinstance(config.test, float) else source.test
    for name, share in (("test", test), ("valid", config.valid)):
        if name in source.parts:
            chosen[name] = name, np.arange(len(source.parts[name]))
            origin = source.origin
            rule[name] = f"file {origin[name]}" if name in origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            if len(left) < 2:
                raise CanonError(
                    f"{source.name} has one article, so none can be held out: give files in data.valid and "
                    "data.test, or set them to 0.0."
                )
            kept, held = hold_out(len(left), share, config.seed, name)
            chosen[name] = "train", np.flatnonzero(np.isin(groups_n, left[held]))
            left = left[kept]
            rule[name] = f"{share:g} of the articles at random"
    rows = np.flatnonzero(np.isin(groups_n, left))
    if 0 < config.limit < len(rows):
        rows = rows[hold_out(len(rows), config.limit / len(rows), config.seed, "limit")[1]]
        rule["limit"] = str(config.limit)
    ordered = {"train": ("train", rows)} | {name: chosen[name] for name in ("valid", "test") if name in chosen}
    return {name: found for name, found in ordered.items() if len(found[1])}, rule


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
            columns["target"] = (
                numbers_of(rows) if isinstance(schema.target, Number) else codes_of(rows, schema.classes)
            )
        notes += [f"{cut:,} of {size:,} texts are {longer} and cut."] if cut else []
    elif isinstance(rows, ChoiceRows):
        columns["input"], cut = encode_choices(tokenizer, schema, rows)
        if rows.answers is not None:
            columns["target"] = np.array(rows.answers, dtype=np.int64)
        columns["choices"] = objects(list(zip(rows.names, rows.choices, strict=True)))
        notes += [f"{cut:,} choices are {longer} with their question and cut."] if cut else []
    elif isinstance(rows, SpanRows):
        columns["input"], columns["asked"], target, cut = encode_spans(tokenizer, schema, rows)
        if target is not None:
            columns["target"] = target
        notes += [f"{cut:,} of {size:,} questions have a text {longer}, read in windows."] if cut else []
    else:
        columns["input"], cut = encode_tags(tokenizer, schema, rows)
        columns["words"] = objects([tuple(sentence) for sentence in rows.words])
        if rows.tags is not None:
            place = {name: code for code, name in enumerate(schema.classes)}
            codes = [place.get(tag, -1) for sentence in rows.tags for tag in sentence]
            lengths = np.array([len(sentence) for sentence in rows.tags], dtype=np.int64)
            columns["target"] = Values(np.array(codes, dtype=np.int64), lengths)
            columns["tags"] = objects([tuple(sentence) for sentence in rows.tags])
            notes += _unseen(rows, schema.classes)
        notes += [f"{cut:,} of {size:,} sentences are {longer} and read in parts."] if cut else []
    return columns, notes


def _unseen(rows: TagRows, classes: Sequence[str]) -> list[str]:
    unseen = _tag_codes(rows, classes)[1]
    if not unseen:
        return []
    if unseen.total() == sum(len(sentence) for sentence in rows.tags or ()):
        raise CanonError(f"{rows.path}: none of its tags is one that the run knows, {listed(classes)}.")
    shown = ", ".join(f"{tag} ({count})" for tag, count in unseen.most_common(5))
    return [f"{unseen.total():,} words have tags that training does not have and count as wrong: {shown}."]
