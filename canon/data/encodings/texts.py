"""Texts to embed: each row has one, two or more, tokenised end to end, each in the frame that the network knows.

What is learned decides what is read of a row: which text belongs to a text (`Match`: the first two texts and others
that do not belong; of classes of inference the entailed and the contradicted one), how alike two are (`Score`), the
class of two (`Class`), or single texts (`Nothing`). A part that has scores keeps them whatever is learned, to be
judged by them.

| column | shape | meaning |
| --- | --- | --- |
| input | [n] rows of C texts | FramedTexts, a sequence for each text |
| keys | [n, C] | a number for each text, equal where texts are |
| target | [n] | the score, or the class |
| origin | [n] | the number of the file, where a part has several |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from canon.config import settings
from canon.data.batching.framed import FramedTexts
from canon.data.encodings.base import Ask, Encoding, Inputs, counted, finish, tokenizer_for
from canon.data.encodings.framed import Backbone
from canon.data.encodings.framing_rows import encode_texts
from canon.data.formats.rows import SentenceRows, TextRows, groups_of
from canon.data.kinds import Kind
from canon.data.kinds.sentences import SENTENCES, SentenceSource
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, Schema, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Class, Match, Nothing, Score, Target
from canon.errors import CanonError

_ENTAILED, _CONTRADICTED = ("entailment", "entailed", "0"), ("contradiction", "contradictory", "contradicted", "2")
_MOST_CLASSES = 20


@settings
class TextSettings(Vocabulary, Length):
    """No settings of its own."""


@dataclass(frozen=True)
class SentenceSchema(TokenSchema):
    """Its tokeniser is "text"."""

    encoding = "texts"
    framing: str = ""  # canon/data/text/framing.py: where special tokens stand
    limit: int = 0  # tokens of a text, special ones among them
    width: int = 1  # texts of a training row
    columns: tuple[str, ...] = ()  # of a table

    @property
    def overlap(self) -> int:
        return 0

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        texts = columns["input"]
        assert isinstance(texts, FramedTexts)
        return texts.num_tokens, texts.num_tokens

    def shown(self, inputs: Any, row: int) -> str:
        return self.tokenizers["text"].decode(inputs.sequence(inputs.starts_n[row]))

    def comparable(self) -> Schema:
        return replace(self, tokenizers={}, framing="", limit=0, longest=(), typical=())


class TextsEncoding(Encoding):
    reads: ClassVar[tuple[Kind, ...]] = (SENTENCES,)
    settings = TextSettings
    schema = SentenceSchema
    causes = (
        "another rate is needed: 1e-4 for small networks, 2e-5 for large ones (optimizer.lr, with warmup)",
        "the network may not be pre-trained (train.init), or a batch has too few examples to compare (train.batch)",
        "the texts of a row may not belong together (data.features)",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, SentenceSource)
        backbone: Backbone = ask.start
        target, parts, rule, notes = _divide(source, config, ask)
        tokenizer, note = backbone.tokenizer_or(
            config, lambda kind: tokenizer_for(kind, parts["train"].texts(), config, native=True)
        )
        schema = SentenceSchema(
            target,
            tokenizers={"text": tokenizer},
            framing=backbone.framing,
            limit=min(limit for limit in (backbone.limit, config.max_length) if limit),
            width=parts["train"].width,
            columns=source.columns,
        )
        splits: dict[str, Columns] = {}
        notes += [note, backbone.note]
        for name, part in parts.items():
            splits[name], more = columns_of(schema, part)
            notes += [f"{name}: {text}" for text in more]
        schema = schema.measured(splits["train"]["input"].lengths_S)  # type: ignore[union-attr]
        return finish(source, schema, splits, rule, config, notes, examples="Rows")

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        assert isinstance(source, SentenceSource)
        return _divide(source, replace(config, limit=0), ask)[0]

    def layout(self, schema: SentenceSchema, config: Any) -> Any:
        return replace(super().layout(schema, config), limit=0, label="", features=(), score_range=())

    def columns(self, schema: SentenceSchema, source: Source, config: Any) -> Columns:
        rows = source.scored()
        if rows.labels is not None:
            rows = rows if isinstance(schema.target, Class) else triples_of(rows)
        return columns_of(schema, _filled(rows)[0])[0]

    def inputs(self, schema: SentenceSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        from canon.data.encodings.texts_inputs import read_texts

        rows, names = read_texts(schema, sources, config, text)
        return columns_of(schema, rows)[0], names

    def accepted(self, schema: SentenceSchema, run: str) -> str:
        return f"{run} embeds texts and takes a text, a file, a dict, a data frame, a list of these"

    def piped_ending(self, head: bytes) -> str:
        return ".jsonl" if head.lstrip().startswith(b"{") else ".txt"


TEXTS = TextsEncoding()


def _divide(
    source: SentenceSource, config: Any, ask: Ask
) -> tuple[Target, dict[str, SentenceRows], dict[str, str], list[str]]:
    """What is learned, the rows of each split for it, how they were chosen, and notes."""
    notes: list[str] = []
    train = source.parts["train"]
    target = _target(train, ask, source, config)
    filled: dict[str, SentenceRows] = {}
    for name, rows in source.parts.items():
        shaped = _shaped(rows, target, keep_scores=name != "train")
        filled[name], note = _filled(shaped)
        notes += [note] if note else []
        if isinstance(target, Score) and filled[name].scores is not None:
            _check_range(filled[name], target)
    source = replace(source, parts=filled)
    train = filled["train"]
    codes = class_codes(train, target.classes) if isinstance(target, Class) else None
    chosen, rule = choose(source, config, codes, groups=groups_of(train))
    parts = {name: filled[part].take(taken) for name, (part, taken) in chosen.items()}
    if isinstance(target, Class):
        target = counted(target, class_codes(parts["train"], target.classes))
    if isinstance(target, Match | Nothing) and (note := _repeated(parts["train"], ask)):
        notes.append(note)
    if isinstance(target, Score):
        notes.append(f"Scores are from {target.low:g} to {target.high:g}; data.score_range says otherwise.")
    return target, parts, rule, notes


def _target(rows: SentenceRows, ask: Ask, source: SentenceSource, config: Any) -> Target:
    """What the rows have, if it is asked for; else what can be made of them."""
    natural: type[Target] = Nothing if rows.width == 1 else Match
    if rows.width == 2 and rows.scores is not None:
        natural = Score
    elif rows.width == 2 and rows.labels is not None:
        natural = Class
    kind = natural if natural in ask.targets else ask.targets[0]
    if kind is Match and rows.width < 2:
        raise CanonError(
            f"{rows.path} has one text in each row, but {_who(ask)} compares pairs that belong together: name two "
            'columns in data.features, or set objective.name = "simcse".'
        )
    if kind is Match and rows.scores is not None:
        raise CanonError(
            f"{rows.path} has scores, not pairs that all belong together: set objective.name to cosent or cosine."
        )
    if kind is Score and rows.scores is None:
        raise CanonError(
            f"{rows.path} has no column of scores, which {_who(ask)} learns from: name it in data.label, or set "
            'objective.name = "mnrl".'
        )
    if kind is Class and rows.labels is None:
        raise CanonError(f"{rows.path} has no column of classes, which {_who(ask)} learns from: name it in data.label.")
    if kind is Score:
        return _range(rows, source, config)
    if kind is Class:
        classes = tuple(sorted(set(rows.labels or ())))
        if not 2 <= len(classes) <= _MOST_CLASSES:
            raise CanonError(f'{rows.path}: the column "{source.label}" has {len(classes)} classes; 2 to 20 are taken.')
        return Class(classes, source.label)
    return kind()


def _who(ask: Ask) -> str:
    return f"the objective of {ask.system}"


def _repeated(rows: SentenceRows, ask: Ask) -> str:
    """A note on rows with the texts of earlier ones, which are not compared with those; they must not be all."""
    different = len(set(rows.sentences))
    if different < 2:
        raise CanonError(
            f"{rows.path} has no two rows with different texts to learn from, which {_who(ask)} compares with each "
            "other: give more texts."
        )
    if different == len(rows):
        return ""
    return (
        f"{len(rows) - different:,} of {len(rows):,} training rows have the texts of an earlier row, with which they "
        "are not compared."
    )


def _range(rows: SentenceRows, source: SentenceSource, config: Any) -> Score:
    """The declared range of scores, else the whole numbers around those of the training part."""
    assert rows.scores is not None
    if config.score_range:
        if len(config.score_range) != 2 or config.score_range[0] >= config.score_range[1]:
            raise CanonError(f"data.score_range must be two rising numbers, got {list(config.score_range)}.")
        low, high = config.score_range
    else:
        low, high = float(np.floor(np.min(rows.scores))), float(np.ceil(np.max(rows.scores)))
        if low == high:
            raise CanonError(f"{rows.path}: every score is {low:g}; scores that differ are needed.")
    target = Score(label=source.label, low=low, high=high)
    _check_range(rows, target)
    return target


def _check_range(rows: SentenceRows, target: Score) -> None:
    values = np.asarray(rows.scores)
    outside = (values < target.low) | (values > target.high)
    if outside.any():
        row = int(outside.argmax())
        raise CanonError(
            f"{rows.path}, {rows.where(row)}: the score {values[row]:g} is not between {target.low:g} and "
            f"{target.high:g} (data.score_range)."
        )


def _shaped(rows: SentenceRows, target: Target, keep_scores: bool = False) -> SentenceRows:
    """The rows as the target reads them; own: whether they keep scores of their own."""
    if keep_scores and rows.scores is not None and rows.width == 2:
        return rows
    if isinstance(target, Nothing):
        return replace(rows, sentences=[row[:1] for row in rows.sentences], scores=None, labels=None)
    if isinstance(target, Match) and rows.labels is not None:
        return triples_of(rows)
    return rows


def triples_of(rows: SentenceRows) -> SentenceRows:
    """(premise, entailed, contradicted): the first of each for every premise that has both; Gao et al. 2021, 4.1."""
    entailed: dict[str, tuple[str, int]] = {}
    contradicted: dict[str, str] = {}
    for row, ((first, second), label) in enumerate(zip(rows.sentences, rows.labels or (), strict=True)):
        if label.strip().lower() in _ENTAILED:
            entailed.setdefault(first, (second, row))
        elif label.strip().lower() in _CONTRADICTED:
            contradicted.setdefault(first, second)
    both = [(first, second, row) for first, (second, row) in entailed.items() if first in contradicted]
    if not both:
        raise CanonError(
            f"{rows.path} has no text with one that it entails and one that it contradicts, by its classes "
            f"{', '.join(sorted(set(rows.labels or ()))[:5])}."
        )
    sentences = [(first, second, contradicted[first]) for first, second, _ in both]
    places = [row for _, _, row in both]
    return SentenceRows(rows.path, lambda row: rows.where(places[row]), sentences)


def _filled(rows: SentenceRows) -> tuple[SentenceRows, str]:
    """Without rows of which a text is empty, and a note on them."""
    filled = np.array([all(text.strip() for text in row) for row in rows.sentences], dtype=bool)
    if filled.all():
        return rows, ""
    if not filled.any():
        raise CanonError(f"{rows.path}: every row has an empty text.")
    empty = np.flatnonzero(~filled)
    counted = f"{Path(rows.path).name}: {len(empty):,} of {len(rows):,} rows have an empty text and are left out"
    return rows.take(np.flatnonzero(filled)), f"{counted} (the first: {rows.where(int(empty[0]))})."


def class_codes(rows: SentenceRows, classes: Sequence[str]) -> np.ndarray:
    place = {name: code for code, name in enumerate(classes)}
    for row, label in enumerate(rows.labels or ()):
        if label not in place:
            listed = ", ".join(classes)
            raise CanonError(f'{rows.path}, {rows.where(row)}: the class "{label}" is not one of {listed}.')
    return np.array([place[label] for label in rows.labels or ()], dtype=np.int64)


def keys_of(texts: Sequence[str]) -> np.ndarray:
    """[n] a number for each text: the same in every process, and different for different texts."""
    digests = b"".join(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype=np.int64).copy()


def columns_of(schema: SentenceSchema, rows: SentenceRows) -> tuple[Columns, list[str]]:
    """Tokens, keys and targets of rows, and notes."""
    texts = rows.texts()
    width, size = rows.width, len(rows)
    flat, cut = encode_texts(schema.tokenizers["text"], schema, TextRows(rows.path, rows.where, texts))
    parts_n = np.full(size, width, dtype=np.int64)
    columns: dict[str, Any] = {
        "input": FramedTexts(flat.tokens_N, flat.segments_N, flat.lengths_S, parts_n),
        "keys": keys_of(texts).reshape(size, width),
    }
    if rows.scores is not None:
        columns["target"] = np.asarray(rows.scores, dtype=np.float32)
    elif rows.labels is not None and isinstance(schema.target, Class):
        columns["target"] = class_codes(rows, schema.target.classes)
    if len(rows.origins):
        columns["origin"] = np.unique(np.array(rows.origins), return_inverse=True)[1].astype(np.int64)
    note = f"{cut:,} of {len(texts):,} texts are longer than {schema.limit} tokens and cut."
    return columns, [note] if cut else []


def single(records: Records) -> list[tuple[str, ...]]:
    """One text for each of some rows: the column text, or the only one."""
    return [(text,) for text in records.texts(("text", "sentence"))]
