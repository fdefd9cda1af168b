"""Steps: pieces of something long, in their order, as contrastive predictive coding reads it.

A text is strands of sentences that follow each other in a document; each is tokenised as it is. A table is a series:
its rows in order, so many of them a step, each column of numbers scaled by the training part. Strands are cut one
after the other; those of a series overlap by half.
| column | shape | meaning |
| --- | --- | --- |
| input | [n] rows of T texts | of a text: FramedTexts, a sequence for each sentence |
| input | [n, T, stride · columns] | of a series |
| probe | [n] | by which features are judged, never learned from: of a text its document, of a series the class in the
column data.label at the strand's end; −1: none |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.framed import FramedTexts
from canon.data.batching.sequences import Ragged
from canon.data.corpus.token_blocks import documents
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of, tokenizer_for
from canon.data.formats import text as text_files
from canon.data.formats.tables import Table, read_table
from canon.data.kinds import Kind
from canon.data.kinds.table import TABLE
from canon.data.kinds.text import TEXT
from canon.data.paths import find_path
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source, TableSource
from canon.data.splits import choose
from canon.data.targets import Nothing, Target
from canon.data.text.sentences import boundaries
from canon.errors import CanonError

_MOST_CLASSES = 50  # that a probe tells apart
_LEAST_OF_CLASS = 4  # strands of a document that a probe is asked about


@settings
class StepSettings(Vocabulary, Length):
    steps: Annotated[int, Field(ge=2, le=4096)] = Field(
        default=8, description="steps of a strand: sentences of a text, pieces of a series"
    )
    stride: Annotated[int, Field(ge=1, le=1 << 20)] = Field(default=8, description="rows of a table that are one step")


@dataclass(frozen=True)
class StepSchema(TokenSchema):
    """Its tokeniser is "text", where it reads text."""

    encoding = "steps"
    steps: int = 8
    stride: int = 1
    limit: int = 0  # tokens of a sentence
    columns: tuple[str, ...] = ()  # of a series
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def shown(self, inputs: Any, row: int) -> str:
        if not isinstance(inputs, FramedTexts):
            return ""
        return self.tokenizers["text"].decode(inputs.sequence(inputs.starts_n[row]))


class StepEncoding(Encoding):
    reads: ClassVar[tuple[Kind, ...]] = (TEXT, TABLE)
    settings = StepSettings
    schema = StepSchema
    causes = (
        "too few strands are compared (train.batch), or another rate is needed (optimizer.lr)",
        "what follows may not follow from what came before: rows out of order, sentences of many texts",
        "steps may be too long or too short (data.steps, data.stride)",
    )
    takes_text = True
    takes_rows = False

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        if isinstance(source, TableSource):
            return self._fit_series(source, config)
        read = {name: [sentences_of(text) for _, text in documents(part)] for name, part in source.parts.items()}
        sized = Source(source.name, read, test=source.test, origin=source.origin)
        chosen, rule = choose(sized, config)
        parts = {name: [read[part][row] for row in rows] for name, (part, rows) in chosen.items()}
        kind = config.tokenizer or next(iter(source.tokenizers), ask.tokenizer) or "word"
        train = [sentence for document in parts["train"] for sentence in document]
        tokenizer, note = tokenizer_for(kind, train, config)
        schema = StepSchema(
            Nothing(), tokenizers={"text": tokenizer}, steps=config.steps, limit=config.max_length, stride=1
        )
        splits: dict[str, Columns] = {}
        for name, some in parts.items():
            splits[name] = _of_documents(schema, some)
            if not len(splits[name]["input"]):
                raise CanonError(
                    f"{source.name}: no document of the {name} split has {config.steps} sentences; lower data.steps."
                )
        lengths = splits["train"]["input"].lengths_S  # type: ignore[union-attr]
        return finish(source, schema.measured(lengths), splits, rule, config, [note], examples="Strands")

    def _fit_series(self, source: TableSource, config: Any) -> Data:
        names = number_columns(source.parts["train"], config)
        rows = {name: numbers_of(table, names) for name, table in source.parts.items()}
        labels = {name: _labels(table, config.label) for name, table in source.parts.items()}
        sized = Source(source.name, rows, test=source.test, origin=source.origin)
        chosen, rule = choose(sized, config, tail=True)
        parts = {name: rows[part][taken] for name, (part, taken) in chosen.items()}
        mean, std = parts["train"].mean(0), parts["train"].std(0)
        schema = StepSchema(
            Nothing(),
            (config.steps, config.stride * len(names)),
            steps=config.steps,
            stride=config.stride,
            columns=names,
            mean=tuple(mean.tolist()),
            std=tuple(np.where(std > 0, std, 1.0).tolist()),
        )
        splits: dict[str, Columns] = {
            name: _of_series(schema, parts[name], labels[part][taken], name) for name, (part, taken) in chosen.items()
        }
        note = f"A series of {', '.join(names)}, {config.stride} rows a step (data.stride)."
        return finish(source, schema, splits, rule, config, [note], examples="Strands")

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        if isinstance(source, TableSource):
            train = source.parts["train"]
            require_rows(numbers_of(train, number_columns(train, config)), config.steps, config.stride, source.name)
        return Nothing()

    def columns(self, schema: StepSchema, source: Source, config: Any) -> Columns:
        part = source.scored()
        if isinstance(source, TableSource):
            labels = _labels(part, config.label if config.label in part.names else "")
            return _of_series(schema, numbers_of(part, schema.columns), labels, source.name)
        columns = _of_documents(schema, [sentences_of(text) for _, text in documents(part)])
        if not len(columns["input"]):
            raise CanonError(f"{source.name}: no document has {schema.steps} sentences.")
        return columns

    def inputs(self, schema: StepSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        if schema.columns:
            series_of_files, names = [], []
            for source in sources:
                table = source.table() if isinstance(source, Records) else read_table(find_path(source), config)
                part = series(schema, numbers_of(table, schema.columns), str(table.path))
                series_of_files.append(part)
                names += [f"{table.path}, strand {place + 1}" for place in range(len(part))]
            return {"input": np.concatenate(series_of_files)}, names
        texts, names = texts_of(sources, text, lambda path: (text_files.documents(path, config.encoding), "document"))
        return {"input": encoded(schema, [sentences_of(document) or [document] for document in texts])}, names


STEPS = StepEncoding()


def sentences_of(document: str) -> list[str]:
    stops = boundaries(document)
    pieces = (document[begin:stop].strip() for begin, stop in zip([0, *stops], stops, strict=False))
    return [piece for piece in pieces if piece]


def cut(document: Sequence[str], steps: int) -> list[Sequence[str]]:
    """Strands of so many sentences; the last one ends where the document does."""
    starts = list(range(0, len(document) - steps + 1, steps))
    if starts and starts[-1] + steps < len(document):
        starts.append(len(document) - steps)
    return [document[start : start + steps] for start in starts]


def _of_documents(schema: StepSchema, some: Sequence[Sequence[str]]) -> Columns:
    """The strands of documents, and which one each is of; those of few strands are of none."""
    of_each = [cut(document, schema.steps) for document in some]
    counts = np.array([len(strands) for strands in of_each], dtype=np.int64)
    most = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    code = np.full(len(counts), -1, dtype=np.int64)
    known = most[counts[most] >= _LEAST_OF_CLASS]
    code[known] = np.arange(len(known))
    strands = [strand for strands in of_each for strand in strands]
    return {"input": encoded(schema, strands), "probe": np.repeat(code, counts)}


def _labels(table: Table, label: str) -> np.ndarray:
    """The code of each row's class [rows], −1 where there is no column of classes."""
    if not label:
        return np.full(len(table), -1, dtype=np.int64)
    name = table.require(label, "data.label")
    texts = [table.text(name, row) for row in range(len(table))]
    classes = {text: code for code, text in enumerate(sorted(set(texts)))}
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise CanonError(
            f'{table.path}: the column "{name}" (data.label) has {len(classes):,} classes; a probe takes 2 to '
            f"{_MOST_CLASSES}."
        )
    return np.array([classes[text] for text in texts], dtype=np.int64)


def _of_series(schema: StepSchema, rows: np.ndarray, labels: np.ndarray, what: str) -> Columns:
    strands = series(schema, rows, what)
    long = schema.steps * schema.stride
    return {"input": strands, "probe": labels[long - 1 :: max(long // 2, 1)][: len(strands)]}


def encoded(schema: StepSchema, strands: Sequence[Sequence[str]]) -> FramedTexts:
    """A sequence for each sentence; one that has no token has its end's."""
    texts = Ragged.encode(schema.tokenizers["text"], [sentence for strand in strands for sentence in strand])
    kept = np.minimum(texts.lengths, schema.limit) if schema.limit else texts.lengths
    places = np.arange(kept.sum()) + np.repeat(texts.offsets[:-1] - (np.cumsum(kept) - kept), kept)
    tokens = texts.tokens[places]
    parts = np.array([len(strand) for strand in strands], dtype=np.int64)
    return FramedTexts(tokens, np.zeros(len(tokens), dtype=np.uint8), kept, parts)


def number_columns(table: Table, config: Any) -> tuple[str, ...]:
    """The columns of a series: those asked for, else all that are numbers."""
    names = config.features or tuple(name for name in table.names if not table.facts(name).bad)
    names = tuple(table.require(name, "data.features") for name in names if name != config.label)
    if not names:
        raise CanonError(f"{table.path} has no column of numbers, so it is not a series.")
    return names


def numbers_of(table: Table, names: Sequence[str]) -> np.ndarray:
    """[rows, columns]"""
    columns = []
    for name in names:
        if name not in table.names:
            raise CanonError(f'{table.path} has no column "{name}", which the series has.')
        values, bad = table.numbers(name)
        if (wrong := bad | ~np.isfinite(values)).any():
            row = int(wrong.argmax())
            raise table.mistake(row, f'the column "{name}" must be a number, got "{table.text(name, row)}".')
        columns.append(values)
    return np.stack(columns, axis=1)


def require_rows(rows: np.ndarray, steps: int, stride: int, what: str) -> int:
    """The rows of a strand; a sentence where there are fewer."""
    if len(rows) < steps * stride:
        raise CanonError(
            f"{what} has {len(rows)} rows, but {steps} steps of {stride} rows are one strand: lower data.steps or "
            "data.stride."
        )
    return steps * stride


def series(schema: StepSchema, rows: np.ndarray, what: str) -> np.ndarray:
    """[n, T, stride · columns] strands that overlap by half."""
    long = require_rows(rows, schema.steps, schema.stride, what)
    scaled = ((rows - np.array(schema.mean)) / np.array(schema.std)).astype(np.float32)
    starts = np.arange(0, len(rows) - long + 1, max(long // 2, 1))
    return np.stack([scaled[start : start + long].reshape(schema.steps, -1) for start in starts])
