"""`read`: a named set, a file or a folder to train, valid and test columns and the schema that tells what they are.

What is measured for encoding (means, standard deviations, categories) is measured on the training split alone, after
the split was made. The split itself: a file given in data.valid or data.test, else the source's own, else a share
drawn by data.seed (splits.py; running text: the last documents, so that no page is on both sides).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from canon.data import features
from canon.data.batching.sequences import Ragged, Windows, lined
from canon.data.catalogue import CATALOGUE
from canon.data.config import DataConfig
from canon.data.formats.tables import Table
from canon.data.open import open_path, open_source
from canon.data.schema import Column, Columns, Data, Schema, TargetKind
from canon.data.source import Part, Source
from canon.data.splits import held_count, hold_out
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.data.formats.pairs import Pairs
    from canon.data.text.tokenizers import Tokenizer
    from canon.data.text.words import Words

PLURAL = {
    "features": "tables",
    "image": "images",
    "text": "text",
    "pairs": "pairs of texts",
    "corpus": "running text",
    "document": "texts with labels",
    "tokens": "texts with labels",
    "passages": "running text",
}
SINGULAR = {
    "features": "a table",
    "image": "a set of images",
    "text": "text",
    "pairs": "a set of pairs of texts",
    "corpus": "running text",
    "document": "texts with labels",
    "tokens": "texts with labels",
    "passages": "running text",
}
Chosen = dict[str, tuple[str, np.ndarray]]  # split -> (part, rows of it)


def read(
    config: DataConfig,
    inputs: Sequence[str],
    target: TargetKind,
    system: str = "this system",
    keep: Words | None = None,
) -> Data:
    """Everything of `config.source`, split and ready; `inputs` are the kinds of data that `system` reads.

    keep: of word vectors that go on from earlier ones, the words of these.
    """
    if "corpus" in inputs:
        from canon.data.read_corpus import read_corpus

        return read_corpus(config, system, keep)
    if "document" in inputs:
        from canon.data.read_documents import read_documents

        return read_documents(config)
    if "passages" in inputs:
        from canon.data.read_passages import read_passages

        return read_passages(config, system)
    if "pairs" in inputs and config.format == "auto" and config.source not in CATALOGUE:
        config = replace(config, format="pairs")  # a table is then one of two texts
    return prepare(with_given_parts(open_source(config), config), config, inputs, target, system)


def prepare(
    source: Source, config: DataConfig, inputs: Sequence[str], target: TargetKind, system: str = "this system"
) -> Data:
    """`read` for a source that is open already."""
    if target == "any":
        labelled = len(source.classes) > 1 and all(part.labels is not None for part in source.parts.values())
        target = "class" if labelled else "none"
    if source.kind == "features" and "features" not in inputs and "text" in inputs:
        return (
            _read_windows(_documents(source, config), config)
            if target == "next"
            else _read_text_table(source, config, target)
        )
    if source.kind not in inputs:
        wanted = " or ".join(PLURAL[kind] for kind in inputs)
        name = system[0].upper() + system[1:] if system == "this system" else system
        raise CanonError(f"{name} reads {wanted}, but {source.name} is {SINGULAR[source.kind]}.")
    if source.kind == "text" and target == "next":
        return _read_windows(source, config)
    if source.kind == "pairs":
        return _read_pairs(source, config)
    reader = {"features": _read_table, "image": _read_images, "text": _read_text}[source.kind]
    return reader(source, config, target)


def examine(source: Source, config: DataConfig, inputs: Sequence[str], target: TargetKind) -> None:
    """The sentence that `prepare` of a table would end with, if any, without making its columns."""
    assert source.kind == "features"
    if "features" not in inputs:
        _plan_text_table(source, config, target)
        return
    plan = _plan_table(source, config, target)
    train, rows = source.parts["train"].inputs, plan.chosen["train"][1]
    categories = {name for name in plan.names if features.is_category(train, name, rows, config.missing)}
    for part in source.parts.values():
        features.refuse(part.inputs, plan.names, categories, config.missing)


def with_given_parts(source: Source, config: DataConfig) -> Source:
    """The source with the files of data.valid and data.test in place of its own parts."""
    for name, given in (("valid", config.valid), ("test", config.test)):
        if isinstance(given, str) and given:
            other = open_path(Path(given).expanduser(), replace(config, valid=0.0, test=0.0), source)
            if other.kind != source.kind or other.white != source.white:
                raise CanonError(f"data.{name}: {given} is not the same kind of data as {source.name}.")
            part = other.parts.get(name) or other.parts["train"]
            files = {record.name: record for record in (*source.files, *other.files)}
            origin = {**source.origin, name: Path(given).name}
            source = replace(source, parts={**source.parts, name: part}, files=tuple(files.values()), origin=origin)
    return source


def choose(source: Source, config: DataConfig, classes: np.ndarray | None, tail: bool = False) -> tuple[Chosen, dict]:
    """Which rows of which part make each split, and the rule that says so."""
    chosen: Chosen = {}
    rule: dict[str, str] = {}
    rows = np.arange(len(source.parts["train"]))
    test_share = config.test if isinstance(config.test, float) else source.test
    for name, share in (("test", test_share), ("valid", config.valid)):
        if name in source.parts:
            chosen[name] = name, np.arange(len(source.parts[name]))
            rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        elif isinstance(share, float) and share > 0:
            kept, held = _tail(len(rows), share) if tail else _draw(rows, share, config.seed, name, classes)
            chosen[name] = "train", rows[held]
            rows = rows[kept]
            rule[name] = (
                f"the last {share:g}" if tail else f"{share:g} {'at random' if classes is None else 'of each class'}"
            )
    if 0 < config.limit < len(rows):
        drawn = _draw(rows, config.limit / len(rows), config.seed, "limit", classes)[1]
        rows = rows[: config.limit] if tail else rows[drawn]
        rule["limit"] = str(config.limit)
    ordered = {"train": ("train", rows)} | {name: chosen[name] for name in ("valid", "test") if name in chosen}
    return {name: (part, taken) for name, (part, taken) in ordered.items() if len(taken)}, rule


def _draw(
    rows: np.ndarray, share: float, seed: int, name: str, classes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    return hold_out(len(rows), share, seed, name, None if classes is None else classes[rows])


def _tail(num_examples: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    held = held_count(num_examples, share)
    return np.arange(num_examples - held), np.arange(num_examples - held, num_examples)


def finish(
    source: Source, schema: Schema, splits: dict[str, Columns], rule: dict, config: DataConfig, notes: list[str]
) -> Data:
    sizes = {name: len(next(iter(columns.values()))) for name, columns in splits.items()}
    protocol: dict[str, Any] = {
        "source": source.name,
        **source.origin,
        "split": rule,
        "seed": config.seed,
        "sizes": sizes,
    }
    how = "; ".join(f"{name}: {text}" for name, text in rule.items())
    counted = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    said = (*source.notes, *(note for note in notes if note), f"Examples: {counted}{f' ({how})' if how else ''}.")
    return Data(source.name, schema, splits, source.files, said, protocol)


# Tables


def _targets(tables: dict[str, Table], label: str, target: TargetKind) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The target column of each part, and the classes (those of the training part)."""
    if target == "none":
        return {}, ()
    for table in tables.values():
        if label not in table:
            raise CanonError(f'{table.path} has no column "{label}", which is the label.')
    if target == "number":
        return {name: features.number_targets(table, label) for name, table in tables.items()}, ()
    classes = features.class_names(tables["train"], label)
    codes = {name: features.class_codes(table, label, classes) for name, table in tables.items()}
    if len(classes) < 2:
        raise CanonError(f'{tables["train"].path}: every row has the label "{classes[0]}"; two classes are the least.')
    return codes, classes


def _with_target(schema: Schema, targets: dict[str, np.ndarray], chosen: Chosen) -> Schema:
    if not targets:
        return schema
    part, rows = chosen["train"]
    if schema.target != "number":
        return replace(schema, counts=tuple(np.bincount(targets[part][rows], minlength=len(schema.classes)).tolist()))
    values = targets[part][rows].astype(np.float64)
    return replace(schema, target_mean=float(values.mean()), target_std=float(values.std()) or 1.0)


class _Plan(NamedTuple):
    """Which columns of a table are read, which rows make each split, and the targets of all."""

    names: tuple[str, ...]  # of features, or of the one text
    label: str
    note: str
    targets: dict[str, np.ndarray]
    classes: tuple[str, ...]
    chosen: Chosen
    rule: dict[str, str]


def _plan_table(source: Source, config: DataConfig, target: TargetKind) -> _Plan:
    tables = {name: part.inputs for name, part in source.parts.items()}
    label, note = label_of(source, config, target)
    names = features.choose_features(tables["train"], config.features or source.features, label)
    targets, classes = _targets(tables, label, target)
    chosen, rule = choose(source, config, targets["train"] if target == "class" else None)
    return _Plan(names, label, note, targets, classes, chosen, rule)


def _read_table(source: Source, config: DataConfig, target: TargetKind) -> Data:
    tables = {name: part.inputs for name, part in source.parts.items()}
    names, label, note, targets, classes, chosen, rule = _plan_table(source, config, target)
    encoders = features.fit(tables["train"], names, chosen["train"][1], config.missing)
    encoded = {name: features.apply(table, encoders, config.missing) for name, table in tables.items()}
    splits: dict[str, Columns] = {}
    for name, (part, rows) in chosen.items():
        splits[name] = {"input": encoded[part][rows], **({"target": targets[part][rows]} if targets else {})}
    schema = Schema("features", (encoded["train"].shape[1],), target, classes, label, encoders)
    return finish(source, _with_target(schema, targets, chosen), splits, rule, config, [note])


def label_of(source: Source, config: DataConfig, target: TargetKind) -> tuple[str, str]:
    """The label's column and a note; "" where nothing is to be predicted and none was named."""
    table: Table = source.parts["train"].inputs
    if target == "none":
        wanted = config.label or source.label
        return (table.require(wanted, "data.label"), f'The column "{wanted}" is left out.') if wanted else ("", "")
    return features.choose_label(table, config.label or source.label)


# Images


def _read_images(source: Source, config: DataConfig, target: TargetKind) -> Data:
    from canon.data.formats.images import load, pixel_statistics

    labels = {name: part.labels for name, part in source.parts.items() if part.labels is not None}
    targets: dict[str, np.ndarray] = {}
    if target != "none":
        if set(labels) != set(source.parts):
            raise CanonError(f"{source.name} has images but no labels.")
        if target == "class" and len(source.classes) < 2:
            raise CanonError(f'{source.name}: every image is of the class "{source.classes[0]}"; two are the least.')
        targets = labels if target == "class" else _image_numbers(source, labels)
    chosen, rule = choose(source, config, labels.get("train") if target == "class" else None)
    splits: dict[str, Columns] = {}
    for name, (part, rows) in chosen.items():
        inputs = source.parts[part].inputs
        taken: np.ndarray | Column = inputs[rows] if isinstance(inputs, np.ndarray) else load(inputs.subset(rows), name)
        splits[name] = {"input": taken, **({"target": targets[part][rows]} if targets else {})}
    images: np.ndarray | Column = splits["train"]["input"]
    notes = []
    mean: tuple[float, ...]
    std: tuple[float, ...]
    if source.white != 255:  # not measured, so that the network sees 0 to 1
        mean, std = (0.0,), (float(source.white),)
    else:
        mean, std, note = pixel_statistics(images, config.seed)
        notes.append(note)
    classes = source.classes if target == "class" else ()
    schema = Schema("image", tuple(images.shape[1:]), target, classes, mean=mean, std=std, white=source.white)
    return finish(source, _with_target(schema, targets, chosen), splits, rule, config, notes)


def _image_numbers(source: Source, labels: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        values = np.array([float(name) for name in source.classes], dtype=np.float32)
    except ValueError:
        raise CanonError(
            f"{source.name} has classes ({features.listed(source.classes)}), not numbers to predict."
        ) from None
    return {name: values[codes] for name, codes in labels.items()}


# Text


def _read_text(source: Source, config: DataConfig, target: TargetKind) -> Data:
    if target != "none":
        raise CanonError(f"{source.name} is text without labels; give a table with a text column and a label.")
    chosen, rule = choose(source, config, None, tail=True)
    texts = {name: _objects(part.inputs) for name, part in source.parts.items()}
    splits: dict[str, Columns] = {name: {"input": texts[part][rows]} for name, (part, rows) in chosen.items()}
    return finish(source, Schema("text", ()), splits, rule, config, [])


def _plan_text_table(source: Source, config: DataConfig, target: TargetKind) -> _Plan:
    """A table for a system that reads text: one column of text and, where something is to be predicted, a label."""
    tables = {name: part.inputs for name, part in source.parts.items()}
    label, note = label_of(source, config, target)
    column = features.choose_text(tables["train"], config.features or source.features, label)
    targets, classes = _targets(tables, label, target)
    chosen, rule = choose(source, config, targets["train"] if target == "class" else None)
    for part, _ in chosen.values():
        if column not in tables[part]:
            raise CanonError(f'{tables[part].path} has no column "{column}", which is the text.')
    return _Plan((column,), label, note, targets, classes, chosen, rule)


def _read_text_table(source: Source, config: DataConfig, target: TargetKind) -> Data:
    (column,), label, note, targets, classes, chosen, rule = _plan_text_table(source, config, target)
    splits: dict[str, Columns] = {}
    for name, (part, rows) in chosen.items():
        texts = source.parts[part].inputs.texts(column)[rows]
        splits[name] = {"input": texts, **({"target": targets[part][rows]} if targets else {})}
    schema = _with_target(Schema("text", (), target, classes, label), targets, chosen)
    return finish(source, schema, splits, rule, config, [note, f'The text is the column "{column}".'])


def _documents(source: Source, config: DataConfig) -> Source:
    """The text column of a table as documents."""
    label = config.label or source.label
    column = features.choose_text(source.parts["train"].inputs, config.features or source.features, label)
    parts = {name: Part(part.inputs.texts(column).tolist()) for name, part in source.parts.items()}
    return replace(source, kind="text", parts=parts, notes=(*source.notes, f'The text is the column "{column}".'))


def _read_windows(source: Source, config: DataConfig) -> Data:
    """Running text for a language model: one long row of tokens, cut into windows."""
    chosen, rule = choose(source, config, None, tail=True)
    texts = {name: [source.parts[part].inputs[row] for row in rows] for name, (part, rows) in chosen.items()}
    tokenizer, note = tokenizer_for(config.tokenizer, source.tokenizers[:1], texts["train"], config)
    splits: dict[str, Columns] = {}
    for name, documents in texts.items():
        tokens = lined(tokenizer, documents)
        if len(tokens) < 2:
            raise CanonError(f"The {name} split of {source.name} has {len(tokens)} tokens; two are the least.")
        splits[name] = {"input": Windows(tokens, config.window)}
    schema = Schema("text", (), "next", tokenizers={"text": tokenizer})
    counted = ", ".join(f"{len(columns['input'].tokens):,} {name}" for name, columns in splits.items())  # type: ignore[union-attr]
    return finish(source, schema, splits, rule, config, [note, f"Tokens: {counted}."])


def _read_pairs(source: Source, config: DataConfig) -> Data:
    """Sentences and what they become, for a system that turns one into the other."""
    chosen, rule = choose(source, config, None)
    pairs = {name: source.parts[part].inputs.take(rows) for name, (part, rows) in chosen.items()}
    train = pairs["train"]
    own = source.tokenizers
    kind = config.tokenizer or (own[0] if own else "")
    target_kind = config.target_tokenizer or (own[1] if len(own) > 1 and not config.tokenizer else "")
    if target_kind:
        first, note = tokenizer_for(kind, (), train.source, config, "source ")
        second, more = tokenizer_for(target_kind, (), train.target, config, "target ")
        notes = [note, more]
    else:
        first, note = tokenizer_for(kind, (), [*train.source, *train.target], config, "shared ")
        second, notes = first, [note]
    splits: dict[str, Columns] = {}
    for name, part in pairs.items():
        columns = pair_columns(first, second, part, scored=name != "train")
        fits = np.all([columns[name].lengths <= config.max_length for name in ("input", "target")], axis=0)  # type: ignore[union-attr]
        if name == "train" and not fits.all():
            kept = np.flatnonzero(fits)
            if not len(kept):
                raise CanonError(f"{source.name}: every pair is longer than data.max_length = {config.max_length}.")
            notes.append(f"{len(fits) - len(kept):,} pairs over {config.max_length} tokens are left out.")
            columns = {name: c[kept] if isinstance(c, np.ndarray) else c.take(kept) for name, c in columns.items()}
        splits[name] = columns
    lengths = [splits["train"][column].lengths for column in ("input", "target")]  # type: ignore[union-attr]
    schema = Schema(
        "pairs",
        (),
        "sequence",
        longest=tuple(int(side.max()) for side in lengths),
        typical=tuple(round(float(side.mean())) for side in lengths),
        tokenizers={"source": first, "target": second},
    )
    return finish(source, schema, splits, rule, config, notes)


def pair_columns(source: Tokenizer, target: Tokenizer, pairs: Pairs, scored: bool = True) -> Columns:
    """Tokens of both sides; and, where they will be scored, the right answers as they stand in the data: what a
    tokeniser gives back may lack a character, a space or capitals."""
    columns: dict[str, Any] = {
        "input": Ragged.encode(source, pairs.source),
        "target": Ragged.encode(target, pairs.target, bos=True),
    }
    references = pairs.references
    if references is None and scored:
        references = [(text,) for text in pairs.target]
    if references is not None:
        columns["references"] = _objects(references)
    return columns


def tokenizer_for(
    kind: str, own: Sequence[str], texts: Sequence[str], config: DataConfig, whose: str = ""
) -> tuple[Tokenizer, str]:
    """A tokeniser trained on the training texts, or read from a file; and a note that tells its size."""
    from canon.data.text.tokenizers import Tokenizer

    kind = kind or (own[0] if own else "bpe")
    if kind.endswith(".json"):
        tokenizer = Tokenizer.load(Path(kind).expanduser())
    else:
        tokenizer = Tokenizer.train(texts, kind, config.vocab_size, config.lowercase, config.min_count)
    return tokenizer, f"The {whose}vocabulary ({kind}) has {tokenizer.size:,} tokens."


def _objects(values: Sequence[Any]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # a slice would unpack values that are tuples
        column[row] = value
    return column
