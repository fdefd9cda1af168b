"""Files to documents (documents.py): texts and labels split, cut into words and numbered by the training split.

Labels are numbered by falling frequency in the training split, ties by the alphabet: fastText's order, which its
hierarchical softmax needs. The vocabulary is of the training split alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from canon.data import labelled
from canon.data.batching.documents import (
    LINE_END,
    Distinct,
    Documents,
    Labels,
    Numbers,
    hashes,
    numbered,
    unseen_sentence,
)
from canon.data.batching.sequences import offsets_of, places_of
from canon.data.checking.measure import ANY_HAN
from canon.data.config import DataConfig
from canon.data.features import choose_text
from canon.data.formats.files import ending, lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import canonical, read_table
from canon.data.labelled import SPACE, Labelled
from canon.data.open import file_of
from canon.data.read import SINGULAR, choose, finish
from canon.data.schema import Columns, Data, Schema
from canon.data.source import Source
from canon.data.text.words import Words
from canon.errors import CanonError

_cut_last: dict[tuple, tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]] = {}


def _cut_parts(
    source: Source, config: DataConfig, column: str, parts: dict[str, Labelled]
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[bytes]]:
    """The words of every part, by number, and the different words. The last one is kept: runs that follow each other on
    the same data (other seeds, other settings) need not cut it again."""
    files = tuple((record.name, record.sha256) for record in source.files)
    key = (files, tuple(parts), column, config.tokenizer, config.lowercase, config.encoding, config.delimiter)
    if key not in _cut_last:
        numbers = Numbers()
        how = config.tokenizer or "split", config.lowercase
        found = {name: numbered(part.texts, *how, numbers) for name, part in parts.items()}
        _cut_last.clear()
        _cut_last[key] = found, list(numbers)
    return _cut_last[key]


def read_documents(config: DataConfig) -> Data:
    """Everything of `config.source`, split, cut into words and numbered."""
    source = labelled.open_documents(config)
    parts, label, column, notes = _labelled_parts(source, config)
    train = parts["train"]
    names = {name: code for code, name in enumerate(train.names())}
    single = all(len(row) == 1 for row in train.labels)
    codes = np.array([names[row[0]] for row in train.labels]) if single else None
    chosen, rule = choose(source, config, codes)
    counted = train.counts(chosen["train"][1].tolist())
    classes = tuple(sorted(counted, key=lambda name: (-counted[name], name)))
    if len(classes) < 2:
        raise CanonError(f'{train.path}: every example has the label "{classes[0]}"; two labels are the least.')
    cut, distinct = _cut_parts(source, config, column, parts)
    words, ids = _vocabulary(cut["train"], chosen["train"][1], distinct, config, train)
    table = Distinct(distinct, ids, hashes(distinct))
    splits: dict[str, Columns] = {}
    for name, (part, rows) in chosen.items():
        target, told = _targets(parts[part], rows, classes)
        splits[name] = {"input": Documents(*cut[part], table).take(rows), "target": target}
        notes += [f"{name}: {told}"] if told else []
    notes.append(f"The vocabulary ({config.tokenizer or 'split'}) has {words.size:,} words, </s> among them.")
    if not single:
        mean = sum(len(row) for row in train.labels) / len(train)
        notes.append(f"An example has {mean:.2f} labels on average, of {len(classes):,}.")
    schema = Schema("document", (), "labels", classes, label, words=words, text=column)
    return finish(source, schema, splits, rule, config, [*notes, *_remarks(train, config)])


def _labelled_parts(
    source: Source, config: DataConfig, texts: bool = True
) -> tuple[dict[str, Labelled], str, str, list[str]]:
    """Texts and labels of each part; the label's and the text's column, "" for lines; and notes."""
    if source.kind == "document":
        return {name: part.inputs for name, part in source.parts.items()}, "", "", []
    if source.kind != "features":
        what = f"{source.name} is {SINGULAR[source.kind]}, not texts with labels"
        raise CanonError(f"{what}; give a table with a column of text and a label, or lines as fastText has them.")
    tables = {name: part.inputs for name, part in source.parts.items()}
    wishes = config.label or source.label, config.features or source.features
    label, column, note = labelled.choose_columns(tables["train"], *wishes)
    how = label, column, config.label_separator, texts
    parts = {name: labelled.from_table(table, *how) for name, table in tables.items()}
    labelled.refuse_too_many(parts["train"], label)
    return parts, label, column, [*filter(None, [note]), f'The text is the column "{column}".']


def verdict(source: Source, config: DataConfig) -> str:
    """ "" if the source has texts and labels to learn from, else the sentence that says why not."""
    try:
        names = _labelled_parts(source, config, texts=False)[0]["train"].names()
    except CanonError as mistake:
        return str(mistake)
    return "" if len(names) > 1 else f'{source.name}: every example has the label "{names[0]}".'


def _vocabulary(
    cut: tuple[np.ndarray, np.ndarray], rows: np.ndarray, distinct: Sequence[bytes], config: DataConfig, train: Labelled
) -> tuple[Words, np.ndarray]:
    """The words of the training split that are frequent enough, the most frequent ones of them; and the row of each
    different word among them, −1 for none."""
    codes_N, lengths_n = cut
    places, _ = places_of(offsets_of(lengths_n), rows)
    counts = np.bincount(codes_N[places], minlength=len(distinct))
    if (lengths_n[rows] == 1).all():  # nothing but </s>
        raise CanonError(f"{train.path}: every text is empty.")
    kept = np.flatnonzero(counts >= config.min_count)
    # By falling count, ties by the alphabet; UTF-8 sorts as its code points do.
    kept = kept[np.argsort(np.array([distinct[code] for code in kept.tolist()], dtype=object), kind="stable")]
    kept = kept[np.argsort(-counts[kept], kind="stable")][: config.vocab_size or None]
    if not any(distinct[code] != LINE_END for code in kept.tolist()):
        raise CanonError(f"{train.path}: no word comes {config.min_count:,} times; give a smaller data.min_count.")
    ids = np.full(len(distinct), -1, dtype=np.int32)
    ids[kept] = np.arange(len(kept), dtype=np.int32)
    return Words([distinct[code].decode() for code in kept.tolist()], counts[kept], int(counts.sum())), ids


def _targets(part: Labelled, rows: np.ndarray, classes: Sequence[str]) -> tuple[np.ndarray | Labels, str]:
    """The label numbers of some rows, as classes where each has one; and a sentence about labels that are none."""
    place = {name: code for code, name in enumerate(classes)}
    counted = part.counts(rows.tolist())
    codes = {name: place.get(name, place.get(canonical(name), -1)) for name in counted}
    own = [part.labels[row] for row in rows.tolist()]
    lengths = np.fromiter(map(len, own), dtype=np.int64, count=len(own))
    flat = np.fromiter(map(codes.__getitem__, chain.from_iterable(own)), dtype=np.int64, count=int(lengths.sum()))
    known = flat >= 0
    unseen = sorted((item for item in counted.items() if codes[item[0]] < 0), key=lambda item: (-item[1], item[0]))
    lengths = np.bincount(np.repeat(np.arange(len(own)), lengths)[known], minlength=len(own))
    found = Labels(flat[known], lengths, tuple(unseen))
    if not unseen and (lengths == 1).all():
        return found.flat, ""
    return found, unseen_sentence(found)


def _remarks(train: Labelled, config: DataConfig) -> list[str]:
    """What a user should know of the texts: empty ones, and Chinese that nobody cut into words."""
    found = []
    empty = sum(not text.strip(SPACE) for text in train.texts)
    if empty:
        found.append(f"{empty:,} of {len(train):,} texts are empty; their only word is </s>.")
    some = train.texts[:: max(len(train) // 200, 1)]
    uncut = sum(bool(ANY_HAN.search(text)) and text.count(" ") * 10 < len(text) for text in some)
    if (config.tokenizer or "split") == "split" and uncut * 2 > len(some):
        found.append('The texts are Chinese without spaces between words; data.tokenizer = "jieba" cuts them.')
    return found


# More data for a trained run


def _encoded(texts: Sequence[str], words: Words, config: DataConfig) -> Documents:
    numbers = Numbers()
    cut = numbered(texts, config.tokenizer or "split", config.lowercase, numbers)
    return Documents(*cut, Distinct.of(list(numbers), words))


def read_labelled_documents(schema: Schema, path: str, config: DataConfig) -> Columns:
    """Documents and labels of other data (its test part, where it has one), to evaluate a run on."""
    source = labelled.open_documents(replace(config, source=path, format="auto", valid=0.0, test=0.0))
    own = replace(config, label=schema.label or config.label, features=(schema.text,) if schema.text else ())
    parts, _, _, _ = _labelled_parts(source, own)
    part = parts.get("test") or parts["train"]
    target, _ = _targets(part, np.arange(len(part)), schema.classes)
    assert schema.words is not None
    return {"input": _encoded(part.texts, schema.words, config), "target": target}


def encode_documents(
    schema: Schema, sources: Sequence[str], config: DataConfig, text: bool = False
) -> tuple[Columns, list[str]]:
    """Texts to predict: a table's column, the lines of a file (labels in them are passed over), or what is given."""
    texts: list[str] = []
    names: list[str] = []
    for source in sources:
        path = file_of(source, text)
        if path is None:
            texts.append(source)
            names.append(source[:60])
            continue
        if ending(path) in TABLES:
            table = read_table(path, config)
            column = schema.text or choose_text(table, config.features, "")
            if column not in table.names:
                raise CanonError(f'{path} has no column "{column}", which is the text.')
            found, what = table.texts(column).tolist(), "row"
        else:
            found, what = [labelled.without_labels(line) for line in lines(path, config.encoding)], "line"
        texts += found
        names += [f"{path}, {what} {index + 1}" for index in range(len(found))]
    if not texts:
        raise CanonError(f"{', '.join(sources)}: there is no text.")
    assert schema.words is not None
    return {"input": _encoded(texts, schema.words, config)}, names
