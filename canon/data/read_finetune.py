"""Labelled texts of any kind, for a pre-trained network to be fine-tuned on: read, guessed, split and framed.

What is asked is guessed from the format and the columns, and told in a note: a class or a number of one text or two
(tables, GLUE), tags of words (CoNLL), answers in documents (SQuAD), one of several choices (SWAG, OpenBookQA). The
tokeniser is the network's own. Questions are split by article, since those of one article share its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from canon.data import features
from canon.data.batching.framed import Values, objects
from canon.data.config import DataConfig
from canon.data.finetune_encode import encode_choices, encode_spans, encode_tags, encode_texts
from canon.data.finetune_open import Opened, open_labelled
from canon.data.finetune_rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.formats.tables import Table, canonical, parse_number
from canon.data.read import choose, finish
from canon.data.schema import Columns, Data, Reading, Schema
from canon.data.splits import hold_out
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

OVERLAP = 128  # tokens that neighbouring windows of a document share, where they are long enough


class Backbone(NamedTuple):
    """What a pre-trained network asks of its texts."""

    name: str  # a run, a folder, or a system, for sentences
    framing: str
    limit: int  # tokens of a sequence; 0: any
    tokenizer: Tokenizer | None = None  # None: one is made of the training texts
    kind: str = "wordpiece"  # of such a one, where data.tokenizer does not say


def read_finetune(config: DataConfig, backbone: Backbone, kind: str = "") -> Data:
    """Everything of `config.source`, split and framed for the network; `kind` is a wish."""
    opened = open_labelled(config, kind)
    rows = {name: opened.rows(name) for name in opened.source.parts}
    classes, codes = classes_of(opened, rows)
    chosen, rule = choose_rows(opened, config, codes)
    parts = {name: rows[part].take(taken) for name, (part, taken) in chosen.items()}
    tokenizer, note = _tokenizer(config, backbone, parts["train"])
    reading = _reading(opened, config, backbone, parts)
    schema = Schema("tokens", (), opened.kind, classes, opened.label, tokenizers={"text": tokenizer}, reading=reading)
    if classes:
        train = parts["train"]
        codes = codes_of(train, classes) if isinstance(train, TextRows) else _tag_codes(train, classes)[0]
        schema = replace(schema, counts=tuple(np.bincount(codes, minlength=len(classes)).tolist()))
    if opened.kind == "number":
        values = numbers_of(parts["train"]).astype(np.float64)
        schema = replace(schema, target_mean=float(values.mean()), target_std=float(values.std()) or 1.0)
    splits: dict[str, Columns] = {}
    notes = [note] if note else []
    for name, part in parts.items():
        splits[name], told = columns_of(schema, part)
        notes += [f"{name}: {text}" for text in told]
    lengths = splits["train"]["input"].lengths_S  # type: ignore[union-attr]
    schema = replace(schema, longest=(int(lengths.max()),), typical=(round(float(lengths.mean())),))
    return finish(opened.source, schema, splits, rule, config, notes)


def _reading(opened: Opened, config: DataConfig, backbone: Backbone, parts: dict[str, Rows]) -> Reading:
    spans = [part for part in parts.values() if isinstance(part, SpanRows)]
    return Reading(
        framing=backbone.framing,
        limit=min(limit for limit in (backbone.limit, config.max_length) if limit),
        overlap=OVERLAP if spans else 0,
        columns=opened.columns,
        monitor=opened.monitor,
        unanswerable=any(not own for part in spans for own in part.answers or ()),
    )


def _tokenizer(config: DataConfig, backbone: Backbone, train: Rows) -> tuple[Tokenizer, str]:
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


def classes_of(opened: Opened, rows: dict[str, Rows]) -> tuple[tuple[str, ...], np.ndarray | None]:
    """The classes or tags of the training part, and for classes its codes, by which splits are drawn."""
    train = rows["train"]
    if opened.kind == "class":
        assert isinstance(train, TextRows) and train.labels is not None
        cells = {"label": np.array(train.labels, dtype=object)}
        classes = features.class_names(Table(train.path, cells), "label")
        if len(classes) < 2:
            raise CanonError(f'{train.path}: every text has the label "{classes[0]}"; two classes are the least.')
        return classes, codes_of(train, classes)
    if isinstance(train, TagRows):
        return tuple(sorted({tag for sentence in train.tags or () for tag in sentence})), None
    return (), None


def codes_of(rows: TextRows, classes: Sequence[str]) -> np.ndarray:
    place = {name: code for code, name in enumerate(classes)}
    labels = rows.labels or ()
    codes = {text: place.get(text, place.get(canonical(text), -1)) for text in set(labels)}
    found = np.array([codes[text] for text in labels], dtype=np.int64)
    if (found < 0).any():
        row = int((found < 0).argmax())
        what = f'label "{labels[row]}" is not one of {features.listed(classes)}' if labels[row].strip() else "no label"
        raise CanonError(f"{rows.path}, {rows.where(row)}: {what}.")
    return found


def numbers_of(rows: Rows) -> np.ndarray:
    assert isinstance(rows, TextRows)
    found = [parse_number(text) for text in rows.labels or ()]
    for row, value in enumerate(found):
        if value is None or not np.isfinite(value):
            raise CanonError(f'{rows.path}, {rows.where(row)}: the label must be a number, got "{rows.labels[row]}".')  # type: ignore[index]
    return np.array(found, dtype=np.float32)


def _tag_codes(rows: Rows, classes: Sequence[str]) -> tuple[np.ndarray, Counter[str]]:
    """Codes of all tags end to end, and how often tags come that training does not have; they are left out."""
    assert isinstance(rows, TagRows)
    place = {name: code for code, name in enumerate(classes)}
    every = [tag for sentence in rows.tags or () for tag in sentence]
    codes = np.array([place.get(tag, -1) for tag in every], dtype=np.int64)
    return codes[codes >= 0], Counter(tag for tag in every if tag not in place)


def choose_rows(opened: Opened, config: DataConfig, codes: np.ndarray | None) -> tuple[dict, dict]:
    train = opened.rows("train")
    if not isinstance(train, SpanRows):
        return choose(opened.source, config, codes)
    return _choose_articles(opened, config, np.array(train.groups))


def _choose_articles(opened: Opened, config: DataConfig, groups_n: np.ndarray) -> tuple[dict, dict]:
    """As `choose`, but an article's questions stay together."""
    left = np.unique(groups_n)
    chosen: dict[str, tuple[str, np.ndarray]] = {}
    rule: dict[str, str] = {}
    test = config.test if isinstance(config.test, float) else opened.source.test
    for name, share in (("test", test), ("valid", config.valid)):
        if name in opened.source.parts:
            chosen[name] = name, np.arange(len(opened.source.parts[name]))
            origin = opened.source.origin
            rule[name] = f"file {origin[name]}" if name in origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            if len(left) < 2:
                raise CanonError(
                    f"{opened.source.name} has one article, so none can be held out: give files in data.valid and "
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


def columns_of(schema: Schema, rows: Rows) -> tuple[Columns, list[str]]:
    """Tokens, targets where there are labels, and what scoring needs; and notes."""
    assert schema.reading is not None
    reading, tokenizer, size = schema.reading, schema.tokenizers["text"], len(rows)
    longer = f"longer than {reading.limit} tokens"
    columns: dict[str, Any] = {}
    notes: list[str] = []
    if isinstance(rows, TextRows):
        columns["input"], cut = encode_texts(tokenizer, reading, rows)
        if rows.labels is not None:
            columns["target"] = numbers_of(rows) if schema.target == "number" else codes_of(rows, schema.classes)
        notes += [f"{cut:,} of {size:,} texts are {longer} and cut."] if cut else []
    elif isinstance(rows, ChoiceRows):
        columns["input"], cut = encode_choices(tokenizer, reading, rows)
        if rows.answers is not None:
            columns["target"] = np.array(rows.answers, dtype=np.int64)
        columns["choices"] = objects(list(zip(rows.names, rows.choices, strict=True)))
        notes += [f"{cut:,} choices are {longer} with their question and cut."] if cut else []
    elif isinstance(rows, SpanRows):
        columns["input"], columns["asked"], target, cut = encode_spans(tokenizer, reading, rows)
        if target is not None:
            columns["target"] = target
        notes += [f"{cut:,} of {size:,} questions have a text {longer}, read in windows."] if cut else []
    else:
        columns["input"], cut = encode_tags(tokenizer, reading, rows)
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
        raise CanonError(f"{rows.path}: none of its tags is one that the run knows, {features.listed(classes)}.")
    listed = ", ".join(f"{tag} ({count})" for tag, count in unseen.most_common(5))
    return [f"{unseen.total():,} words have tags that training does not have and count as wrong: {listed}."]
